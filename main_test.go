package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestFlagsAreDocumented holds the table of flags in docs/operations.md to the code.
func TestFlagsAreDocumented(t *testing.T) {
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
