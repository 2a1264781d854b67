package observe

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// pushed is what the image was to be called.
func (c clues) pushed() string {
	if c.image == "" {
		return "the image"
	}
	return c.image
}

// stage is the target that was asked for.
func (c clues) stage() string {
	if c.target != "" {
		return strconv.Quote(cut(c.target, 128))
	}
	if len(c.found) > 1 && c.found[1] != "" {
		return strconv.Quote(squash(c.found[1], 128))
	}
	return "of that name"
}

// runningMarks precede the command in kaniko's log: coloured, text and JSON.
// The part before "Running" keeps a test runner's own "Running: [...]" out.
var runningMarks = []string{"] Running: [", `msg="Running: [`, `"msg":"Running: [`}

// command is the last one that kaniko ran, with a space before it; empty when the log does not say.
func (c clues) command() string {
	at := -1
	for _, mark := range runningMarks {
		at = max(at, strings.LastIndex(c.log, mark))
	}
	if at < 0 {
		return ""
	}
	line, _, _ := strings.Cut(c.log[at:], "\n") // the rest of a heredoc is on further lines
	line = c.log[strings.LastIndexByte(c.log[:at], '\n')+1:at] + line
	if len(line) > window {
		return ""
	}
	_, command, _ := strings.Cut(plain(strings.TrimSpace(line)), "Running: [")
	command = strings.TrimSuffix(strings.TrimSpace(command), "]")
	command = strings.TrimPrefix(strings.TrimPrefix(command, "/bin/sh -c "), "/bin/bash -c ")
	if command = squash(command, 200); command == "" {
		return ""
	}
	return ` "` + command + `"`
}

// commandFailed says how a RUN instruction ended.
func commandFailed(c clues) string {
	end, hint := "", "correct it or what it runs"
	switch status, other, start := c.found[1], c.found[2], c.found[3]; {
	case start != "":
		end = "could not be started" + quoted(start)
	case status == "137":
		end = "failed with exit code 137"
		hint = "something of it was killed, most often for want of memory: raise spec.builder.resources.limits.memory, which starts a new run, or correct it"
	case status != "":
		end = "failed with exit code " + status
	default:
		end = "failed" + quoted(other)
	}
	return fmt.Sprintf("The command%s of the Dockerfile %s; %s%s", c.command(), end, hint, thenAgain)
}

var (
	manifestURL = regexp.MustCompile(`https?://([^/\s]+)/v2/(\S+?)/manifests/([^\s:"]+(?::[0-9a-f]{64})?)`)
	retrieving  = regexp.MustCompile(`Retrieving image (?:manifest )?([^\s"]+)`)
)

// baseImage is the image that was being pulled, with a space before it; empty when the log does not say.
func (c clues) baseImage() string {
	if m := manifestURL.FindStringSubmatch(c.text); m != nil {
		sep := ":"
		if strings.HasPrefix(m[3], "sha256:") {
			sep = "@"
		}
		host := strings.TrimPrefix(m[1]+"/", "index.docker.io/")
		return " " + squash(strings.TrimPrefix(host+m[2]+sep+m[3], "library/"), 200)
	}
	if all := retrieving.FindAllStringSubmatch(end(c.log, window), -1); all != nil {
		return " " + squash(all[len(all)-1][1], 200)
	}
	return ""
}
