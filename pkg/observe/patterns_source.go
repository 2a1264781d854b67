package observe

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// sourcePatterns are the words of git, ssh, curl and the hosters. The order
// matters: git ends nearly every failure over ssh with the same two sentences
// about access rights, and ssh goes on to "Permission denied" after a key that
// it could not read.
var sourcePatterns = []pattern{
	{v1alpha1.FailureContextNotFound, words(`build-controller: the repository has no directory`), func(c clues) string {
		return "The repository has no directory " + strconv.Quote(c.contextDir) + " to build; correct spec.source.contextDir, which starts a new run, or add it" + thenAgain
	}},
	{v1alpha1.FailureSecretKeyNotFound, words(
		`Identity file \S+ not accessible: No such file`, `can't read password file`), func(c clues) string {
		return secretNamed(c.gitSecret, v1alpha1.StepSource) + " lacks the credentials; store it " + c.gitKeys() + thenAgain
	}},
	{v1alpha1.FailureInvalidSSHKey, words(`build-controller: the key (\S+) holds a public key`), func(c clues) string {
		return "The key " + cut(c.found[1], 100) + " of " + secretNamed(c.gitSecret, v1alpha1.StepSource) +
			" holds a public key; store the private one, whose file has no .pub at its end" + thenAgain
	}},
	{v1alpha1.FailureInvalidSSHKey, words(`is protected by a passphrase`, `incorrect passphrase`, `Enter passphrase`), func(c clues) string {
		return "The private key of " + secretNamed(c.gitSecret, v1alpha1.StepSource) +
			" is protected by a passphrase, which nobody can type in a build; store a key without one" + thenAgain
	}},
	{v1alpha1.FailureInvalidSSHKey, words(
		`Load key "[^"]*": [^\n]*`, `error in libcrypto`, `UNPROTECTED PRIVATE KEY FILE`), func(c clues) string {
		return "ssh cannot read the private key of " + secretNamed(c.gitSecret, v1alpha1.StepSource) +
			": it is no private key that OpenSSH knows, or a part of it is missing; store the key again, unchanged from its file" + thenAgain
	}},
	{v1alpha1.FailureHostKeyVerificationFailed, words(`REMOTE HOST IDENTIFICATION HAS CHANGED`, `host key for \S+ has changed`), func(c clues) string {
		return fmt.Sprintf("The key of %s is not the one in known_hosts of %s: the server has a new key, or something else answers in its place; "+
			"ask its owner before you store the line that %q prints%s", c.server(), secretNamed(c.gitSecret, v1alpha1.StepSource), c.keyscan(), thenAgain)
	}},
	{v1alpha1.FailureHostKeyVerificationFailed, words(`Host key verification failed`, `No \S+ host key is known for`, `can't access SSH known_hosts`), func(c clues) string {
		return fmt.Sprintf("The key of %s is not in known_hosts of %s; store the line that %q prints, once it is checked, under the key known_hosts%s",
			c.server(), secretNamed(c.gitSecret, v1alpha1.StepSource), c.keyscan(), thenAgain)
	}},
	{v1alpha1.FailureHostNotFound, words(
		`Could not resolve (?:host|hostname|proxy)\b`, `Name or service not known`, `Temporary failure in name resolution`,
		`nodename nor servname provided`, `no such host`), func(c clues) string {
		return "The name of " + c.server() + " cannot be resolved; correct spec.source.git.url, which starts a new run, or see to the cluster's DNS" + thenAgain
	}},
	{v1alpha1.FailureTLSVerificationFailed, words(
		`server certificate verification failed`, `SSL certificate problem`, `certificate verify failed`,
		`unable to get local issuer certificate`, `SSL: no alternative certificate subject name`, `x509:`), func(c clues) string {
		return "The certificate of " + c.server() + " is not trusted" + quoted(c.found[0]) +
			"; it has to be valid for that name, and signed by a public authority or by one in the ConfigMap that spec.source.git.caConfigMapName names" + thenAgain
	}},
	{v1alpha1.FailureHostUnreachable, words(
		`connection refused`, `(?:connection|operation) timed out`, `no route to host`, `network is unreachable`, `Host is down`,
		`Failed to connect to[^\n:]{0,80}`, `Could not connect to server`, `Connection reset by`, `Connection closed by (?:remote host|\S+ port|UNKNOWN)`,
		`kex_exchange_identification`, `banner exchange`, `gnutls_handshake\(\) failed`, `SSL_ERROR_SYSCALL`, `OpenSSL SSL_connect`,
		`returned error: (?:429|5\d\d)`, `Empty reply from server`, `early EOF`, `unexpected disconnect`, `RPC failed`, `i/o timeout`), func(c clues) string {
		return c.server() + " cannot be reached or broke off" + quoted(c.found[0]) +
			"; see that it runs and that no firewall or NetworkPolicy is in the way" + thenAgain
	}},
	{v1alpha1.FailureHostUnreachable, words(`context deadline exceeded`), func(c clues) string {
		return "git did not finish within the time that git-sync gives it: a firewall swallows the packets to " + c.server() +
			", or the repository is very large; see to it" + thenAgain
	}},
	{v1alpha1.FailureRepositoryNotFound, words(
		`does not appear to be a git repository`, `repository (?:\S+ )?not found`, `remote: not found`, `returned error: 404`,
		`project you were looking for could not be found`,                                  // GitLab
		`repository (?:\S+ )?does not exist`, `requested repository either does not exist`, // Bitbucket
		`TF401019`, `TF200016`, // Azure DevOps
		`cannot find repository`, `could not find repository`, // Gitea, Forgejo
		`access denied or repository not exported`), func(c clues) string {
		return c.subject() + " does not exist, or the credentials may not see it; correct spec.source.git.url, which starts a new run, or give them access" + thenAgain
	}},
	{v1alpha1.FailureAuthenticationFailed, words(
		`Permission denied \(`, `Permission denied, please try again`, `Too many authentication failures`,
		`Authentication failed`, `could not read (?:Username|Password)`, `terminal prompts disabled`, `invalid credentials`,
		`returned error: 40[13]`, `HTTP Basic: Access denied`, `Invalid username or (?:password|token)`, `Password authentication is not supported`,
		`Support for password authentication was removed`, `Write access to repository not granted`, // GitHub
		`SAML SSO`, `You are not allowed to (?:download|upload|pull)`, `TF400813`, `TF401027`, `VS30063`,
		`Unauthorized`, `access denied`, `Forbidden`), authenticationFailed},
	{v1alpha1.FailureRevisionNotFound, words(
		`couldn't find remote ref`, `Remote branch \S+ not found`, `no such ref`, `not our ref`, `unadvertised object`,
		`reference is not a tree`, `unknown revision or path`, `unable to find remote ref`, `bad revision`,
		`Unable to find current revision in submodule`, `Direct fetching of that commit failed`), revisionNotFound},
	{v1alpha1.FailureCloneFailed, words(`No space left on device`), func(c clues) string {
		return "The node has no room for the repository (No space left on device); free some of its disk" + thenAgain
	}},
	{v1alpha1.FailureCloneFailed, words(`Please make sure you have the correct access rights`), func(c clues) string {
		return "git could not read " + c.subject() + " and the server did not say why; see that the repository exists and that " +
			c.credentials() + " may read it" + thenAgain
	}},
	{v1alpha1.FailureHostUnreachable, words(`remote end hung up unexpectedly`), func(c clues) string {
		return c.server() + " broke off (" + c.found[0] + "); see that it is well" + thenAgain
	}},
	{v1alpha1.FailureCloneFailed, nil, func(c clues) string {
		return "git-sync could not clone " + c.subject() + c.why() + "; see to it" + thenAgain
	}},
}

func authenticationFailed(c clues) string {
	switch {
	case !c.ssh() && c.gitSecret == "":
		return c.server() + " wants credentials for " + c.subject() +
			"; name a Secret " + c.gitKeys() + " in spec.source.git.secretName" + whichStarts
	case !c.ssh():
		return c.server() + " does not accept " + c.credentials() + " for " + c.subject() +
			"; store a username and a token that may read it" + thenAgain
	}
	// ssh says the same of a key that it could not unlock.
	return c.server() + " does not accept " + c.credentials() + " for " + c.subject() +
		"; give its public key access there, or store the right key, and one without a passphrase as a protected key fails in the same way" + thenAgain
}

var (
	fullID        = regexp.MustCompile(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)
	abbreviatedID = regexp.MustCompile(`^[0-9a-f]{7,39}$`)
)

func revisionNotFound(c clues) string {
	in := c.subject()
	switch {
	case c.submodule() != "":
		return in + " lacks the commit that the repository refers to; push that commit or refer to another one" + thenAgain
	case c.revision == "":
		return in + " has no default branch, so it may be empty; push to it" + thenAgain
	case abbreviatedID.MatchString(c.revision):
		return fmt.Sprintf("%s has no branch or tag %q; if that is an abbreviated commit id, write all 40 digits of it in spec.source.git.revision%s",
			in, c.revision, whichStarts)
	case fullID.MatchString(c.revision):
		return fmt.Sprintf("%s does not give out the commit %q; if it is on no branch any more, choose another in spec.source.git.revision%s",
			in, c.revision, whichStarts)
	}
	return fmt.Sprintf("%s has no branch, tag or commit %q; correct spec.source.git.revision, which starts a new run, or push it%s",
		in, c.revision, thenAgain)
}

var submoduleURL = regexp.MustCompile(`clone of '([^'\n]*)' into submodule path|from submodule path '([^'\n]*)'|in submodule path '([^'\n]*)'|[Ff]etched in submodule path '([^'\n]*)'`)

// submodule is the one that failed; empty when it was the repository itself.
func (c clues) submodule() string {
	for i, m := range submoduleURL.FindStringSubmatch(c.text) {
		if i > 0 && m != "" {
			return Squash(m, 120)
		}
	}
	return ""
}

// server is the git server that git was at.
func (c clues) server() string {
	if s := c.submodule(); s != "" {
		return "the git server of the submodule " + s
	}
	return c.names.server()
}

// subject is the repository that git was at.
func (c clues) subject() string {
	if s := c.submodule(); s != "" {
		return "the submodule " + s
	}
	return c.repository()
}
