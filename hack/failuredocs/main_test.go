package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageIsNotBehindTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	code, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		t.Fatal(err)
	}
	want, err := write(code)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Error("docs/failures.md is out of date: go run ./hack/failuredocs >docs/failures.md")
	}
	if classes := strings.Count(string(code), ` FailureReason = "`); strings.Count(want, "\n| `") != classes {
		t.Errorf("the page has not all %d classes", classes)
	}
}

func TestEveryClassSaysWhatItMeansAndWhatToDo(t *testing.T) {
	const before, after = "package v1alpha1\n\nconst (\n\t// Build: the image.\n\n", "\tFailureA FailureReason = \"A\"\n)\n"
	for sentence, c := range map[string]struct{ code, want string }{
		"a class is a row": {before + "\t// FailureA: it\n\t// means a|b.\n\t// To do: mend\n\t// it.\n" + after,
			"\n## Build\n\nThe image.\n\n| reason | meaning | what to do | then |\n|---|---|---|---|\n| `A` | It means a\\|b. | Mend it. | stays |\n"},
		"a class without a comment is an error":      {before + after, "what it means"},
		"a class without a meaning is an error":      {before + "\t// To do: mend it.\n" + after, "what it means"},
		"a class of another's name is an error":      {before + "\t// FailureB: it means.\n\t// To do: mend it.\n" + after, "FailureA: "},
		"a class without something to do is one":     {before + "\t// FailureA: it means.\n" + after, "what to do"},
		"a class with nothing to do is an error":     {before + "\t// FailureA: it means.\n\t// To do:\n" + after, "what to do"},
		"a class outside of a step is an error":      {"package v1alpha1\n\nconst (\n\t// FailureA: it means.\n\t// To do: mend it.\n" + after, "no step"},
		"a step without what it means is an error":   {strings.ReplaceAll(before, ": the image.", ".") + "\t// FailureA: it means.\n\t// To do: mend it.\n" + after, "Step: "},
		"code without classes is an error":           {"package v1alpha1\n", "no constants"},
		"code that the compiler refuses is an error": {"package", "expected"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := write([]byte(c.code))
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
