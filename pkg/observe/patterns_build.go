package observe

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Only kaniko's own error is matched, which is the last thing it prints: what a
// RUN printed before ("404", "not found", "unauthorized") says nothing of registries.
var (
	errorMarks = []string{"error building image: ", "error pushing image: ", "error checking push permissions", "Error: error resolving "}
	pushing    = regexp.MustCompile(`^error (?:checking push permissions|pushing image)|failed to push to destination`)
)

// builderError is the error at the end of the builder's output. A builder
// that is not kaniko has no such mark; its last lines have to do.
func builderError(o output) string {
	text := end(o.text, window)
	at := -1
	for _, mark := range errorMarks {
		// A RUN whose output did not end in a newline has the mark in the middle of a line.
		at = max(at, strings.LastIndex(text, mark))
	}
	switch {
	case at >= 0:
		return text[at:]
	case o.usage && blank(o.text):
		return onlyUsage
	}
	return o.tail()
}

// onlyUsage stands for an error that kaniko's usage text pushed out of a
// termination message. The flags are ours, so what it did not like is the path.
const onlyUsage = "only the usage text is left"

// The words of registries and of Go's network code, for pull and push alike.
var (
	badTLS      = words(`x509: [^\n]{0,200}`, `failed to verify certificate`, `tls: [^\n]{0,200}`)
	plainHTTP   = words(`server gave HTTP response to HTTPS client`)
	denied      = words(`\bUNAUTHORIZED\b`, `\bDENIED\b`, `status code 40[13]`, `40[13] (?:Unauthorized|Forbidden)`, `no basic auth credentials`, `authentication required`, `insufficient_scope`)
	tooMany     = words(`TOOMANYREQUESTS`, `status code 429`, `429 Too Many Requests`)
	unreachable = words(`connection refused`, `no such host`, `i/o timeout`, `no route to host`, `network is unreachable`, `connection reset by peer`,
		`TLS handshake timeout`, `context deadline exceeded`, `Client\.Timeout exceeded`, `server misbehaving`, `Temporary failure in name resolution`,
		`unexpected EOF`, `: EOF`, `status code 5\d\d[^\n:]{0,40}`, `50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)`,
		`broken pipe`, `stream error`)
	noSuchImage = words(`MANIFEST_UNKNOWN`, `NAME_UNKNOWN`, `manifest unknown`, `status code 404`, `image not found on any configured mapped registries`, `repository name not known`)
)

var pushPatterns = []pattern{
	{v1alpha1.FailureTLSVerificationFailed, plainHTTP, func(c clues) string {
		return c.pushTo() + " speaks plain http and not https; if that is meant, set spec.image.insecure" + whichStarts
	}},
	{v1alpha1.FailureTLSVerificationFailed, badTLS, func(c clues) string {
		return "The certificate of " + c.pushTo() + " is not trusted" + quoted(c.found[0]) +
			"; it has to be valid for that name, and signed by a public authority or by one in the ConfigMap that spec.image.caConfigMapName names" + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, tooMany, func(c clues) string {
		return c.pushTo() + " takes no more requests for now; wait" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, words(`NAME_UNKNOWN`, `NAME_INVALID`, `status code 404`, `does not exist in the registry`, `repository name not known`), func(c clues) string {
		return c.pushTo() + " has no place for " + c.pushed() + quoted(c.last) + "; create the repository there" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, words(`getting tag for destination`, `could not parse reference`, `repository can only contain`), func(c clues) string {
		return "The name " + c.pushed() + " cannot be pushed" + quoted(c.last) + "; correct spec.image.name" + whichStarts
	}},
	{v1alpha1.FailureRegistryDenied, denied, func(c clues) string {
		if c.pushSecret == "" {
			return c.pushTo() + " does not let " + c.pushed() + " be pushed without credentials; name a Secret of type kubernetes.io/dockerconfigjson in spec.image.secretName" + whichStarts
		}
		return c.pushTo() + " does not let " + secretNamed(c.pushSecret, v1alpha1.StepPush) + " push " + c.pushed() +
			"; store credentials for this very registry that may push there" + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, unreachable, func(c clues) string {
		return c.pushTo() + " cannot be reached or failed itself" + quoted(c.found[0]) +
			"; correct spec.image.name, which starts a new run, or see that the registry runs and nothing is in the way" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, nil, func(c clues) string {
		return "The image could not be pushed as " + c.pushed() + c.why() + "; see to it" + thenAgain
	}},
}

var buildPatterns = []pattern{
	{v1alpha1.FailureContextNotFound, words(`error resolving source context`), func(c clues) string {
		return "The repository has no directory " + strconv.Quote(c.contextDir) + " to build; correct spec.source.contextDir, which starts a new run, or add it" + thenAgain
	}},
	{v1alpha1.FailureDockerfileNotFound, words(`error resolving dockerfile path`, `please provide a valid path to a Dockerfile`,
		`reading dockerfile at path [^\n]*no such file`, `^`+onlyUsage), func(c clues) string {
		fields := "spec.dockerfile.path"
		if c.contextDir != "" {
			fields += " or spec.source.contextDir"
		}
		return "The repository has no Dockerfile at the path " + strconv.Quote(c.dockerfile) + "; correct " + fields + ", which starts a new run, or add the file" + thenAgain
	}},
	{v1alpha1.FailureTargetNotFound, words(`(?:finding target stage: )?(\S+) is not a valid target build stage`), func(c clues) string {
		return "The Dockerfile has no stage " + c.stage() + "; correct spec.dockerfile.target, which starts a new run, or add the stage" + thenAgain
	}},
	{v1alpha1.FailureDockerfileInvalid, words(`dockerfile parse error[^\n]*`, `parsing dockerfile: [^\n]*`, `expanding meta ARGs: [^\n]*`,
		`unknown instruction[^\n]*`, `is not a supported command`, `refers to invalid stage[^\n]*`, `resolving base name [^\n]*`), func(c clues) string {
		return "The Dockerfile " + strconv.Quote(c.dockerfile) + " cannot be read" + quoted(c.found[0]) + "; correct it" + thenAgain
	}},
	{v1alpha1.FailureOutOfMemory, words(`waiting for process to exit: signal: killed`), func(c clues) string {
		return "The command" + c.command() + " was killed, most likely for want of memory; raise spec.builder.resources.limits.memory" + whichStarts
	}},
	{v1alpha1.FailureBuildCommandFailed, words(`waiting for process to exit: (?:exit status (\d+)|([^\n]*))`, `starting command: ([^\n]*)`), commandFailed},
	{v1alpha1.FailureBuildFailed, words(`no space left on device`), func(c clues) string {
		return "The node has no room left to build the image (no space left on device); make the image smaller or free some of the node's disk" + thenAgain
	}},
	{v1alpha1.FailureBuildFailed, words(`failed to get fileinfo for (\S+?):? `, `copy failed: (no source files specified)`, `(?:lstat|stat) (\S+): no such file`), func(c clues) string {
		return "The Dockerfile copies a file that is not there" + quoted(strings.Join(c.found[1:], "")) + "; correct it or add the file" + thenAgain
	}},
	{v1alpha1.FailureBuildFailed, words(`failed to execute command: [^\n]*`), func(c clues) string {
		return "An instruction of the Dockerfile failed" + quoted(c.found[0]) + "; correct it" + thenAgain
	}},
	{v1alpha1.FailureTLSVerificationFailed, plainHTTP, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " speaks plain http and not https; if that is meant, set spec.image.insecure" + whichStarts
	}},
	{v1alpha1.FailureTLSVerificationFailed, badTLS, func(c clues) string {
		return "The certificate of the registry of the base image" + c.baseImage() + " is not trusted" + quoted(c.found[0]) +
			"; it has to be valid for that name, and signed by a public authority or by one in the ConfigMap that spec.image.caConfigMapName names" + thenAgain
	}},
	{v1alpha1.FailureBaseImageNotFound, noSuchImage, func(c clues) string {
		return "The base image" + c.baseImage() + " does not exist; correct FROM in the Dockerfile" + thenAgain
	}},
	{v1alpha1.FailureBaseImageNotFound, words(`no child with platform`), func(c clues) string {
		return "The base image" + c.baseImage() + " does not exist for the platform of the nodes; choose another in FROM of the Dockerfile" + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, tooMany, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " takes no more requests for now; wait, or log in with spec.image.secretName" + thenAgain
	}},
	{v1alpha1.FailureRegistryDenied, denied, func(c clues) string {
		return "The base image" + c.baseImage() + " may not be pulled, or does not exist: many registries say the same of both; correct FROM, or add credentials for its registry to " +
			secretNamed(c.pushSecret, v1alpha1.StepPush) + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, unreachable, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " cannot be reached or failed itself" + quoted(c.found[0]) +
			"; see that it runs and that nothing is in the way" + thenAgain
	}},
	{v1alpha1.FailureBuildFailed, nil, func(c clues) string {
		return "The builder failed" + c.why() + "; see to it" + thenAgain
	}},
}
