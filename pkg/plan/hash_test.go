package plan

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const fullSpec = `
source:
  git: {url: "git@git.example.com:shop.git", revision: main, secretName: git-creds}
  contextDir: services/shop
dockerfile:
  path: docker/Dockerfile
  target: release
  buildArgs: [{name: VERSION, value: "1.2"}, {name: EMPTY}]
builder:
  resources:
    requests: {cpu: 500m, memory: 1Gi}
    limits: {memory: 4Gi}
image: {name: "registry.example.com/shop:1.0", secretName: regcred, insecure: true}
`

// A change of this value means that every application of every cluster is built again on the day its controller
// is upgraded. Do not change it to make the test pass: change the code back.
const fullSpecHash = "9e55b79af02dd0c7d634de014a38033710b26de1d283488ff79632d85de8a705"

func TestTheHashOfAFullSpecNeverChanges(t *testing.T) {
	build := decoded(t, fullSpec)
	build.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "again"}
	if got := Hash(build); got != fullSpecHash {
		t.Errorf("hash is %s, want %s: this rebuilds every application of every cluster", got, fullSpecHash)
	}
}

// The smallest spec has its own pin: it is what shows that fields which nobody uses stay out.
func TestTheHashOfTheSmallestSpecNeverChanges(t *testing.T) {
	const want = "0a387601d017328132e736e2d4ea607c1d8a85cd1a497a083aba0e6360fbc968"
	if got := Hash(aBuild()); got != want {
		t.Errorf("hash is %s, want %s: this rebuilds every application of every cluster", got, want)
	}
}

func TestSpecsThatMeanTheSameHaveOneHash(t *testing.T) {
	const smallest = `
source: {git: {url: "https://git.example.com/shop.git"}}
image: {name: "registry.example.com/shop:1.0"}
`
	for name, specs := range map[string][2]string{
		"empty sections and none":         {smallest, smallest + "\ndockerfile: {}\nbuilder: {}"},
		"empty values and none":           {smallest, smallest + "\ndockerfile: {path: '', buildArgs: []}\nbuilder: {resources: {limits: {}}}"},
		"keys in another order":           {`{source: {git: {url: u, revision: r}}, image: {name: n}}`, `{image: {name: n}, source: {git: {revision: r, url: u}}}`},
		"quantities written another way":  {`builder: {resources: {limits: {cpu: "1", memory: 1Gi}}}`, `builder: {resources: {limits: {cpu: 1000m, memory: 1024Mi}}}`},
		"false and absent":                {smallest, `{source: {git: {url: "https://git.example.com/shop.git"}}, image: {name: "registry.example.com/shop:1.0", insecure: false}}`},
		"a section that is no input":      {smallest, smallest + "\ndeployment: {replicas: 3}\nsuspend: true\ntimeout: 1m"},
		"a build arg that says it is ''":  {`dockerfile: {buildArgs: [{name: A}]}`, `dockerfile: {buildArgs: [{name: A, value: ""}]}`},
		"a Dockerfile section of nothing": {`dockerfile: null`, `dockerfile: {target: ""}`},
	} {
		t.Run(name, func(t *testing.T) {
			if one, other := Hash(decoded(t, specs[0])), Hash(decoded(t, specs[1])); one != other {
				t.Errorf("%s and %s", one, other)
			}
		})
	}
}

func TestEveryAttemptHasAJobOfItsOwn(t *testing.T) {
	names := map[string]bool{}
	for attempt := range int32(11) {
		names[JobName(aBuild(), Hash(aBuild()), attempt+1)] = true
	}
	if len(names) != 11 {
		t.Errorf("only %d names", len(names))
	}
}

// 0 is all of the history, and nothing is a single commit.
func TestADepthOfZeroIsAnotherInputThanNone(t *testing.T) {
	full := aBuild(func(b *v1alpha1.Build) { b.Spec.Source.Git.Depth = ptr.To[int32](0) })
	if Hash(full) == Hash(aBuild()) {
		t.Error("they have one hash")
	}
}

func TestTheRebuildAnnotationChangesTheHash(t *testing.T) {
	asked := aBuild(func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: "1"} })
	if Hash(asked) == Hash(aBuild()) {
		t.Error("it does not")
	}
}

// isInput says of every section of the spec whether it decides what image comes out. A section that is added to the API
// has to be added here, after a thought.
var isInput = map[string]bool{
	"Source": true, "Dockerfile": true, "Builder": true, "Image": true,
	"Deployment": false, "Timeout": false, "Retries": false, "RunPolicy": false, "Suspend": false, "History": false,
}

func TestEveryInputFieldChangesTheHashAndNoOther(t *testing.T) {
	before := map[string]string{Hash(&v1alpha1.Build{}): "none"} // hash -> the field that gave it
	spec := reflect.TypeFor[v1alpha1.BuildSpec]()
	for i := range spec.NumField() {
		section := spec.Field(i)
		input, known := isInput[section.Name]
		if !known {
			t.Errorf("isInput does not know section %s", section.Name)
		}
		for _, set := range fields(section.Type, section.Name) {
			build := &v1alpha1.Build{}
			set.to(reflect.ValueOf(&build.Spec).Elem().Field(i), "changed")
			hash := Hash(build)
			twin, seen := before[hash]
			switch {
			case input && seen:
				t.Errorf("%s gives the hash of %s", set.name, twin)
			case !input && twin != "none":
				t.Errorf("%s changes the hash, but is no input", set.name)
			case input:
				before[hash] = set.name
			}
		}
	}
}

func TestMetadataAndStatusDoNotChangeTheHash(t *testing.T) {
	want := Hash(aBuild())
	for name, change := range map[string]func(*v1alpha1.Build){
		"labels":             func(b *v1alpha1.Build) { b.Labels = map[string]string{"a": "b"} },
		"another annotation": func(b *v1alpha1.Build) { b.Annotations = map[string]string{"a": "b"} },
		"the generation":     func(b *v1alpha1.Build) { b.Generation = 7 },
		"the image":          func(b *v1alpha1.Build) { b.Status.Image = pushed },
		"a run of no token":  func(b *v1alpha1.Build) { b.Status.Run = &v1alpha1.Run{Job: "shop-1", CompletionTime: &metav1.Time{}} },
	} {
		if got := Hash(aBuild(change)); got != want {
			t.Errorf("%s: the hash changes", name)
		}
	}
}

func TestHashLeavesTheBuildAsItIs(t *testing.T) {
	build := decoded(t, fullSpec)
	before := build.DeepCopy()
	Hash(build)
	if !reflect.DeepEqual(build, before) {
		t.Error("it changed the Build")
	}
}

func TestTheRebuildTokenStaysWhenItsAnnotationIsTakenAway(t *testing.T) {
	annotated := func(token string) func(*v1alpha1.Build) {
		return func(b *v1alpha1.Build) { b.Annotations = map[string]string{v1alpha1.RebuildAnnotation: token} }
	}
	ranFor := func(token string) func(*v1alpha1.Build) {
		return func(b *v1alpha1.Build) { b.Status.Run = &v1alpha1.Run{Rebuild: token} }
	}
	for name, c := range map[string]struct {
		build *v1alpha1.Build
		want  string
	}{
		"never asked for":                  {aBuild(), ""},
		"asked for before the first run":   {aBuild(annotated("1")), "1"},
		"asked for after a run":            {aBuild(annotated("2"), ranFor("1")), "2"},
		"taken away after its run":         {aBuild(ranFor("1")), "1"},
		"taken away before any run":        {aBuild(), ""},
		"set to nothing after a run of it": {aBuild(annotated(""), ranFor("1")), ""},
	} {
		if got := Rebuild(c.build); got != c.want {
			t.Errorf("%s: token is %q, want %q", name, got, c.want)
		}
	}
	if Hash(aBuild(annotated("1"))) != Hash(aBuild(ranFor("1"))) {
		t.Error("taking the annotation away after its run asks for another run")
	}
}

func TestTheNameOfAJobFitsWhereNamesOfJobsGo(t *testing.T) {
	if len(maxName) != 52 {
		t.Fatalf("maxName has %d characters", len(maxName))
	}
	build := aBuild(func(b *v1alpha1.Build) { b.Name = maxName })
	// 63 is the limit of a label's value; the Job controller puts the name of the Job into a label of its pods.
	for attempt := range int32(11) {
		if name := JobName(build, Hash(build), attempt+1); len(name) != 63 {
			t.Errorf("attempt %d: %s has %d characters", attempt+1, name, len(name))
		}
	}
	if name := JobName(build, Hash(build), 1); len(name) != 63 || name[:53] != maxName+"-" {
		t.Errorf("%s has %d characters", name, len(name))
	}
}

func FuzzWithoutEmpty(f *testing.F) {
	for _, seed := range []string{fullSpec, `{"a":{"b":[null,0,"",{}]},"c":false}`, `[[],[[]]]`, `null`, `1.5`} {
		if asJSON, err := yaml.YAMLToJSON([]byte(seed)); err == nil {
			f.Add(string(asJSON))
		}
	}
	canonical := func(t *testing.T, value any) string {
		encoded, err := json.Marshal(withoutEmpty(value))
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value, same any
		if json.Unmarshal([]byte(text), &value) != nil || json.Unmarshal([]byte(text), &same) != nil {
			return
		}
		once := canonical(t, value)
		if object, ok := same.(map[string]any); ok {
			// What a later version of the API adds, and this Build does not use.
			for key, empty := range map[string]any{"later1": nil, "later2": "", "later4": false, "later5": []any{}, "later6": map[string]any{"deep": ""}} {
				if _, taken := object[key]; !taken {
					object[key] = empty
				}
			}
		}
		if again := canonical(t, same); again != once {
			t.Errorf("empty fields change %s to %s", once, again)
		}
		var reread any
		if err := json.Unmarshal([]byte(once), &reread); err != nil {
			t.Fatal(err)
		}
		if twice := canonical(t, reread); twice != once {
			t.Errorf("twice gives %s, once %s", twice, once)
		}
	})
}

func decoded(t *testing.T, spec string) *v1alpha1.Build {
	t.Helper()
	build := &v1alpha1.Build{}
	if err := yaml.UnmarshalStrict([]byte(spec), &build.Spec); err != nil {
		t.Fatal(err)
	}
	return build
}
