package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// parseGitConfig reads settings as 'section.key:value,"section.sub.key":"value"'.
func parseGitConfig(text string) ([][2]string, error) {
	var settings [][2]string
	for text != "" {
		key, rest, err := token(text, ':')
		if err != nil {
			return nil, err
		}
		if key == "" || !strings.HasPrefix(rest, ":") {
			return nil, fmt.Errorf("no key and value in %q", text)
		}
		value, rest, err := token(rest[1:], ',')
		if err != nil {
			return nil, err
		}
		settings = append(settings, [2]string{key, value})
		text = strings.TrimPrefix(rest, ",")
	}
	return settings, nil
}

// token returns what stands before the delimiter, and the rest from there on.
func token(text string, delimiter byte) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		if end := strings.IndexByte(text, delimiter); end >= 0 {
			return text[:end], text[end:], nil
		}
		return text, "", nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("an unterminated string: %s", text)
	}
	value, err = strconv.Unquote(quoted)
	rest = text[len(quoted):]
	if err == nil && rest != "" && rest[0] != delimiter {
		err = fmt.Errorf("unexpected %q after a string", rest)
	}
	return value, rest, err
}

// redactURL hides the password in a URL.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text // which may be an scp-like address
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), "REDACTED")
	}
	return u.String()
}
