package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// hostile are strings that mean something to a shell, to a parser of flags or to the kubelet. The CRD refuses most of
// them in most fields; the Jobs must be safe without it.
var hostile = []string{
	`'; touch /tmp/owned; '`,
	`"$(touch /tmp/owned)"`,
	"`touch /tmp/owned`",
	"first\nsecond",
	"--one-time",
	"-c",
	"a b\tc",
	"$@",
	"$$",
	"$$$",
	"$(KUBERNETES_SERVICE_HOST)",
	"$$(KUBERNETES_SERVICE_HOST)",
	"${HOME}",
	`\`,
	"*",
	"é✓",
}

// Whatever stands in any one field, the Job has as many arguments as with an innocent value there, and the
// commands are the same.
func TestNoStringOfAUserBecomesMoreThanOneArgument(t *testing.T) {
	everyText(t, func(builder v1alpha1.BuilderName, text field) {
		innocent := steps(jobWith(builder, text, "innocent"))
		for _, value := range hostile {
			for i, step := range steps(jobWith(builder, text, value)) {
				if !slices.Equal(step.Command, innocent[i].Command) {
					t.Errorf("%s = %q changes the command of %s to %q", text.name, value, step.Name, step.Command)
				}
				if len(step.Args) != len(innocent[i].Args) {
					t.Errorf("%s = %q gives %s the arguments %q", text.name, value, step.Name, step.Args)
				}
				for j, arg := range step.Args {
					flag, _, _ := strings.Cut(innocent[i].Args[min(j, len(innocent[i].Args)-1)], "=")
					if text.name == "Builder.Args[0]" && arg == escaped(value) {
						continue // which is what it is for
					}
					if !strings.HasPrefix(arg, flag) || !strings.HasPrefix(arg, "--") {
						t.Errorf("%s = %q turns %s of %s into %q", text.name, value, flag, step.Name, arg)
					}
				}
			}
		}
	})
}

// everyText calls f with every string of the input sections, for each builder.
func everyText(t *testing.T, f func(v1alpha1.BuilderName, field)) {
	t.Helper()
	for _, text := range inputTexts(t) {
		for builder := range builders {
			if text.name != "Builder.Name" {
				f(builder, text)
			}
		}
	}
}

// No shell script has a part that a user wrote.
func TestTheShellScriptsAreAlwaysTheSame(t *testing.T) {
	everyText(t, func(builder v1alpha1.BuilderName, text field) {
		for _, value := range hostile {
			for _, step := range steps(jobWith(builder, text, value)) {
				want := []string{"/bin/sh", "-ec", builders[builder].script, step.Name}
				if step.Name == gitSyncContainer {
					want[2] = gitSyncScript
				}
				if step.Command == nil {
					continue
				}
				// Names of variables may be anything, what stands in $(…) of a script too.
				variables := map[string]string{"first ssh ssh-privatekey": "owned", "head -n 1 \"$own/key\"": "owned"}
				var command []string
				for _, part := range step.Command {
					command = append(command, kubeletExpands(part, variables))
				}
				if !slices.Equal(command, want) {
					t.Errorf("%s = %q gives %s the command %q", text.name, value, step.Name, step.Command)
				}
			}
		}
	})
}

// The kubelet expands references to environment variables in arguments. A value has to come out of that as it went in.
func TestWhatUsersWriteReachesTheContainerAsItIs(t *testing.T) {
	variables := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", // every container has it, whatever enableServiceLinks says
		"GITSYNC_USERNAME":        "jane",
	}
	git := func(b *v1alpha1.Build) *v1alpha1.GitSource { return &b.Spec.Source.Git }
	for flag, set := range map[string]func(*v1alpha1.Build, string){
		"--repo=":            func(b *v1alpha1.Build, s string) { git(b).URL = s },
		"--ref=":             func(b *v1alpha1.Build, s string) { git(b).Revision = s },
		"--destination=":     func(b *v1alpha1.Build, s string) { b.Spec.Image.Name = s },
		"--target=":          func(b *v1alpha1.Build, s string) { b.Spec.Dockerfile = &v1alpha1.Dockerfile{Target: s} },
		"--build-arg=VALUE=": func(b *v1alpha1.Build, s string) { b.Spec.Dockerfile = buildArg("VALUE", s) },
		"--context=dir:///kaniko/source/": func(b *v1alpha1.Build, s string) {
			b.Spec.Source.ContextDir = s
		},
		"--dockerfile=/kaniko/source/": func(b *v1alpha1.Build, s string) {
			b.Spec.Dockerfile = &v1alpha1.Dockerfile{Path: s}
		},
	} {
		for _, value := range append(slices.Clone(hostile), "$(GITSYNC_USERNAME)") {
			build := aBuild(func(b *v1alpha1.Build) { set(b, value) })
			var argv []string
			for _, step := range steps(Job(build, Hash(build), 1, Steps{})) {
				for _, arg := range step.Args {
					argv = append(argv, kubeletExpands(arg, variables))
				}
			}
			if !slices.Contains(argv, flag+value) {
				t.Errorf("%s%q does not arrive; the arguments are %q", flag, value, argv)
			}
		}
	}
}

// kubeletExpands does what k8s.io/kubernetes/third_party/forked/golang/expansion does: $(NAME) of a known variable
// becomes its value, $$ becomes $, and everything else stays.
func kubeletExpands(arg string, variables map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(arg); i++ {
		if arg[i] != '$' || i+1 == len(arg) {
			out.WriteByte(arg[i])
			continue
		}
		if arg[i+1] == '$' {
			out.WriteByte('$')
			i++
			continue
		}
		if name, _, closed := strings.Cut(arg[i+1:], ")"); closed && strings.HasPrefix(name, "(") {
			if value, known := variables[name[1:]]; known {
				out.WriteString(value)
				i += len(name) + 1
				continue
			}
		}
		out.WriteByte('$')
	}
	return out.String()
}

func buildArg(name, value string) *v1alpha1.Dockerfile {
	return &v1alpha1.Dockerfile{BuildArgs: []v1alpha1.BuildArg{{Name: name, Value: value}}}
}

// inputTexts are all the strings of the input sections.
func inputTexts(t *testing.T) []field {
	t.Helper()
	var texts []field
	spec := reflect.TypeFor[v1alpha1.BuildSpec]()
	for i := range spec.NumField() {
		if !isInput[spec.Field(i).Name] {
			continue
		}
		for _, f := range within(fields(spec.Field(i).Type, spec.Field(i).Name), func(v reflect.Value) reflect.Value { return v.Field(i) }) {
			if f.text {
				texts = append(texts, f)
			}
		}
	}
	if len(texts) < 8 {
		t.Fatalf("only %d strings in the input sections", len(texts))
	}
	return texts
}

// jobWith is the Job of a Build that has the text in that field and innocent values in all the others.
func jobWith(builder v1alpha1.BuilderName, text field, value string) *batchv1.Job {
	build := aBuild(func(b *v1alpha1.Build) {
		b.Spec.Source.Git.Revision = "main"
		b.Spec.Source.Git.SecretName = "git-creds"
		b.Spec.Image.SecretName = "regcred"
	})
	text.to(reflect.ValueOf(&build.Spec).Elem(), value)
	if build.Spec.Builder == nil {
		build.Spec.Builder = &v1alpha1.Builder{}
	}
	build.Spec.Builder.Name = builder
	return Job(build, Hash(build), 1, Steps{})
}

func steps(job *batchv1.Job) []corev1.Container {
	pod := job.Spec.Template.Spec
	return append(slices.Clone(pod.InitContainers), pod.Containers...)
}
