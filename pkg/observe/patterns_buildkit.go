package observe

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// buildKit begins every line of what a RUN prints with the step and the time, so a line that begins otherwise is its own.
var buildKit = dialect{
	builder:  v1alpha1.BuildKit,
	usage:    regexp.MustCompile(`(?m)^NAME:\n   buildctl `),
	usageEnd: regexp.MustCompile(`(?m)^GLOBAL OPTIONS:$`),
	// The output of the step that failed, which is shown once more under its name.
	repeated: regexp.MustCompile(`(?m)^------\n > (?:[^\n]*\n)*?------\n`),
	fault:    buildKitFault,
}

var (
	// The daemon did not start, and its log follows; or the client's error.
	buildKitError = regexp.MustCompile(`(?ms)^could not connect to unix://.*|^error: [^\n]*`)
	buildKitRun   = regexp.MustCompile(`process ("(?:[^"\\\n]|\\.)*") did not complete successfully`)
	buildKitTrap  = regexp.MustCompile(`(?m)^sh: can't kill pid [^\n]*\n?`) // the script's own end when its daemon is gone
	buildKitCache = regexp.MustCompile(`(?m)^(#\d+ )exporting cache to registry$`)
)

func buildKitFault(o output, _ string) fault {
	errors := buildKitError.FindAllString(buildKitTrap.ReplaceAllString(o.text, ""), -1)
	if errors == nil && o.usage {
		errors = []string{"error: flag provided but not defined"} // it prints how it is used for no other reason
	}
	if errors == nil {
		return fault{}
	}
	f := fault{text: errors[len(errors)-1]}
	if m := buildKitRun.FindStringSubmatchIndex(f.text); m != nil {
		f.command, _ = strconv.Unquote(f.text[m[2]:m[3]])
		f.text = f.text[:m[2]] + f.text[m[3]:]
	}
	if m := buildKitCache.FindStringSubmatch(o.text); m != nil {
		f.cache = strings.Contains(o.text, "\n"+m[1]+"ERROR: ")
	}
	f.pushing, f.to = f.cache || strings.HasPrefix(f.text, "error: failed to solve: failed to push "), pushedTo(f.text)
	return f
}
