package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// ask sets each field of Capabilities.
var ask = map[string]func(*v1alpha1.Build){
	"dockerfile.target": func(b *v1alpha1.Build) { dockerfileOf(b).Target = "release" },
	"dockerfile.buildArgs": func(b *v1alpha1.Build) {
		dockerfileOf(b).BuildArgs = []v1alpha1.BuildArg{{Name: "VERSION", Value: "1,2 \"3\""}}
	},
	"image.additionalTags":  func(b *v1alpha1.Build) { b.Spec.Image.AdditionalTags = []string{"latest", "1.0", "v1"} },
	"image.labels":          func(b *v1alpha1.Build) { b.Spec.Image.Labels = map[string]string{"b": "two", "a": "1"} },
	"image.annotations":     func(b *v1alpha1.Build) { b.Spec.Image.Annotations = map[string]string{"b": `"2", or more`, "a": "1"} },
	"image.reproducible":    func(b *v1alpha1.Build) { b.Spec.Image.Reproducible = true },
	"image.sbom":            func(b *v1alpha1.Build) { b.Spec.Image.SBOM = true },
	"image.provenance":      func(b *v1alpha1.Build) { b.Spec.Image.Provenance = true },
	"image.insecure":        func(b *v1alpha1.Build) { b.Spec.Image.Insecure = true },
	"image.caConfigMapName": func(b *v1alpha1.Build) { b.Spec.Image.CAConfigMapName = "corp-ca" },
	"builder.secrets": func(b *v1alpha1.Build) {
		builderIn(b).Secrets = []v1alpha1.BuildSecret{{ID: "npm", SecretName: "npm", Key: "token"}}
	},
	"builder.platforms, one":     func(b *v1alpha1.Build) { builderIn(b).Platforms = []string{"linux/arm64"} },
	"builder.platforms, several": func(b *v1alpha1.Build) { builderIn(b).Platforms = []string{"linux/amd64", "linux/arm/v7"} },
	"builder.cache.repository":   func(b *v1alpha1.Build) { cacheIn(b).Repository = "cache.example.com:5000/shop" },
	"builder.cache.ttl":          func(b *v1alpha1.Build) { cacheIn(b).TTL = &metav1.Duration{Duration: 36 * time.Hour} },
	"builder.insecureRegistries": func(b *v1alpha1.Build) { builderIn(b).InsecureRegistries = []string{"base.example.com:5000"} },
	"builder.mirrors":            func(b *v1alpha1.Build) { builderIn(b).Mirrors = []string{"mirror.example.com:5000"} },
}

func dockerfileOf(b *v1alpha1.Build) *v1alpha1.Dockerfile {
	if b.Spec.Dockerfile == nil {
		b.Spec.Dockerfile = &v1alpha1.Dockerfile{}
	}
	return b.Spec.Dockerfile
}

func builderIn(b *v1alpha1.Build) *v1alpha1.Builder {
	if b.Spec.Builder == nil {
		b.Spec.Builder = &v1alpha1.Builder{}
	}
	return b.Spec.Builder
}

func cacheIn(b *v1alpha1.Build) *v1alpha1.Cache {
	builder := builderIn(b)
	if builder.Cache == nil {
		builder.Cache = &v1alpha1.Cache{Repository: "cache.example.com/other"}
	}
	return builder.Cache
}

// What the table calls the way in which a builder honours a field has to be in the Job that asks for it.
func TestABuilderHonoursWhatItsTableSays(t *testing.T) {
	for _, c := range Capabilities {
		for name, how := range c.By {
			build := aBuild(func(b *v1alpha1.Build) { builderIn(b).Name = name })
			ask[c.Field](build)
			encoded, err := json.Marshal(Job(build, "0123456789", 1, testSteps))
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range strings.Split(how, ", ") {
				if !strings.Contains(string(encoded), word) {
					t.Errorf("%s is to honour %s with %s, which its Job does not have", name, c.Field, word)
				}
			}
		}
	}
}

const tableStart, tableEnd = "<!-- what each builder can do, from pkg/plan/capabilities.go -->\n", "<!-- end -->"

// The documentation has the table of the code: go test ./pkg/plan -update writes it.
func TestTheDocumentationHasTheTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| field | Kaniko | BuildKit | Buildah |\n|---|---|---|---|\n")
	for _, c := range Capabilities {
		fmt.Fprintf(&table, "| %s |", c.Field)
		for _, name := range []v1alpha1.BuilderName{v1alpha1.Kaniko, v1alpha1.BuildKit, v1alpha1.Buildah} {
			how := "—"
			if with, can := c.By[name]; can {
				how = "`" + strings.ReplaceAll(with, ", ", "`, `") + "`"
			}
			fmt.Fprintf(&table, " %s |", how)
		}
		table.WriteString("\n")
	}
	table.WriteString("\n")

	file := filepath.Join("..", "..", "docs", "builders.md")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), tableStart)
	was, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if was == table.String() {
		return
	}
	if !*update {
		t.Fatalf("%s is behind the code: run %s", file, "go test ./pkg/plan -update")
	}
	if err := os.WriteFile(file, []byte(before+tableStart+table.String()+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
