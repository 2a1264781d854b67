package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// gitSyncLog is what git-sync prints when git printed this.
func gitSyncLog(stderr string) string {
	line, err := json.Marshal(map[string]any{"msg": "too many failures, aborting", "failCount": 1,
		"error": fmt.Sprintf("Run(git fetch https://h/r main --depth 1): exit status 128: { stdout: %q, stderr: %q }", "", stderr)})
	if err != nil {
		panic(err)
	}
	return `{"logger":"","ts":"2026-11-30 03:10:35.949869","caller":{"file":"main.go","line":646},"level":0,"msg":"starting up"}` + "\n" + string(line) + "\n"
}

func sourceFailure(log string, b *v1alpha1.Build) *v1alpha1.Failure {
	pod := pendingPod()
	pod.Status.Phase = corev1.PodFailed
	pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	return Failure(Evidence{Job: failedJob(batchv1.JobReasonBackoffLimitExceeded), Pods: []*corev1.Pod{pod}, Log: log, Build: b})
}

func builderFailure(log string, b *v1alpha1.Build) *v1alpha1.Failure {
	return Failure(Evidence{Job: failedJob(batchv1.JobReasonBackoffLimitExceeded), Pods: []*corev1.Pod{buildingPod(1, "Error")}, Log: log, Build: b})
}

func TestWordsOfGit(t *testing.T) {
	const access = "\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."
	for _, c := range []struct {
		url, secret, revision, stderr string
		reason                        v1alpha1.FailureReason
		message                       string
	}{
		{"git@github.com:acme/shop.git", "creds", "main", "ERROR: Repository not found." + access, v1alpha1.FailureRepositoryNotFound, "The repository git@github.com:acme/shop.git does not exist, or"},
		{"git@gitlab.com:acme/shop.git", "creds", "main", "remote: \nremote: ========\nremote: \nremote: ERROR: The project you were looking for could not be found or you don't have permission to view it.\nremote: " + access, v1alpha1.FailureRepositoryNotFound, ""},
		{"git@bitbucket.org:acme/shop.git", "creds", "main", "The requested repository either does not exist or you do not have access." + access, v1alpha1.FailureRepositoryNotFound, ""},
		{"git@bitbucket.org:acme/shop.git", "creds", "main", "conq: repository does not exist." + access, v1alpha1.FailureRepositoryNotFound, ""},
		{"https://dev.azure.com/acme/p/_git/shop", "creds", "main", "remote: TF401019: The Git repository with name or identifier shop does not exist or you do not have permissions for the operation you are attempting.\nfatal: repository 'https://dev.azure.com/acme/p/_git/shop/' not found", v1alpha1.FailureRepositoryNotFound, ""},
		{"https://github.com/acme/shop", "", "main", "remote: Repository not found.\nfatal: repository 'https://github.com/acme/shop/' not found", v1alpha1.FailureRepositoryNotFound, "spec.source.git.url"},
		{"https://git.example.com/shop", "", "main", "fatal: unable to access 'https://git.example.com/shop/': The requested URL returned error: 404", v1alpha1.FailureRepositoryNotFound, ""},
		{"git@git.example.com:acme/shop.git", "creds", "main", "Forgejo: Cannot find repository: acme/shop" + access, v1alpha1.FailureRepositoryNotFound, ""},

		{"https://github.com/acme/shop", "", "main", "fatal: could not read Username for 'https://github.com': terminal prompts disabled", v1alpha1.FailureAuthenticationFailed, "spec.source.git.secretName, which starts a new run"},
		{"https://github.com/acme/shop", "creds", "main", "remote: Invalid username or token. Password authentication is not supported for Git operations.\nfatal: Authentication failed for 'https://github.com/acme/shop/'", v1alpha1.FailureAuthenticationFailed, `the username and password of Secret "creds"`},
		{"https://gitlab.com/acme/shop", "creds", "main", "remote: HTTP Basic: Access denied. If a password was provided for Git authentication, the password was incorrect.\nfatal: Authentication failed for 'https://gitlab.com/acme/shop/'", v1alpha1.FailureAuthenticationFailed, ""},
		{"https://git.example.com/shop", "creds", "main", "fatal: unable to access 'https://git.example.com/shop/': The requested URL returned error: 403", v1alpha1.FailureAuthenticationFailed, ""},
		{"https://github.com/acme/shop", "creds", "main", "remote: The 'acme' organization has enabled or enforced SAML SSO.\nfatal: unable to access 'https://github.com/acme/shop/': The requested URL returned error: 403", v1alpha1.FailureAuthenticationFailed, ""},
		{"git@github.com:acme/shop.git", "creds", "main", "Received disconnect from 140.82.121.3 port 22:2: Too many authentication failures" + access, v1alpha1.FailureAuthenticationFailed, "without a passphrase"},

		{"git@h:r", "creds", "main", `Load key "/etc/git-secret/ssh": invalid format` + "\r\ngit@h: Permission denied (publickey)." + access, v1alpha1.FailureInvalidSSHKey, "part of it is missing"},
		{"git@h:r", "creds", "main", `Load key "/etc/git-secret/ssh": incorrect passphrase supplied to decrypt private key` + "\r\ngit@h: Permission denied (publickey)." + access, v1alpha1.FailureInvalidSSHKey, "passphrase"},
		{"git@h:r", "creds", "main", "Warning: Identity file /etc/git-secret/ssh not accessible: No such file or directory.\nNo ED25519 host key is known for h and you have requested strict checking." + access, v1alpha1.FailureSecretKeyNotFound, "ssh (or ssh-privatekey) and known_hosts"},
		{"git@h:r", "creds", "main", "@@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\nHost key verification failed." + access, v1alpha1.FailureHostKeyVerificationFailed, "has a new key"},

		{"git@h:r", "creds", "0a1b2c3", "fatal: couldn't find remote ref 0a1b2c3", v1alpha1.FailureRevisionNotFound, "all 40 digits"},
		{"git@h:r", "creds", strings.Repeat("0a", 20), "error: Server does not allow request for unadvertised object 0a0a", v1alpha1.FailureRevisionNotFound, "does not give out the commit"},
		{"git@h:r", "creds", strings.Repeat("0a", 20), "fatal: remote error: upload-pack: not our ref 0a0a\nfatal: the remote end hung up unexpectedly", v1alpha1.FailureRevisionNotFound, ""},
		{"git@h:r", "creds", "", "fatal: couldn't find remote ref HEAD", v1alpha1.FailureRevisionNotFound, "may be empty"},
		{"git@h:r", "creds", "v9", "warning: Could not find remote branch v9 to clone.\nfatal: Remote branch v9 not found in upstream origin", v1alpha1.FailureRevisionNotFound, `no branch, tag or commit "v9"`},
		{"git@h:r", "creds", "main", "Fetched in submodule path 'lib', but it did not contain 0a1b. Direct fetching of that commit failed.", v1alpha1.FailureRevisionNotFound, "submodule lib"},
		{"git@h:r", "creds", "main", "fatal: could not read Username for 'https://github.com': terminal prompts disabled\nfatal: clone of 'https://github.com/acme/lib' into submodule path '/workspace/lib' failed", v1alpha1.FailureAuthenticationFailed, "the submodule https://github.com/acme/lib"},

		{"https://nosuch.example.com/r", "", "", "fatal: unable to access 'https://nosuch.example.com/r/': Could not resolve host: nosuch.example.com", v1alpha1.FailureHostNotFound, "the git server nosuch.example.com"},
		{"https://h.example.com/r", "", "", "fatal: unable to access 'https://h.example.com/r/': Failed to connect to h.example.com port 443 after 21042 ms: Couldn't connect to server", v1alpha1.FailureHostUnreachable, ""},
		{"git@h:r", "creds", "", "ssh: connect to host h port 22: Connection timed out" + access, v1alpha1.FailureHostUnreachable, "Connection timed out"},
		{"git@h:r", "creds", "", "ssh: connect to host h port 22: No route to host" + access, v1alpha1.FailureHostUnreachable, ""},
		{"git@h:r", "creds", "", "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 1.2.3.4 port 22" + access, v1alpha1.FailureHostUnreachable, ""},
		{"https://h.example.com/r", "", "", "error: RPC failed; curl 56 GnuTLS recv error\nfetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF", v1alpha1.FailureHostUnreachable, ""},
		{"https://h.example.com/r", "", "", "fatal: unable to access 'https://h.example.com/r/': The requested URL returned error: 502", v1alpha1.FailureHostUnreachable, "returned error: 502"},
		{"git@h:r", "creds", "", "fatal: the remote end hung up unexpectedly", v1alpha1.FailureHostUnreachable, ""},
		{"https://h.example.com/r", "", "", "fatal: unable to access 'https://h.example.com/r/': server certificate verification failed. CAfile: none CRLfile: none", v1alpha1.FailureTLSVerificationFailed, "h.example.com"},
		{"https://h.example.com/r", "", "", "fatal: unable to access 'https://h.example.com/r/': SSL certificate problem: unable to get local issuer certificate", v1alpha1.FailureTLSVerificationFailed, ""},

		{"git@h:r", "creds", "", "Connection to h closed." + access, v1alpha1.FailureCloneFailed, "did not say why"},
		{"git@h:r", "creds", "", "fatal: write error: No space left on device", v1alpha1.FailureCloneFailed, "room"},
		{"git@h:r", "creds", "", "fatal: could not create work tree dir 'x': Permission denied", v1alpha1.FailureCloneFailed, "Permission denied"},
	} {
		t.Run(string(c.reason)+" "+c.stderr, func(t *testing.T) {
			b := &v1alpha1.Build{}
			b.Spec.Source.Git = v1alpha1.GitSource{URL: c.url, SecretName: c.secret, Revision: c.revision}
			last := c.stderr[strings.LastIndexByte(c.stderr, '\n')+1:]
			want{v1alpha1.StepSource, c.reason, 1, []string{c.message, "starts a new run."}, []string{last}}.check(t, sourceFailure(gitSyncLog(c.stderr), b))
		})
	}
}

func TestWordsOfGitSync(t *testing.T) {
	for sentence, c := range map[string]struct {
		log     string
		reason  v1alpha1.FailureReason
		logTail string
	}{
		"only the last attempt counts": {gitSyncLog("ssh: connect to host h port 22: Connection refused") + gitSyncLog("git@h: Permission denied (publickey)."),
			v1alpha1.FailureAuthenticationFailed, "git@h: Permission denied (publickey)."},
		"a clone that is stopped by git-sync says nothing itself": {`{"msg":"x","error":"Run(git fetch https://h/r HEAD): context deadline exceeded: { stdout: \"\", stderr: \"\" }"}`,
			v1alpha1.FailureHostUnreachable, "Run(git fetch https://h/r HEAD): context deadline exceeded:"},
		"an error that is not git's is told": {`{"msg":"x","error":"can't read password file \"/etc/git-secret/password\": open /etc/git-secret/password: no such file or directory"}`,
			v1alpha1.FailureSecretKeyNotFound, `can't read password file "/etc/git-secret/password"`},
		"without an error the last steps are told": {`{"msg":"starting up"}` + "\n" + `{"msg":"exiting after one sync"}`,
			v1alpha1.FailureCloneFailed, "starting up\nexiting after one sync"},
		"the shell's own words are kept": {`{"msg":"exiting after one sync"}` + "\nfatal: detected dubious ownership in repository at '/workspace'\n",
			v1alpha1.FailureCloneFailed, "fatal: detected dubious ownership"},
		"the end of a line whose start is missing is read": {`-depth 1): exit status 128: { stdout: \"\", stderr: \"line \\\"1\\\"\\nfatal: couldn't find remote ref x\" }","failCount":1,"maxFailures":0}`,
			v1alpha1.FailureRevisionNotFound, "line \"1\"\nfatal: couldn't find remote ref x"},
		"the server of a submodule is not the repository's": {gitSyncLog("fatal: unable to access 'https://198.18.0.9:1/lib.git/': Failed to connect to 198.18.0.9 port 1\nfatal: clone of 'https://198.18.0.9:1/lib.git' into submodule path '/workspace/x/lib' failed"),
			v1alpha1.FailureHostUnreachable, "submodule path"},
		"a public key is told for what it is":            {"build-controller: the key ssh holds a public key\n", v1alpha1.FailureInvalidSSHKey, "holds a public key"},
		"a key with a passphrase is told for what it is": {"build-controller: the key ssh is protected by a passphrase\n", v1alpha1.FailureInvalidSSHKey, "protected by a passphrase"},
		"no log at all is told with the exit code":       {"", v1alpha1.FailureCloneFailed, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := want{v1alpha1.StepSource, c.reason, 1, []string{annotation}, nil}
			if c.logTail != "" {
				w.logTail = []string{c.logTail}
			}
			w.check(t, sourceFailure(c.log, nil))
		})
	}
}

func TestWordsOfKaniko(t *testing.T) {
	const build, push = v1alpha1.StepBuild, v1alpha1.StepPush
	const running = "\x1b[36mINFO\x1b[0m[0004] Running: [/bin/sh -c npm ci && npm test] \n"
	const exec = "error building image: error building stage: failed to execute command: "
	const denied = "error checking push permissions: checking push permission for \"r.example.com/shop:1\": POST https://r.example.com/v2/shop/blobs/uploads/: "
	for sentence, c := range map[string]struct {
		log     string
		step    v1alpha1.Step
		reason  v1alpha1.FailureReason
		message string
	}{
		"what a command printed is not the builder's error": {running + "npm error 401 UNAUTHORIZED\nhttps://x/manifests/1: MANIFEST_UNKNOWN: x509: connection refused\n" + exec + "waiting for process to exit: exit status 1",
			build, v1alpha1.FailureBuildCommandFailed, `"npm ci && npm test" of the Dockerfile failed with exit code 1`},
		"a command that builds images itself is not the builder": {running + "dockerfile parse error on line 1\nerror resolving source context\nfailed to push to destination\n" + exec + "waiting for process to exit: exit status 1",
			build, v1alpha1.FailureBuildCommandFailed, "exit code 1"},
		"a command whose output has no last newline is no riddle": {running + "oops" + exec + "waiting for process to exit: exit status 9", build, v1alpha1.FailureBuildCommandFailed, "exit code 9"},
		"a test runner is not the command":                        {running + "Running: [suite]\n" + exec + "waiting for process to exit: exit status 1", build, v1alpha1.FailureBuildCommandFailed, "npm ci"},
		"the text format is read": {`time="2026-11-30T03:16:20Z" level=info msg="Running: [/bin/sh -c echo \"a b\"; false]"` + "\nout\n" + exec + "waiting for process to exit: exit status 1",
			build, v1alpha1.FailureBuildCommandFailed, `"echo "a b"; false"`},
		"the JSON format is read": {`{"level":"info","msg":"Running: [/bin/sh -c echo \"a b\"; false]","time":"2026-11-30T03:16:20Z"}` + "\n" + exec + "waiting for process to exit: exit status 1",
			build, v1alpha1.FailureBuildCommandFailed, `"echo "a b"; false"`},
		"a command that is killed wants memory":           {running + exec + "waiting for process to exit: signal: killed", build, v1alpha1.FailureOutOfMemory, `"npm ci && npm test" was killed`},
		"a command whose child is killed may want memory": {running + exec + "waiting for process to exit: exit status 137", build, v1alpha1.FailureBuildCommandFailed, "want of memory"},
		"an image without a shell starts no command":      {running + exec + "starting command: fork/exec /bin/sh: no such file or directory", build, v1alpha1.FailureBuildCommandFailed, "fork/exec /bin/sh"},
		"a copy of a file that is not there is named": {"error building image: error building stage: failed to optimize instructions: failed to get files used from context: failed to get fileinfo for /kaniko/source/nosuch: lstat /kaniko/source/nosuch: no such file or directory",
			build, v1alpha1.FailureBuildFailed, "copies a file that is not there (/kaniko/source/nosuch)"},
		"a download that fails is no registry's fault": {exec + "downloading remote source file: Get \"https://x/y\": dial tcp: lookup x: no such host", build, v1alpha1.FailureBuildFailed, "instruction of the Dockerfile failed"},
		"a full disk is told":                          {exec + "write /kaniko/x: no space left on device", build, v1alpha1.FailureBuildFailed, "room"},
		"an empty Dockerfile is invalid":               {"error building image: parsing dockerfile: file with no instructions", build, v1alpha1.FailureDockerfileInvalid, "file with no instructions"},
		"a context that is not there":                  {"Error: error resolving source context: stat /x: no such file\nUsage:\n  executor [flags]\n", build, v1alpha1.FailureContextNotFound, "spec.source.contextDir"},

		"a base image that may not be pulled may not exist": {"error building image: GET https://index.docker.io/v2/library/builder/manifests/latest: UNAUTHORIZED: authentication required; [map[Action:pull]]",
			build, v1alpha1.FailureRegistryDenied, "The base image builder:latest may not be pulled, or does not exist"},
		"wrong credentials for a base image are denied": {"error building image: GET https://auth.docker.io/token?scope=repository%3Alibrary%2Fdebian%3Apull&service=registry.docker.io: unexpected status code 401 Unauthorized: {\"details\":\"incorrect username or password\"}",
			build, v1alpha1.FailureRegistryDenied, "may not be pulled"},
		"a base image by digest is named with it":          {"error building image: GET https://r.example.com/v2/a/b/manifests/sha256:" + strings.Repeat("0a", 32) + ": NAME_UNKNOWN: repository name not known", build, v1alpha1.FailureBaseImageNotFound, "r.example.com/a/b@sha256:0a"},
		"a base image for other platforms is none":         {"INFO[0000] Retrieving image manifest arm:1 \nerror building image: no child with platform linux/amd64 in index arm:1", build, v1alpha1.FailureBaseImageNotFound, "The base image arm:1 does not exist for the platform"},
		"a registry that throttles pulls is told":          {"error building image: GET https://index.docker.io/v2/library/alpine/manifests/3: TOOMANYREQUESTS: You have reached your unauthenticated pull rate limit.", build, v1alpha1.FailureRegistryUnreachable, "log in with spec.image.secretName"},
		"a registry that is away when pulling":             {"error building image: Get \"https://r.example.com/v2/\": dial tcp 1.2.3.4:443: i/o timeout", build, v1alpha1.FailureRegistryUnreachable, "i/o timeout"},
		"a registry without trust when pulling":            {"error building image: Get \"https://r.example.com/v2/\": tls: failed to verify certificate: x509: certificate signed by unknown authority", build, v1alpha1.FailureTLSVerificationFailed, "base image"},
		"a plain http registry when pulling":               {"error building image: Get \"https://r:5000/v2/\": http: server gave HTTP response to HTTPS client", build, v1alpha1.FailureTLSVerificationFailed, "spec.builder.insecureRegistries, which starts a new run"},
		"a builder that says something new is quoted":      {"error building image: something new", build, v1alpha1.FailureBuildFailed, "(error building image: something new)"},
		"a builder that dies without a word is quoted":     {running + "Error: connection refused\npanic: oh no", build, v1alpha1.FailureBuildFailed, "(panic: oh no)"},
		"a flag that kaniko does not know is the user's":   {"Error: unknown flag: --nosuchflag\nUsage:\n  executor [flags]\n", build, v1alpha1.FailureBuildFailed, "Kaniko does not know what it is given (unknown flag: --nosuchflag); correct spec.builder.args, which"},
		"a value that kaniko does not read is the user's":  {`Error: invalid argument "x" for "--cache-ttl" flag: time: invalid duration "x"` + "\nUsage:\n  executor [flags]\n", build, v1alpha1.FailureBuildFailed, "correct spec.builder.args, which"},
		"a platform that is none is told":                  {"FATA[0000] Invalid platform \"linux/x/y/z\": too many slashes in platform spec: linux/x/y/z", build, v1alpha1.FailureBuildFailed, "Kaniko knows no such platform (Invalid platform"},
		"a command of another platform cannot be started":  {running + exec + "starting command: fork/exec /bin/sh: exec format error", build, v1alpha1.FailureBuildCommandFailed, "correct FROM or spec.builder.platforms"},
		"a secret is no matter for kaniko":                 {exec + "secret not defined: npm", build, v1alpha1.FailureBuildFailed, `the secret "npm" and the build has none of that id; add it to spec.builder.secrets, with BuildKit or Buildah in spec.builder.name, which`},
		"a name that is none is told":                      {"error building image: could not parse reference: Not/A/Name::x", build, v1alpha1.FailureDockerfileInvalid, "The base image Not/A/Name::x has an invalid name"},
		"a cache that takes nothing does not fail a build": {running + "WARN[0009] Error uploading layer to cache: failed to push to destination r.example.com/c: UNAUTHORIZED\n" + exec + "waiting for process to exit: exit status 1", build, v1alpha1.FailureBuildCommandFailed, "exit code 1"},

		"the fork's push check is one of the push":          {denied + "UNAUTHORIZED: access to the requested resource is not authorized", push, v1alpha1.FailureRegistryDenied, `The registry r.example.com does not let Secret "regcred" push r.example.com/shop:1`},
		"a push of another tag is named":                    {"error pushing image: failed to push to destination r2.example.com/shop:2: PUT https://x: DENIED: no", push, v1alpha1.FailureRegistryDenied, `The registry r2.example.com does not let Secret "regcred" push r2.example.com/shop:2;`},
		"a push that is forbidden is denied":                {denied + "DENIED: Permission \"artifactregistry.repositories.uploadArtifacts\" denied", push, v1alpha1.FailureRegistryDenied, ""},
		"a push to nowhere wants a repository":              {denied + "NAME_UNKNOWN: The repository with name 'shop' does not exist in the registry", push, v1alpha1.FailurePushFailed, "create the repository"},
		"a push to a bad name wants another":                {"error checking push permissions -- make sure you entered the correct tag name, and that you are authenticated correctly, and try again: getting tag for destination: repository must be between 2 and 255 characters in length: a", push, v1alpha1.FailurePushFailed, "spec.image.name, which starts a new run"},
		"a registry without trust when pushing":             {"error checking push permissions: creating push check transport for r.example.com failed: Get \"https://r.example.com/v2/\": tls: failed to verify certificate: x509: certificate signed by unknown authority", push, v1alpha1.FailureTLSVerificationFailed, "x509: certificate signed by unknown authority"},
		"a registry that fails at the end of a push":        {"INFO[0009] Pushing image to r.example.com/shop:1 \nerror pushing image: failed to push to destination r.example.com/shop:1: PUT https://r.example.com/v2/shop/manifests/1: unexpected status code 502 Bad Gateway: x", push, v1alpha1.FailureRegistryUnreachable, "status code 502"},
		"a registry that throttles pushes is told":          {"error pushing image: failed to push to destination r.example.com/shop:1: TOOMANYREQUESTS: slow down", push, v1alpha1.FailureRegistryUnreachable, "no more requests"},
		"a plain http registry when pushing":                {"error checking push permissions: Get \"https://r:5000/v2/\": http: server gave HTTP response to HTTPS client", push, v1alpha1.FailureTLSVerificationFailed, "spec.image.insecure"},
		"a push that fails in a new way is one of the push": {"error pushing image: failed to push to destination r.example.com/shop:1: MANIFEST_INVALID: no", push, v1alpha1.FailurePushFailed, "MANIFEST_INVALID: no"},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := &v1alpha1.Build{}
			b.Spec.Image = v1alpha1.Image{Name: "r.example.com/shop:1", SecretName: "regcred"}
			got := builderFailure(c.log, b)
			log, _, _ := strings.Cut(c.log, "\nUsage:")
			last := log[strings.LastIndexByte(log, '\n')+1:]
			want{c.step, c.reason, 1, []string{c.message, "starts a new run."}, []string{last}}.check(t, got)
		})
	}
}

func TestNamesOfGitHostsAndRegistries(t *testing.T) {
	for url, want := range map[string][2]string{
		"ssh://git@h.example.com:2222/r": {"h.example.com", "2222"},
		"git@github.com:acme/shop.git":   {"github.com", ""},
		"git@[::1]:r":                    {"::1", ""},
		"https://h.example.com/r":        {"h.example.com", ""},
		"ssh://[::1]:22/r":               {"::1", "22"},
		"://%":                           {"", ""},
		"nonsense":                       {"", ""},
		"":                               {"", ""},
	} {
		if host, port := gitHost(url); host != want[0] || port != want[1] {
			t.Errorf("gitHost(%q) = %q, %q", url, host, port)
		}
	}
	for image, want := range map[string]string{"shop": "docker.io", "acme/shop:1": "docker.io", "r:5000/shop": "r:5000", "localhost/shop": "localhost", "": ""} {
		if got := registryOf(image); got != want {
			t.Errorf("registryOf(%q) = %q", image, got)
		}
	}
}

func TestPlainHTTPIsNotBlamedWhereItIsMeant(t *testing.T) {
	b := &v1alpha1.Build{Spec: v1alpha1.BuildSpec{Image: v1alpha1.Image{Name: "r.example.com/shop:1", Insecure: true}}}
	f := builderFailure(`error checking push permissions -- make sure you entered the correct tag name, and that you are authenticated correctly, and try again: `+
		`checking push permission for "r.example.com/shop:1": creating push check transport for r.example.com failed: Get "https://r.example.com/v2/": `+
		`http: server gave HTTP response to HTTPS client; GET http://r.example.com/v2/: unexpected status code 503 Service Unavailable: out of order`, b)
	want{v1alpha1.StepPush, v1alpha1.FailureRegistryUnreachable, 1, []string{"The registry r.example.com cannot be reached or failed itself (status code 503"}, []string{"out of order"}}.check(t, f)
}
