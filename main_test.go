package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFlagsAreDocumented holds the table of flags in docs/operations.md to the code.
func TestFlagsAreDocumented(t *testing.T) {
	t.Setenv(enableWebhooks, "")
	var table strings.Builder
	flags := flag.NewFlagSet("build-controller", flag.ContinueOnError)
	new(options).addFlags(flags)
	flags.VisitAll(func(f *flag.Flag) {
		value := f.DefValue
		if value == "" {
			value = "(empty)"
		}
		fmt.Fprintf(&table, "| `-%s` | `%s` | %s |\n", f.Name, value, f.Usage)
	})
	doc, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("docs/operations.md must have these rows:\n%s", table.String())
	}
}

// TestTestsThatSecurityIsSaidToHaveExist holds the table of threats in docs/security.md to the tests.
func TestTestsThatSecurityIsSaidToHaveExist(t *testing.T) {
	doc, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((Test|Fuzz)[A-Za-z]+)`").FindAllStringSubmatch(string(doc), -1)
	if len(named) < 20 {
		t.Errorf("docs/security.md names %d tests", len(named))
	}
	for _, name := range named {
		if !strings.Contains(sources.String(), "func "+name[1]+"(") {
			t.Errorf("docs/security.md names %s, which does not exist", name[1])
		}
	}
}
