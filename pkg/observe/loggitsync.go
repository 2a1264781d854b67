package observe

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// readGitSync takes git's own words out of git-sync's log: lines of JSON, of
// which the last with an error holds git's stderr, quoted twice. Lines that are
// no JSON come from git or the shell and are kept.
func readGitSync(log string) output {
	var said, steps []string
	for _, line := range strings.Split(end(log, window), "\n") {
		line = strings.TrimSpace(line)
		var entry struct{ Msg, Error string }
		switch {
		case line == "":
		case strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &entry) == nil:
			if entry.Error != "" { // an attempt that failed; only the last one counts
				said = []string{stderrOf(entry.Error)}
			} else if entry.Msg != "" {
				steps = append(steps, entry.Msg)
			}
		case fragment.MatchString(line):
			said = []string{stderrOf(unescape(line))}
		default:
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		said = steps // better than nothing
	}
	return output{text: clean(strings.Join(said, "\n"))}
}

// fragment is the end of an error line whose start was cut off, as in a termination message of a long error.
var fragment = regexp.MustCompile(`"failCount":\d+,"maxFailures":-?\d+}$`)

const stderrMark = ` stderr: "`

// stderrOf takes stderr out of git-sync's `Run(git ...): exit status 128: { stdout: "", stderr: "..." }`.
// Without stderr the error itself is what there is to say.
func stderrOf(e string) string {
	i := strings.LastIndex(e, stderrMark)
	if i < 0 {
		return e
	}
	quoted := e[i+len(stderrMark)-1:]
	if q, err := strconv.QuotedPrefix(quoted); err == nil {
		if s, err := strconv.Unquote(q); err == nil && !blank(s) {
			return s
		}
		return strings.TrimSuffix(e[:i], `{ stdout: "",`) // killed by git-sync's timeout: no stderr
	}
	return e
}

// unescape undoes both quotings of a line that no parser accepts any more.
func unescape(line string) string {
	if i := strings.Index(line, ` stderr: \"`); i >= 0 {
		line = line[i+len(` stderr: \"`):]
	}
	if i := strings.LastIndex(line, `\" }"`); i >= 0 {
		line = line[:i]
	}
	return strings.NewReplacer(`\\n`, "\n", `\\r`, "", `\\\"`, `"`, `\\t`, "\t", `\"`, `"`).Replace(line)
}
