package plan

import (
	encodingcsv "encoding/csv"
	"encoding/json"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/distribution/reference"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/observe"
)

// Inputs that failed once, and those that matter most, are in testdata/fuzz.

// builderNames has the builders in an order that a number can stand for.
var builderNames = []v1alpha1.BuilderName{v1alpha1.Kaniko, v1alpha1.BuildKit, v1alpha1.Buildah}

// What stands in any one field of the spec is a part of as many arguments as an innocent value, behind the same flags, changes no
// command, is not expanded by the kubelet, and stays in the Build as it was.
func FuzzArgv(f *testing.F) {
	texts := inputTexts(&testing.T{})
	for i, value := range hostile {
		f.Add(byte(i), uint16(i), value)
	}
	f.Add(byte(1), uint16(7), "a,\"b\"\r\n")
	f.Fuzz(func(t *testing.T, builder byte, at uint16, value string) {
		name, text := builderNames[int(builder)%len(builderNames)], texts[int(at)%len(texts)]
		if text.name == "Builder.Name" || value == "" || !utf8.ValidString(value) {
			return
		}
		innocent, steps := steps(jobWith(name, text, "innocent")), steps(jobWith(name, text, value))
		for i, step := range steps {
			if !slices.Equal(step.Command, innocent[i].Command) || len(step.Args) != len(innocent[i].Args) {
				t.Fatalf("%s = %q gives %s the command %q and the arguments %q", text.name, value, step.Name, step.Command, step.Args)
			}
			for j, arg := range step.Args {
				flag, _, _ := strings.Cut(innocent[i].Args[j], "=")
				if text.name == "Builder.Args[0]" && arg == escaped(value) {
					continue
				}
				if !strings.HasPrefix(arg, flag) || !strings.HasPrefix(arg, "--") {
					t.Errorf("%s = %q turns %s of %s into %q", text.name, value, flag, step.Name, arg)
				}
			}
			// A variable of every name that is referred to makes no difference.
			for _, given := range append(slices.Clone(step.Args), step.Command...) {
				owned := map[string]string{}
				for _, part := range strings.Split(given, "$(")[1:] {
					variable, _, _ := strings.Cut(part, ")")
					owned[variable] = "owned"
				}
				if kubeletExpands(given, owned) != kubeletExpands(given, nil) {
					t.Errorf("%s = %q: the kubelet expands %q", text.name, value, given)
				}
			}
		}
		build := aBuild(func(b *v1alpha1.Build) { text.to(reflect.ValueOf(&b.Spec).Elem(), value) })
		given := build.DeepCopy()
		job := Job(build, Hash(build), 1, testSteps)
		if !reflect.DeepEqual(build, given) {
			t.Error("the Build was changed")
		}
		if again := Job(build, Hash(build), 1, testSteps); !reflect.DeepEqual(job, again) {
			t.Error("the Job comes out otherwise the second time")
		}
	})
}

// A list that is written as one value is read as the same list, but for the carriage returns that a reader of CSV drops.
func FuzzCSV(f *testing.F) {
	f.Add("annotation.a=x,y", `"`)
	f.Add("type=image,push=false\n", "")
	f.Add(`\.`, " a")
	f.Fuzz(func(t *testing.T, one, other string) {
		if strings.Contains(one+"|"+other, "\r") {
			return
		}
		for _, fields := range [][]string{{"id=" + one}, {one, other}, {"name=" + one, "ref=" + other, "push=true"}} {
			reader := encodingcsv.NewReader(strings.NewReader(csv(fields...)))
			got, err := reader.Read()
			if err != nil || !slices.Equal(got, fields) {
				t.Errorf("%q is read as %q: %v", fields, got, err)
			}
			if more, err := reader.Read(); err == nil {
				t.Errorf("%q leaves %q", fields, more)
			}
		}
	})
}

// tomlTables reads the TOML that the builders get: tables of strings, lists of strings and switches. It knows no more of TOML
// than that, and of escapes also the three of Go that TOML has not, for characters that the CRD lets no name have.
func tomlTables(t *testing.T, config string) []tomlTable {
	t.Helper()
	tables := []tomlTable{{}}
	for config != "" {
		if header, ok := strings.CutPrefix(config, "["); ok {
			header = strings.TrimPrefix(header, "[")
			at := strings.IndexAny(header, "\"]")
			table := tomlTable{name: header[:at]}
			if header = header[at:]; header[0] == '"' {
				table.of, header = tomlString(t, header)
			}
			config = strings.TrimLeft(header, "]")
			tables = append(tables, table)
		} else {
			key, rest, _ := strings.Cut(config, " = ")
			table := &tables[len(tables)-1]
			if list, ok := strings.CutPrefix(rest, "["); ok {
				for list[0] != ']' {
					var value string
					value, list = tomlString(t, strings.TrimPrefix(list, ", "))
					table.values = append(table.values, key+" = "+value)
				}
				config = list[1:]
			} else if rest[0] == '"' {
				var value string
				value, config = tomlString(t, rest)
				table.values = append(table.values, key+" = "+value)
			} else {
				at := strings.IndexByte(rest, '\n')
				table.values, config = append(table.values, key+" = "+rest[:at]), rest[at:]
			}
		}
		if !strings.HasPrefix(config, "\n") {
			t.Fatalf("behind the end of a line stands %q", config)
		}
		config = config[1:]
	}
	return tables
}

type tomlTable struct {
	name, of string
	values   []string
}

// tomlString reads a basic string.
func tomlString(t *testing.T, text string) (value, rest string) {
	t.Helper()
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return out.String(), text[i+1:]
		case c < ' ' && c != '\t' || c == 0x7f:
			t.Fatalf("a control character in %q", text)
		case c == '\\':
			i++
			if at := strings.IndexByte(`btnfr"\av`, text[i]); at >= 0 {
				out.WriteByte("\b\t\n\f\r\"\\\a\v"[at])
				continue
			}
			digits := map[byte]int{'u': 4, 'U': 8, 'x': 2}[text[i]]
			r, err := strconv.ParseUint(text[i+1:i+1+digits], 16, 32)
			if err != nil {
				t.Fatalf("TOML knows no \\%c: %q", text[i], text)
			}
			out.WriteRune(rune(r))
			i += digits
		default:
			out.WriteByte(c)
		}
	}
	t.Fatalf("%q does not end", text)
	return "", ""
}

// The hosts that a user names are in the builders' configuration files what they are in the spec, and nothing but that.
func FuzzRegistries(f *testing.F) {
	f.Add("mirror.example.com", "registry.example.com:5000", true)
	f.Add("a\"]\nhttp = true\n[x.\"b", "[2001:db8::1]:5000", false)
	f.Add("\x00\x7f\u0085\u202e\U0001f600", `\`, true)
	f.Fuzz(func(t *testing.T, mirror, host string, insecure bool) {
		if mirror == "" || host == "" || mirror == "docker.io" || host == "docker.io" || !utf8.ValidString(mirror) || !utf8.ValidString(host) {
			return
		}
		build := aBuild(func(b *v1alpha1.Build) {
			b.Spec.Image.Insecure = insecure
			b.Spec.Builder = &v1alpha1.Builder{Mirrors: []string{mirror, "second.example.com"}, InsecureRegistries: []string{host}}
		})
		given := build.DeepCopy()

		hosts := []string{host}
		if insecure {
			hosts = append(hosts, mirror, "second.example.com", "registry.example.com")
		}
		slices.Sort(hosts)
		want := []tomlTable{{}, {"registry.", "docker.io", []string{"mirrors = " + mirror, "mirrors = second.example.com"}}}
		for _, host := range slices.Compact(hosts) {
			want = append(want, tomlTable{"registry.", host, []string{"http = true"}})
		}
		if got := tomlTables(t, buildKitFiles(build)[buildKitConfig]); !reflect.DeepEqual(got, want) {
			t.Errorf("BuildKit reads\n%q, want\n%q", got, want)
		}

		known := strconv.FormatBool(insecure || mirror == host)
		want = []tomlTable{
			{values: []string{"unqualified-search-registries = docker.io", "short-name-mode = disabled"}},
			{name: "registry", values: []string{"location = docker.io"}},
			{name: "registry.mirror", values: []string{"location = " + mirror, "insecure = " + known}},
			{name: "registry.mirror", values: []string{"location = second.example.com", "insecure = " + strconv.FormatBool(insecure || host == "second.example.com")}},
			{name: "registry", values: []string{"location = " + host, "insecure = true"}},
		}
		if got := tomlTables(t, buildahFiles(build)[buildahRegistries]); !reflect.DeepEqual(got, want) {
			t.Errorf("Buildah reads\n%q, want\n%q", got, want)
		}
		if !reflect.DeepEqual(build, given) {
			t.Error("the Build was changed")
		}
	})
}

// The pattern of a directory is one line of a gitignore file, and matches that directory and nothing else.
func FuzzSparsePattern(f *testing.F) {
	for _, dir := range []string{".", "./services/[shop]*", `a\*b`, "!a", "#a", " a ", "**", "a?", "é", `\`} {
		f.Add(dir)
	}
	f.Fuzz(func(t *testing.T, dir string) {
		if strings.ContainsFunc(dir, unicode.IsControl) {
			return // which the CRD does not let pass
		}
		build := aBuild(func(b *v1alpha1.Build) { b.Spec.Source.Git.Sparse, b.Spec.Source.ContextDir = true, dir })
		pattern, ended := strings.CutSuffix(files(build)[sparseFile], "\n")
		if !ended || !strings.HasPrefix(pattern, "/") || strings.Contains(pattern, "\n") {
			t.Fatalf("the pattern of %q is %q", dir, pattern)
		}
		var matches strings.Builder
		for i := 0; i < len(pattern); i++ {
			switch pattern[i] {
			case '\\':
				i++
			case '*', '?', '[':
				t.Errorf("%q matches more than %q", pattern, dir)
			}
			matches.WriteByte(pattern[i])
		}
		if want := "/" + path.Clean(dir) + "/"; matches.String() != want {
			t.Errorf("%q matches %q, want %q", pattern, matches.String(), want)
		}
	})
}

// Under whatever name and tags an image is to be pushed: each destination is the full name of the same repository, without
// anything that a shell splits or a list of names does, and the first is the Build's own.
func FuzzDestinations(f *testing.F) {
	f.Add("registry.example.com/shop:1.0", "latest")
	f.Add("shop", "latest")
	f.Add("[2001:db8::1]:5000/shop@"+strings.TrimPrefix(pushed, "registry.example.com/shop@"), "1.0")
	f.Add("a,b", "x y")
	f.Fuzz(func(t *testing.T, name, tag string) {
		named, err := reference.ParseNormalizedNamed(name)
		if err != nil {
			return
		}
		if _, err := reference.WithTag(reference.TrimNamed(named), tag); err != nil {
			return
		}
		image := v1alpha1.Image{Name: name, AdditionalTags: []string{tag}}
		all := Destinations(image)
		if !reflect.DeepEqual(image, v1alpha1.Image{Name: name, AdditionalTags: []string{tag}}) {
			t.Error("the image was changed")
		}
		if len(all) == 0 || len(all) > 2 || all[0] != reference.TagNameOnly(named).String() {
			t.Fatalf("%q and %q give %q", name, tag, all)
		}
		for _, destination := range all {
			read, err := reference.ParseNormalizedNamed(destination)
			if err != nil || read.Name() != named.Name() || strings.ContainsAny(destination, " \t\n,*?\"'$") {
				t.Errorf("%q and %q give %q: %v", name, tag, destination, err)
			}
		}
		if last := all[len(all)-1]; last != named.Name()+":"+tag {
			t.Errorf("%q and %q give %q", name, tag, all)
		}
		if registryOf(name) != reference.Domain(named) {
			t.Errorf("the registry of %q is %q", name, registryOf(name))
		}
	})
}

// The name of a Job is one that Kubernetes takes, is another for each attempt, and depends on nothing but inputs and attempt.
func FuzzJobName(f *testing.F) {
	f.Add("shop", "again", "main", int32(1))
	f.Add(maxName, "\xff\x00", "", int32(11))
	f.Fuzz(func(t *testing.T, name, rebuild, revision string, attempt int32) {
		if len(name) > len(maxName) || len(validation.IsDNS1123Label(name)) > 0 || attempt < 1 || attempt > 11 {
			return
		}
		build := aBuild(func(b *v1alpha1.Build) {
			b.Name, b.Spec.Source.Git.Revision = name, revision
			b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: rebuild}
		})
		job := Job(build, Hash(build), attempt, testSteps)
		if wrong := validation.IsDNS1123Label(job.Name); len(wrong) > 0 || !strings.HasPrefix(job.Name, name+"-") {
			t.Errorf("the Job is called %q: %v", job.Name, wrong)
		}
		if JobName(build, Hash(build), attempt+1) == job.Name {
			t.Errorf("two attempts are called %q", job.Name)
		}
		run := observe.Observe(observe.Evidence{Job: job, Build: build}, time.Unix(0, 0))
		shown := !strings.ContainsFunc(revision, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) &&
			strings.TrimSpace(revision) == revision && utf8.RuneCountInString(revision) <= maxToken
		if run.Hash != Hash(build) || run.Attempt != attempt || utf8.ValidString(rebuild) && run.Rebuild != Rebuild(build) || shown && run.Revision != revision {
			t.Errorf("of the Job is read %+v", run.Run)
		}
	})
}

// The image that a digest stands for is one that the status knows, and has that digest.
func FuzzRollback(f *testing.F) {
	f.Add("sha256:111111111111", pushed)
	f.Add("", "shop@")
	f.Add("sha256:", "a@b@sha256:1")
	f.Fuzz(func(t *testing.T, wanted, known string) {
		build := deployed(func(b *v1alpha1.Build) { b.Spec.Deployment.Rollback = wanted })
		status := v1alpha1.BuildStatus{Image: "newest@x", History: []v1alpha1.Run{{Image: ""}, {Image: known}}}
		image, _, failure := Target(build, status)
		if (image == "") != (failure != nil) {
			t.Errorf("the image is %q, the failure %+v", image, failure)
		}
		_, digest, _ := strings.Cut(image, "@")
		if image != "" && (image != known && image != status.Image || !strings.HasPrefix(digest, wanted)) {
			t.Errorf("%q of %q is %q", wanted, known, image)
		}
	})
}

// An object is no other than itself, nor with what others added to it or what the API server counts; a value that was changed is
// seen. Nothing that is compared is changed.
func FuzzDrift(f *testing.F) {
	for _, seed := range []string{
		`{"metadata": {"annotations": {"a": "b"}}, "spec": {"selector": {"a": "b"}, "containers": [{"name": "app", "env": [{"name": "A"}]}]}}`,
		`{"metadata": [], "spec": {"containers": {"name": null}, "ports": [1, null, []]}}`,
		`{"selector": {"selector": {}}, "matchLabels": null, "args": [[], {}, 1e400]}`,
		`{"metadata": {"annotations": null, "managedFields": 1}, "status": {}, "kind": "Deployment"}`,
	} {
		f.Add(seed, "other")
	}
	f.Fuzz(func(t *testing.T, text, extra string) {
		var want, live map[string]any
		if json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal([]byte(text), &live) != nil || want == nil {
			return
		}
		given, _ := json.Marshal(want)
		if Differs(want, live) {
			t.Errorf("%s differs from itself", given)
		}
		answer := Answer(want, live)
		if _, taken := live[extra]; !taken && utf8.ValidString(extra) {
			live[extra] = extra
			if Differs(want, live) {
				t.Errorf("%s differs with %q beside it", given, extra)
			}
			if extra != "status" && Answer(want, live) == answer {
				t.Errorf("with %q the answer %s is the same", extra, given)
			}
			delete(live, extra)
		}
		live["status"] = map[string]any{"replicas": 1}
		if metadata, ok := live["metadata"].(map[string]any); ok {
			metadata["resourceVersion"], metadata["generation"], metadata["managedFields"] = extra, 7, []any{extra}
		}
		if got := Answer(want, live); got != answer {
			t.Errorf("what the API server counts changes the answer of %s", given)
		}
		for key, value := range want {
			if _, scalar := value.(string); scalar && key != "kind" && key != "apiVersion" {
				live[key] = value.(string) + "x"
				if !Differs(want, live) {
					t.Errorf("another %q of %s is not seen", key, given)
				}
			}
		}
		if after, _ := json.Marshal(want); string(after) != string(given) {
			t.Errorf("%s became %s", given, after)
		}
		_ = named("", "", want)
		_ = plain("", "", want)
	})
}

// Whole seconds are never less than the duration, and less than one more.
func FuzzSeconds(f *testing.F) {
	for _, d := range []int64{0, 1, 999_999_999, 1_000_000_000, 1_500_000_000, int64(720 * time.Hour), int64(720*time.Hour) + 1} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, nanoseconds int64) {
		d := time.Duration(nanoseconds)
		if d < 0 || d > 87600*time.Hour {
			return
		}
		if got := time.Duration(seconds(d)) * time.Second; got < d || got-d >= time.Second {
			t.Errorf("%s becomes %s", d, got)
		}
	})
}

// Whatever the containers of a Deployment are called that is to be adopted, and whatever is wrong with a template, the failure is
// one line that fits into a status.
func FuzzAdoption(f *testing.F) {
	f.Add("web", "app", 2)
	f.Add(strings.Repeat("a", 63), "app", 2000)
	f.Add("\x1b[31m\n", "\xff", 3)
	f.Fuzz(func(t *testing.T, container, wanted string, count int) {
		build := deployed(func(b *v1alpha1.Build) { b.Spec.Deployment.Adopt, b.Spec.Deployment.ContainerName = true, wanted })
		live := &appsv1.Deployment{}
		live.Name = build.Name
		for range int(uint(count) % 3000) {
			live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: container})
		}
		_, failure := Deployment(build, pushed, live)
		if len(live.Spec.Template.Spec.Containers) > 0 && container == appContainer(build) {
			if failure != nil {
				t.Errorf("it is not adopted: %s", failure.Message)
			}
			return
		}
		if failure == nil || !utf8.ValidString(failure.Message) || strings.ContainsFunc(failure.Message, unicode.IsControl) ||
			utf8.RuneCountInString(failure.Message) > maxMessage {
			t.Errorf("the failure is %.2000q", ptr.Deref(failure, v1alpha1.Failure{}).Message)
		}
	})
}
