package observe

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// dialect is what is particular about a builder's log. Each builder has a file of its own; what they say is matched by
// the tables here.
type dialect struct {
	builder v1alpha1.BuilderName
	// usage is where the text begins that follows an error in the arguments, usageEnd what tells it when its beginning was
	// cut off; nil for a builder that prints none.
	usage, usageEnd *regexp.Regexp
	// repeated is what the log says a second time; nil for nothing.
	repeated *regexp.Regexp
	// fault finds the builder's own error in its output, of which the last argument is the raw form.
	fault func(output, string) fault
}

// fault is the error that a builder ended with. What a RUN printed before ("404", "not found", "unauthorized") says nothing
// of registries, so nothing of it may get into the text, and of the Dockerfile's own words as little as can be.
type fault struct {
	text    string // empty when the builder ended without a word of its own
	command string // of the Dockerfile, at which it ended
	pushing bool   // the image was built
	to      string // where it was pushed to, if the error says so
	cache   bool   // what was pushed is the cache
}

// dialects has the builders by the names of their containers.
var dialects = map[string]dialect{"kaniko": kaniko, "buildkit": buildKit, "buildah": buildah}

func dialectOf(container string) dialect {
	if d, known := dialects[container]; known {
		return d
	}
	return kaniko
}

// onlyUsage stands for an error that the usage text pushed out of a termination message.
const onlyUsage = "only the usage text is left"

// The words of registries and of Go's network code, for pull and push alike.
var (
	badTLS    = words(`x509: [^\n]{0,200}`, `failed to verify certificate`, `tls: [^\n]{0,200}`)
	plainHTTP = words(`server gave HTTP response to HTTPS client`)
	denied    = words(`\bUNAUTHORIZED\b`, `\bDENIED:`, `\b(?:access|is) denied`, // a file's permission is denied, too
		`status code 40[13]`, `40[13] (?:Unauthorized|Forbidden)`, `no basic auth credentials`, `authentication required`, `insufficient_scope`)
	tooMany     = words(`TOOMANYREQUESTS`, `status code 429`, `429 Too Many Requests`)
	unreachable = words(`connection refused`, `no such host`, `i/o timeout`, `no route to host`, `network is unreachable`, `connection reset by peer`,
		`TLS handshake timeout`, `context deadline exceeded`, `Client\.Timeout exceeded`, `server misbehaving`, `Temporary failure in name resolution`,
		`unexpected EOF`, `: EOF`, `status code 5\d\d[^\n:]{0,40}`, `50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)`,
		`broken pipe`, `stream error`)
	noSuchImage = words(`(?:MANIFEST|NAME)[_ ]UNKNOWN`, `status code 404`, `image not found on any configured mapped registries`, `repository name not known`,
		`failed to resolve source metadata for \S+: \S+: not found`)
)

const ofPublicAuthority = "; it has to be valid for that name, and signed by a public authority or by one in the ConfigMap that spec.image.caConfigMapName names"

var pushPatterns = []pattern{
	{v1alpha1.FailureTLSVerificationFailed, plainHTTP, func(c clues) string {
		return c.pushTo() + " speaks plain http and not https; if that is meant, set spec.image.insecure" + whichStarts
	}},
	{v1alpha1.FailureTLSVerificationFailed, badTLS, func(c clues) string {
		return "The certificate of " + c.pushTo() + " is not trusted" + quoted(c.found[0]) + ofPublicAuthority + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, tooMany, func(c clues) string {
		return c.pushTo() + " takes no more requests for now; wait" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, words(`NAME[_ ](?:UNKNOWN|INVALID)`, `status code 404`, `404 Not Found`,
		`does not exist in the registry`, `repository name not known`), func(c clues) string {
		return c.pushTo() + " has no place for " + c.pushed() + quoted(c.last) + "; create the repository there" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, words(`getting tag for destination`, `could not parse reference`, `repository can only contain`), func(c clues) string {
		return "The name " + c.pushed() + " cannot be pushed" + quoted(c.last) + "; correct " + c.pushField + whichStarts
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
			"; correct " + c.pushField + ", which starts a new run, or see that the registry runs and nothing is in the way" + thenAgain
	}},
	{v1alpha1.FailurePushFailed, nil, func(c clues) string {
		return "The image could not be pushed as " + c.pushed() + c.why() + "; see to it" + thenAgain
	}},
}

// buildPatterns have the words of kaniko, BuildKit and Buildah, in this order, for what all three can meet.
var buildPatterns = []pattern{
	// Before all others: without a user namespace nothing that follows is the Dockerfile's fault.
	{v1alpha1.FailureBuildFailed, words(`\[rootlesskit:\w+ *\] error: ([^\n]*)`,
		`(Error during unshare\([^\n]*)`, `(error setting supplemental groups list: operation not permitted)`), func(c clues) string {
		return c.builder + " cannot set up a user namespace" + quoted(c.either()) + ", which BuildKit and Buildah need; " +
			"set spec.builder.name to Kaniko, which starts a new run, or see that the nodes allow user namespaces and that the pod security level of the namespace is privileged" + thenAgain
	}},
	{v1alpha1.FailureContextNotFound, words(`error resolving source context`, `invalid local: resolve`, `evaluating symlinks in build context path`), func(c clues) string {
		return "The repository has no directory " + strconv.Quote(c.contextDir) + " to build; correct spec.source.contextDir, which starts a new run, or add it" + thenAgain
	}},
	{v1alpha1.FailureDockerfileNotFound, words(
		`error resolving dockerfile path`, `please provide a valid path to a Dockerfile`, `reading dockerfile at path [^\n]*no such file`, `^`+onlyUsage,
		`failed to read dockerfile: [^\n]*no such file`, `^Error: stat \S+: no such file`), func(c clues) string {
		fields := "spec.dockerfile.path"
		if c.contextDir != "" {
			fields += " or spec.source.contextDir"
		}
		return "The repository has no Dockerfile at the path " + strconv.Quote(c.dockerfile) + "; correct " + fields + ", which starts a new run, or add the file" + thenAgain
	}},
	{v1alpha1.FailureTargetNotFound, words(
		`(\S+) is not a valid target build stage`, `target stage "([^"\n]*)" could not be found`, `the target "([^"\n]*)" was not found in the provided Dockerfile`), func(c clues) string {
		return "The Dockerfile has no stage " + c.stage() + "; correct spec.dockerfile.target, which starts a new run, or add the stage" + thenAgain
	}},
	{v1alpha1.FailureDockerfileInvalid, words(
		`could not parse reference[^\n]*`, `failed to parse stage name [^\n]*`, `creating build container: invalid reference format[^\n]*`), func(c clues) string {
		return "The base image" + c.baseImage() + " has an invalid name" + quoted(c.found[0]) + "; correct FROM in the Dockerfile" + c.mended()
	}},
	{v1alpha1.FailureDockerfileInvalid, words(
		`dockerfile parse error[^\n]*`, `parsing dockerfile: [^\n]*`, `expanding meta ARGs: [^\n]*`, `unknown instruction[^\n&]*`,
		`is not a supported command`, `refers to invalid stage[^\n]*`, `resolving base name [^\n]*`,
		`the Dockerfile cannot be empty`, `base name \([^\n]*should not be blank`, `failed to process "[^\n]*`,
		`no contents in "[^\n]*`, `parsing main Dockerfile: [^\n]*`, `no FROM statement found`), func(c clues) string {
		return "The Dockerfile " + strconv.Quote(c.dockerfile) + " cannot be read" + quoted(c.found[0]) + "; correct it" + c.mended()
	}},
	{v1alpha1.FailureBuildFailed, words(
		`^Error: ((?:unknown (?:shorthand )?flag|flag needs an argument|invalid argument "[^"\n]*" for|flag provided but not defined)[^\n]*)`), func(c clues) string {
		return c.builder + " does not know what it is given" + quoted(c.found[1]) + "; correct spec.builder.args" + whichStarts
	}},
	{v1alpha1.FailureBuildFailed, words(`Invalid platform "[^\n]*`, `\S+: unknown operating system or architecture`), func(c clues) string {
		return c.builder + " knows no such platform" + quoted(c.found[0]) + "; correct spec.builder.platforms" + whichStarts
	}},
	{v1alpha1.FailureBuildFailed, words(`secret not defined: (\S+)`,
		`secret (\S+): not found`, `failed to stat \S*/(\S+?): stat`,
		`secret required but no secret with id "?([^\s"]+)"? found`, `could not parse secrets: stat \S*/(\S+?):`), func(c clues) string {
		cure := "; add it to spec.builder.secrets"
		if c.builder == string(v1alpha1.Kaniko) {
			cure += ", with BuildKit or Buildah in spec.builder.name"
		}
		return "The Dockerfile wants the secret " + strconv.Quote(Squash(c.either(), 100)) + " and the build has none of that id" + cure + whichStarts
	}},
	{v1alpha1.FailureOutOfMemory, words(`waiting for process to exit: signal: killed`, `subprocess exited on killed`), func(c clues) string {
		return "The command" + c.ran() + " was killed, most likely for want of memory; raise spec.builder.resources.limits.memory" + whichStarts
	}},
	// The daemon is what takes most of the memory.
	{v1alpha1.FailureOutOfMemory, words(`failed to receive status: rpc error: code = Unavailable`), func(c clues) string {
		return c.builder + "'s daemon ended in the middle of the build, most likely killed for want of memory; raise spec.builder.resources.limits.memory" + whichStarts
	}},
	{v1alpha1.FailureBuildCommandFailed, words(
		`(?:waiting for process to exit: |did not complete successfully: |at STEP RUN: (?:while running runtime: )?)exit (?:status|code:) (\d+)`,
		`(?:waiting for process to exit|did not complete successfully): ([^\n]*)`, `starting command: ([^\n]*)`), commandFailed},
	{v1alpha1.FailureBuildFailed, words(`no space left on device`), func(c clues) string {
		return "The node has no room left to build the image (no space left on device); make the image smaller or free some of the node's disk" + thenAgain
	}},
	{v1alpha1.FailureBuildFailed, words(`failed to get fileinfo for (\S+?):? `, `copy failed: (no source files specified)`,
		`failed to calculate checksum of ref \S+: "([^"\n]*)": not found`,
		`copier: stat: "([^"\n]*)": no such file`, `copier: stat: globs ([^\n]*) matched nothing`,
		`l?stat (\S+): no such file`), func(c clues) string {
		return "The Dockerfile copies a file that is not there" + quoted(c.either()) + "; correct it or add the file, and see that .dockerignore does not leave it out" +
			thenAgain
	}},
	{v1alpha1.FailureBuildFailed, words(`failed to execute command: [^\n]*`, `failed to load cache key: [^\n]*`, `at STEP ADD: [^\n]*`), func(c clues) string {
		return "An instruction of the Dockerfile failed" + quoted(c.found[0]) + "; correct it" + c.mended()
	}},
	{v1alpha1.FailureTLSVerificationFailed, plainHTTP, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " speaks plain http and not https; if that is meant, set spec.image.insecure, or name it in spec.builder.insecureRegistries" + whichStarts
	}},
	{v1alpha1.FailureTLSVerificationFailed, badTLS, func(c clues) string {
		return "The certificate of the registry of the base image" + c.baseImage() + " is not trusted" + quoted(c.found[0]) + ofPublicAuthority + thenAgain
	}},
	{v1alpha1.FailureBaseImageNotFound, words(`no child with platform`, `no match for platform in manifest`,
		`no image found in (?:manifest list|image index)`), func(c clues) string {
		return "The base image" + c.baseImage() + " does not exist for the platform; correct spec.builder.platforms, which starts a new run, " +
			"or choose another in FROM of the Dockerfile" + thenAgain
	}},
	{v1alpha1.FailureBaseImageNotFound, noSuchImage, func(c clues) string {
		return "The base image" + c.baseImage() + " does not exist; correct FROM in the Dockerfile" + c.mended()
	}},
	{v1alpha1.FailureRegistryUnreachable, tooMany, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " takes no more requests for now; wait, or log in with spec.image.secretName" + thenAgain
	}},
	{v1alpha1.FailureRegistryDenied, denied, func(c clues) string {
		return "The base image" + c.baseImage() + " may not be pulled, or does not exist: many registries say the same of both; " +
			"correct FROM, or " + c.pullCredentials() + thenAgain
	}},
	{v1alpha1.FailureRegistryUnreachable, unreachable, func(c clues) string {
		return "The registry of the base image" + c.baseImage() + " cannot be reached or failed itself" + quoted(c.found[0]) +
			"; see that it runs and that nothing is in the way" + thenAgain
	}},
	{v1alpha1.FailureBuildFailed, nil, func(c clues) string {
		return "The builder failed" + c.why() + "; see to it" + thenAgain
	}},
}

// destination is a name in an error of a push.
var destination = regexp.MustCompile(`(?:checking push permission for "|failed to push to destination |failed to push |to "docker://|failed pushing cache to "?)([^\s"]+)`)

// pushedTo finds where the error says that was pushed to.
func pushedTo(text string) string {
	if m := destination.FindStringSubmatch(mask(text)); m != nil {
		return strings.TrimRight(m[1], ":")
	}
	return ""
}
