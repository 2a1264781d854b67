package observe

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A log is written by the code that is being built, so it may hold anything:
// every step here is linear in a window of bounded size.
const (
	window       = 64 << 10 // of the log's end; kaniko's usage text alone has 28 KiB
	maskWindow   = 16 << 10 // of the cleaned text's end
	maxTail      = 2 << 10
	maxTailLines = 20
	maxTailLine  = 400 // runes
)

// output is what a container said, made readable.
type output struct {
	text  string // clean lines, usage text left out
	usage bool   // the builder printed how it is used, so it did not like its arguments
}

var (
	digestOnly = regexp.MustCompile(`^\s*sha256:[0-9a-f]{64}\s*$`)
	escapes    = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|[ -/]*[0-Z\\\\-~])")
	// logrus in its text format; the coloured one needs no parsing.
	logfmt = regexp.MustCompile(`^(?:time="[^"]*" )?level=([a-z]+) msg=(.*)$`)
)

// readBuilder makes the builder's log readable, whichever format it is in.
func readBuilder(log string, d dialect) output {
	lines := strings.Split(end(log, window), "\n")
	for i, line := range lines {
		lines[i] = plain(strings.TrimRight(line, "\r"))
	}
	text, usage := dropUsage(clean(strings.Join(lines, "\n")), d)
	if d.repeated != nil {
		text = d.repeated.ReplaceAllString(text, "")
	}
	return output{text: text, usage: usage}
}

// plain takes the message out of a line of structured log.
func plain(line string) string {
	if m := logfmt.FindStringSubmatch(line); m != nil {
		message := m[2]
		if q, err := strconv.QuotedPrefix(message); err == nil {
			if u, err := strconv.Unquote(q); err == nil {
				message = u
			}
		}
		return strings.ToUpper(m[1]) + " " + message
	}
	if strings.HasPrefix(line, `{"`) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level != "" && entry.Msg != "" {
			return strings.ToUpper(entry.Level) + " " + entry.Msg
		}
	}
	return line
}

// dropUsage cuts the builder's usage text off, which follows the error. Usage text of
// other programs that a RUN called stays: it belongs to the story. In a
// termination message only the end of the usage text is left.
func dropUsage(text string, d dialect) (rest string, usage bool) {
	if d.usage == nil {
		return text, false
	}
	if at := d.usage.FindStringIndex(text); at != nil {
		return strings.TrimRight(text[:at[0]], "\n"), true
	}
	if d.usageEnd.MatchString(text) {
		return "", true
	}
	return text, false
}

// clean takes away what a terminal would have swallowed: colours, control
// characters, what a carriage return overwrote, spaces at the ends of lines.
func clean(text string) string {
	text = escapes.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		line = strings.Map(func(r rune) rune {
			if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				return -1
			}
			return r
		}, line)
		lines[i] = strings.TrimRightFunc(line, unicode.IsSpace)
	}
	return strings.Join(lines, "\n")
}

// tail is the end of the output that goes into the status.
func (o output) tail() string {
	// Cut twice: a password that the first cut parted from its name, in a very long line, is behind the second.
	lines := strings.Split(end(mask(end(o.text, maskWindow)), maskWindow/2), "\n")
	var kept []string
	size := 0
	for i := len(lines) - 1; i >= 0 && len(kept) < maxTailLines; i-- {
		if blank(lines[i]) {
			continue
		}
		line := cutMiddle(lines[i], maxTailLine)
		if size += len(line) + 1; size > maxTail {
			break
		}
		kept = append(kept, line)
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return strings.Join(kept, "\n")
}

// last is the last line that says something.
func (o output) last() string {
	tail := o.tail()
	return tail[strings.LastIndexByte(tail, '\n')+1:]
}

// end gives at most the last size bytes, from the start of a line if there is one.
func end(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = s[len(s)-size:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		return s[i+1:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// cut gives at most n characters and marks that there were more.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count++; count > n-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
	}
	return s
}

// cutMiddle is cut for a line of a log, where the cause of an error is at its end.
func cutMiddle(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n/2]) + "…" + string(runes[len(runes)-(n-1-n/2):])
}

// Squash makes another's text fit into a sentence.
func Squash(text string, n int) string {
	if len(text) > maskWindow {
		text = text[:maskWindow]
	}
	return cut(strings.Join(strings.Fields(mask(clean(text))), " "), n)
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
