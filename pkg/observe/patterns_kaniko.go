package observe

import (
	"regexp"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

var kaniko = dialect{
	builder:  v1alpha1.Kaniko,
	usage:    regexp.MustCompile(`(?m)^Usage:\n  executor `),
	usageEnd: regexp.MustCompile(`for more information about a command\.\s*\z`),
	fault:    kanikoFault,
}

var (
	kanikoMarks = []string{"error building image: ", "error pushing image: ", "error checking push permissions", "Error: error resolving ", `Invalid platform "`}
	kanikoPush  = regexp.MustCompile(`^error (?:checking push permissions|pushing image)|failed to push to destination`)
)

// kanikoFault: kaniko's error is the last thing it prints, but for its usage text.
func kanikoFault(o output, log string) fault {
	at := -1
	for _, mark := range kanikoMarks {
		// A RUN whose output did not end in a newline has the mark in the middle of a line.
		at = max(at, strings.LastIndex(o.text, mark))
	}
	if o.usage {
		at = max(at, strings.LastIndex("\n"+o.text, "\nError: "))
	}
	f := fault{command: lastRun(log)}
	switch {
	case at >= 0:
		f.text = o.text[at:]
	case o.usage:
		f.text = onlyUsage // nearly all its flags are ours, so what it did not like is the path
	}
	f.pushing, f.to = kanikoPush.MatchString(f.text), pushedTo(f.text)
	return f
}

// runMarks precede the command in kaniko's log: coloured, text and JSON.
// The part before "Running" keeps a test runner's own "Running: [...]" out.
var runMarks = []string{"] Running: [", `msg="Running: [`, `"msg":"Running: [`}

// lastRun is the last command that kaniko ran; empty when the log does not say.
func lastRun(log string) string {
	at := -1
	for _, mark := range runMarks {
		at = max(at, strings.LastIndex(log, mark))
	}
	if at < 0 {
		return ""
	}
	line, _, _ := strings.Cut(log[at:], "\n") // the rest of a heredoc is on further lines
	line = log[strings.LastIndexByte(log[:at], '\n')+1:at] + line
	if len(line) > window {
		return ""
	}
	_, command, _ := strings.Cut(plain(strings.TrimSpace(line)), "Running: [")
	return strings.TrimSuffix(strings.TrimSpace(command), "]")
}
