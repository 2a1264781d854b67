package observe

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
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
	return strconv.Quote(Squash(c.either(), 128))
}

// ran is the command of the Dockerfile that failed, with a space before it; empty when the log does not say.
func (c clues) ran() string {
	command := strings.TrimPrefix(strings.TrimPrefix(c.command, "/bin/sh -c "), "/bin/bash -c ")
	if command = Squash(command, 200); command == "" {
		return ""
	}
	return ` "` + command + `"`
}

// either is what the one alternative that matched has found.
func (c clues) either() string { return strings.Join(c.found[1:], "") }

// mended ends the advice to correct the Dockerfile.
func (c clues) mended() string {
	if c.inline {
		return whichStarts
	}
	return thenAgain
}

// pullCredentials is where those for a base image go.
func (c clues) pullCredentials() string {
	if c.pushSecret == "" {
		return "name a Secret of type kubernetes.io/dockerconfigjson with credentials for its registry in spec.image.secretName"
	}
	return "add credentials for its registry to " + secretNamed(c.pushSecret, v1alpha1.StepPush)
}

// commandFailed says how a RUN instruction ended.
func commandFailed(c clues) string {
	end, hint := "", "correct it or what it runs"
	switch status, other, start := c.found[1], c.found[2], c.found[3]; {
	case strings.Contains(start, "exec format error"):
		end = "could not be started" + quoted(start)
		hint = "the image is for another platform than the node: correct FROM or spec.builder.platforms, or choose another node with spec.builder.nodeSelector"
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
	return fmt.Sprintf("The command%s of the Dockerfile %s; %s%s", c.ran(), end, hint, thenAgain)
}

var (
	baseImageNamed = regexp.MustCompile(`(?:could not parse reference: |failed to resolve source metadata for |failed to parse stage name "|initializing source docker://)([^\s"]+)`)
	manifestURL    = regexp.MustCompile(`https?://([^/\s]+)/v2/(\S+?)/manifests/([^\s:"]+(?::[0-9a-f]{64})?)`)
	// The last one before an error without a name.
	retrieving = regexp.MustCompile(`Retrieving image (?:manifest )?([^\s"]+)|(?m:^)(?:\[[^\]\n]+\] )*STEP \d+/\d+: FROM (?:--\S+ )*(\S+)`)
)

// baseImage is the image that was being pulled, with a space before it; empty when the log does not say.
func (c clues) baseImage() string {
	name := ""
	if m := baseImageNamed.FindStringSubmatch(c.text); m != nil {
		name = strings.TrimRight(m[1], ":")
	} else if m := manifestURL.FindStringSubmatch(c.text); m != nil {
		sep := ":"
		if strings.HasPrefix(m[3], "sha256:") {
			sep = "@"
		}
		name = m[1] + "/" + m[2] + sep + m[3]
	} else if all := retrieving.FindAllStringSubmatch(end(c.log, window), -1); all != nil {
		name = all[len(all)-1][1] + all[len(all)-1][2]
	}
	if name == "" {
		return ""
	}
	for _, prefix := range []string{"index.", "docker.io/", "library/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return " " + Squash(name, 200)
}
