package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"
)

// A logger writes lines of JSON in the form, and with the order of keys, that
// git-sync's have: an error has no level.
type logger struct{ w io.Writer }

func (l logger) info(message string, keysAndValues ...any) {
	l.write(append([]any{"level", 0, "msg", message}, keysAndValues...))
}

func (l logger) error(err error, message string, keysAndValues ...any) {
	l.write(append([]any{"msg", message, "error", err.Error()}, keysAndValues...))
}

func (l logger) write(fields []any) {
	_, file, line, _ := runtime.Caller(2)
	fields = append([]any{
		"logger", "",
		"ts", time.Now().Format("2006-01-02 15:04:05.000000"),
		"caller", json.RawMessage(fmt.Sprintf(`{"file":%q,"line":%d}`, filepath.Base(file), line)),
	}, fields...)

	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for i, field := range fields {
		if err := encoder.Encode(field); err != nil {
			panic(err) // nothing that is logged here can't be encoded
		}
		text.Truncate(text.Len() - 1) // a newline
		text.WriteByte(",:"[(i+1)%2])
	}
	text.Truncate(text.Len() - 1)
	fmt.Fprintf(l.w, "{%s}\n", text.Bytes())
}
