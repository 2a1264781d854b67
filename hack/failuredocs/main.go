// Command failuredocs prints docs/failures.md, from the comments on the classes of failures and from what the controller
// does about each.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

const source = "pkg/apis/build/v1alpha1/failure.go"

func main() {
	code, err := os.ReadFile(source)
	if err != nil {
		log.Fatal(err)
	}
	page, err := write(code)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(page)
}

// write returns the page that the code of the classes asks for.
func write(code []byte) (string, error) {
	groups, err := read(code)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(head())
	for _, group := range groups {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| reason | meaning | what to do | then |\n|---|---|---|---|\n", group.step, group.about)
		for _, class := range group.classes {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", class.reason, cell(class.meaning), cell(class.cure), observe.Behavior(class.reason))
		}
	}
	return page.String(), nil
}

func head() string {
	pauses, retries := pausesOfRetries()
	shortest, longest := pausesOfWaiting()
	return fmt.Sprintf("# Failures\n\n"+
		"Written by hack/update-codegen.sh from %s and pkg/observe/retry.go. `status.failure` has the step, the reason, a message with the\n"+
		"names of this very Build, the exit code and the end of the log.\n\n"+
		"- **goes on by itself**: the run cannot start and nothing was tried; its Job is taken away, and made anew after %s and again,\n"+
		"  at longer and longer times and at the latest after %s, until the cause is gone.\n"+
		"- **tried again**: the run has failed of something that passes by itself mostly; there are %d more attempts, or as many as\n"+
		"  `spec.retries` says, after %s, %s, %s and so on, at most after %s.\n"+
		"- **taken back**: the Deployment returns to the image that was available before, unless `spec.deployment.onFailure` is Keep\n"+
		"  ([rollouts.md](rollouts.md)).\n"+
		"- **stays**: nothing more is tried until what is to be done is done.\n\n"+
		"A change of `spec.source`, `spec.dockerfile`, `spec.builder` or `spec.image` starts a new run. After a cure anywhere else ask for one:\n\n"+
		"```console\n$ kubectl annotate build/shop %s=$(date +%%s) --overwrite\n```\n",
		source, short(shortest), short(longest), retries, short(pauses[0]), short(pauses[1]), short(pauses[2]), short(pauses[len(pauses)-1]), v1alpha1.RebuildAnnotation)
}

// pausesOfRetries asks the controller's code for the pauses before further attempts, and how many there are by default.
func pausesOfRetries() (pauses []time.Duration, retries int) {
	run := v1alpha1.Run{Result: string(v1alpha1.FailureEvicted), CompletionTime: &metav1.Time{}}
	many := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Retries: ptr.To[int32](10)}}
	for run.Attempt = 1; ; run.Attempt++ {
		at, ok := observe.Again(many, run)
		if !ok {
			return pauses, retries
		}
		pauses = append(pauses, at.Sub(run.CompletionTime.Time))
		if _, ok := observe.Again(&v1alpha1.Build{}, run); ok {
			retries++
		}
	}
}

// pausesOfWaiting asks the controller's code for the pauses before a run is made anew that waits, or has waited for a day.
func pausesOfWaiting() (shortest, longest time.Duration) {
	pause := func(waited time.Duration) time.Duration {
		start := metav1.NewTime(time.Unix(0, 0))
		build := &v1alpha1.Build{Status: v1alpha1.BuildStatus{
			Run:     &v1alpha1.Run{StartTime: &start},
			Failure: &v1alpha1.Failure{Reason: v1alpha1.FailureUnschedulable},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionBuilt, Reason: string(v1alpha1.FailureUnschedulable),
				LastTransitionTime: metav1.NewTime(start.Add(-waited))}},
		}}
		_, due := observe.NextAttempt(build, "")
		return due.Sub(start.Time)
	}
	return pause(0), pause(24 * time.Hour)
}

// short writes 5 min for what Go writes as 5m0s.
func short(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// group is the classes of a step.
type group struct {
	step, about string
	classes     []class
}

// class is one of failures.
type class struct {
	reason        v1alpha1.FailureReason
	meaning, cure string
}

// read finds the constants of the type FailureReason. A comment that belongs to none of them begins a group.
func read(code []byte) ([]group, error) {
	file, err := parser.ParseFile(token.NewFileSet(), source, code, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, declaration := range file.Decls {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST || !ofFailures(constants) {
			continue
		}
		last := constants.Lparen
		for _, spec := range constants.Specs {
			value := spec.(*ast.ValueSpec)
			for _, comment := range file.Comments {
				if comment.Pos() > last && comment.End() < value.Pos() && comment != value.Doc {
					step, about, ok := strings.Cut(oneLine(comment.Text()), ": ")
					if !ok {
						return nil, fmt.Errorf("%q is not of the form \"Step: what it is.\"", oneLine(comment.Text()))
					}
					groups = append(groups, group{step: step, about: capital(about)})
				}
			}
			last = value.End()
			class, err := readClass(value)
			if err != nil {
				return nil, err
			}
			if len(groups) == 0 {
				return nil, fmt.Errorf("no step stands above %s", class.reason)
			}
			groups[len(groups)-1].classes = append(groups[len(groups)-1].classes, class)
		}
	}
	if groups == nil {
		return nil, fmt.Errorf("no constants of the type FailureReason")
	}
	return groups, nil
}

func ofFailures(constants *ast.GenDecl) bool {
	kind, ok := constants.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
	return ok && kind.Name == "FailureReason"
}

// toDo is between what a class means and what to do about it.
const toDo = "\nTo do:"

func readClass(value *ast.ValueSpec) (class, error) {
	name := value.Names[0].Name
	if len(value.Values) != 1 {
		return class{}, fmt.Errorf("%s has no value", name)
	}
	literal, ok := value.Values[0].(*ast.BasicLit)
	if !ok {
		return class{}, fmt.Errorf("%s is not given as a text", name)
	}
	reason, err := strconv.Unquote(literal.Value)
	if err != nil {
		return class{}, fmt.Errorf("%s: %w", name, err)
	}
	meaning, cure, _ := strings.Cut(value.Doc.Text(), toDo)
	meaning, named := strings.CutPrefix(oneLine(meaning), name+": ")
	if !named || !strings.HasSuffix(meaning, ".") {
		return class{}, fmt.Errorf("the comment of %s has to begin with \"%s: \" and a sentence that says what it means", name, name)
	}
	if cure = oneLine(cure); !strings.HasSuffix(cure, ".") {
		return class{}, fmt.Errorf("the comment of %s has to end with a line \"To do: \" and a sentence that says what to do", name)
	}
	return class{reason: v1alpha1.FailureReason(reason), meaning: capital(meaning), cure: capital(cure)}, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// capital begins a sentence, unless its first word is a name that begins otherwise.
func capital(text string) string {
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(word, ".-") || word == "ssh" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
