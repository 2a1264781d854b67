package observe

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// pattern ties a tool's words to a class of failure. In a table the first match wins.
type pattern struct {
	reason v1alpha1.FailureReason
	match  *regexp.Regexp
	say    func(clues) string
}

// clues are what a message can be made from.
type clues struct {
	names
	exit    int32
	found   []string // what the pattern matched
	last    string   // the last line of the error, or of the output
	log     string   // the whole log as it came
	text    string   // the error
	command string   // of the Dockerfile, at which the build failed
}

// maxError bounds what patterns look at.
const maxError = 16 << 10

// stepFailed: a container failed; its log says why, or at least the step is known.
func stepFailed(s scene) *v1alpha1.Failure {
	if s.failed == nil {
		return nil
	}
	out := s.failed.read(s.Log)
	c := clues{names: s.names, exit: s.failed.terminated.ExitCode, log: s.Log, text: out.text}
	if blank(c.log) {
		c.log = s.failed.terminated.Message
	}
	var table []pattern
	step := s.failed.step
	switch step {
	case v1alpha1.StepSource:
		table = sourcePatterns
	case v1alpha1.StepBuild:
		table = buildPatterns
		d := dialectOf(s.failed.name)
		fault := d.fault(out, c.log)
		c.builder, c.text, c.command = string(d.builder), fault.text, fault.command
		if c.insecure && d.builder == v1alpha1.Kaniko {
			c.text = plainHTTP.ReplaceAllString(c.text, "") // it tries https first all the same, and tells of both tries
		}
		// Without an error the digest tells that the image was built.
		if fault.pushing || c.text == "" && digestOnly.MatchString(s.failed.terminated.Message) {
			step, table = v1alpha1.StepPush, pushPatterns
			c.names = c.pushing(fault)
		}
	default:
		table = strangerPatterns
		c.found = []string{s.failed.name}
	}
	c.text = end(mask(c.text), maxError) // before patterns take a part of it, which may be a password without its URL
	c.last = Squash(output{text: cmp.Or(c.text, out.text)}.last(), 300)
	f := s.failed.failure("")
	f.Step, f.LogTail = step, out.tail()
	f.Reason, f.Message = classify(table, c)
	if f.Reason == v1alpha1.FailureContextNotFound {
		f.Step = v1alpha1.StepBuild // whoever notices it
	}
	return f
}

// classify asks a table. Its last row matches everything.
func classify(table []pattern, c clues) (v1alpha1.FailureReason, string) {
	for _, p := range table {
		if p.match == nil {
			return p.reason, p.say(c)
		}
		if m := p.match.FindStringSubmatch(c.text); m != nil {
			c.found = m
			return p.reason, p.say(c)
		}
	}
	return v1alpha1.FailureJobFailed, ""
}

// strangerPatterns are for a container that something else, a webhook for example, put into the pod.
var strangerPatterns = []pattern{
	{v1alpha1.FailureJobFailed, nil, func(c clues) string {
		return fmt.Sprintf("The container %s, which is not part of the build, failed%s; see to what adds it to the pod%s",
			cut(c.found[0], 100), c.why(), thenAgain)
	}},
}

// why is the last word of the error, or the exit code when there is none.
func (c clues) why() string {
	switch {
	case c.last != "":
		return quoted(c.last)
	case c.exit == 137:
		return " (it was killed, exit code 137)"
	}
	return fmt.Sprintf(" with exit code %d and left no log", c.exit)
}

// words compiles alternatives that are matched in any case.
func words(alternatives ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(alternatives, "|"))
}
