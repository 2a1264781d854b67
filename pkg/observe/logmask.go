package observe

import "regexp"

// secrets are the credentials that are plain to see. A status is read by more
// people than a log, so they are masked in everything that is copied into it.
var secrets = []struct {
	match *regexp.Regexp
	with  string
}{
	// https://user:password@host, and a token in the place of the user
	{regexp.MustCompile(`(\w://[^/\s:@]*:)[^/\s]+@`), "$1***@"},
	{regexp.MustCompile(`(https?://)[^/\s:@]{20,}@`), "$1***@"},
	{regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), "$1 ***"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/-]{12,}=*`), "$1 ***"},
	{regexp.MustCompile(`(?i)\b(\w*(?:password|passwd|secret|token|api_?key|access_?key)\w*=)(\\"[^"\n]*"|"[^"\n]*"|'[^'\n]*'|[^\s"'&;]+)`), "$1***"},
	// the same in JSON, also as text in JSON: a docker config.json
	{regexp.MustCompile(`(?i)(\\*"(?:auth|\w*(?:password|passwd|secret|token|api_?key|access_?key)\w*)\\*"\s*:\s*\\*")[^"\\\n]+`), "$1***"},
	{regexp.MustCompile(`\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}`), "***"},                  // GitHub
	{regexp.MustCompile(`\bgl[a-z]{2,6}-[\w-]{16,}`), "***"},                                 // GitLab
	{regexp.MustCompile(`\bAT(?:ATT|BB|CTT)\w[\w=-]{15,}`), "***"},                           // Bitbucket
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), "***"},                             // AWS
	{regexp.MustCompile(`\bAIza[\w-]{30,}`), "***"},                                          // Google
	{regexp.MustCompile(`\b(?:dckr_pat|npm|pypi|xox[abeprs]|sk_live)[_-][\w-]{16,}`), "***"}, // Docker Hub, npm, PyPI, Slack, Stripe
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`), "***"},                         // JSON web tokens
}

// mask hides credentials. It has to see whole words: a cut comes after it.
func mask(text string) string {
	for _, s := range secrets {
		text = s.match.ReplaceAllString(text, s.with)
	}
	return text
}
