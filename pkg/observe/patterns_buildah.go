package observe

import (
	"regexp"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// buildah prints what a RUN prints as it is, on two streams that need not keep their order at the end.
var buildah = dialect{builder: v1alpha1.Buildah, fault: buildahFault}

var (
	// What only buildah says; any other error counts when nothing follows it.
	buildahError = regexp.MustCompile(`(?m)^Error: (?:building at STEP "|creating build (?:container|executor): |pushing (?:image|manifest) |failed pushing cache )` +
		`|^Error: [^\n]*\s*\z|^Error during unshare\(`)
	// With several platforms there can be several errors: the first has to do.
	buildahErrors = regexp.MustCompile(`(?m)^Error: \d+ errors occurred:\n\t\* `)
	// The instruction is the user's: it may have quotes and colons in it, a RUN also further lines. The first that matches counts.
	buildahSteps = []*regexp.Regexp{
		regexp.MustCompile(`(?s)^Error: building at STEP "(RUN) (.*?)": (?:exit status |while running runtime: |resolving mountpoints |failed pushing cache )`),
		regexp.MustCompile(`^Error: building at STEP "(RUN) ([^\n]*|(?s:.*))": `),
		regexp.MustCompile(`^Error: building at STEP "(\w+) ([^\n]*?)": `),
	}
	// What helpers say at the end of a RUN, even in the last line of its output.
	buildahHelpers = regexp.MustCompile(`(?:(?:error setting supplemental groups list: [^\n]*?)?subprocess exited (?:on|with) [^\n]*\n)+\z`)
	buildahCache   = regexp.MustCompile(`(?m)^Error: [^\n]*failed pushing cache `)
	buildahBuild   = regexp.MustCompile(`(?m)^Error: (?:building at|creating build) `)
	buildahTagged  = regexp.MustCompile(`(?m)^Successfully tagged localhost/`)
)

func buildahFault(o output, _ string) fault {
	text := buildahErrors.ReplaceAllString(o.text, "Error: ")
	all := buildahError.FindAllStringIndex(text, -1)
	if all == nil {
		return fault{}
	}
	before, f := text[:all[len(all)-1][0]], fault{text: text[all[len(all)-1][0]:]}
	for _, step := range buildahSteps {
		if m := step.FindStringSubmatchIndex(f.text); m != nil {
			instruction, rest := f.text[m[2]:m[3]], f.text[m[5]+len(`": `):]
			if instruction == "RUN" {
				f.command = f.text[m[4]:m[5]]
			}
			f.text = "Error: building at STEP " + instruction + ": " + rest
			break
		}
	}
	f.text, _, _ = strings.Cut(f.text, "\n")
	if f.command != "" {
		f.text = buildahHelpers.FindString(before) + f.text
	}
	// The second command pushes. Some errors of registries do not say what they are about.
	f.cache = buildahCache.MatchString(f.text)
	f.pushing = f.cache || strings.HasPrefix(f.text, "Error: pushing ") || buildahTagged.MatchString(before) && !buildahBuild.MatchString(f.text)
	f.to = pushedTo(f.text)
	return f
}
