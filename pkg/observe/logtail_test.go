package observe

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestTheTailOfALog(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for sentence, c := range map[string]struct{ log, want string }{
		"colours and links are gone":              {"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\\x1b(B", "red link"},
		"an escape that never ends takes a line":  {"a\x1b]0;title\nb", "a\nb"},
		"control characters are gone":             {"a\x00b\x7fc\u0085d\u202ee\tf", "abcde\tf"},
		"what was overwritten is gone":            {"10%\r50%\r100%\r\ndone", "100%\ndone"},
		"blank lines and spaces at ends are gone": {"a   \n\n \t\nb\t\n", "a\nb"},
		"text that is no text is replaced":        {"a\xff\xfeb", "a\uFFFDb"},
		"a long line keeps both its ends":         {"x" + long + "y", "x" + strings.Repeat("é", 199) + "…" + strings.Repeat("é", 198) + "y"},
		"the text format is read":                 {`time="2026-11-30T03:16:20Z" level=warning msg="a \"b\"\x1b[31m"` + "\n" + `level=info msg=word`, "WARNING a \"b\"\nINFO word"},
		"the JSON format is read":                 {`{"level":"error","msg":"a","time":"x"}` + "\n" + `{"no":"log"}`, "ERROR a\n" + `{"no":"log"}`},
		"kaniko's usage text is gone":             {"Error: no\nUsage:\n  executor [flags]\n  executor [command]\n\nFlags:\n  --x\n", "Error: no"},
		"another program's usage text is kept":    {"Usage:\n  npm <command>\nerror building image: x", "Usage:\n  npm <command>\nerror building image: x"},
		"the last twenty lines are kept":          {strings.Repeat("old\n", 30) + strings.Repeat("new\n", 20), strings.TrimSpace(strings.Repeat("new\n", 20))},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := readBuilder(c.log, kaniko).tail(); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	t.Run("two KiB are the limit, in whole lines", func(t *testing.T) {
		got := readBuilder(strings.Repeat(strings.Repeat("é", 150)+"\n", 20), kaniko).tail()
		if want := strings.TrimSpace(strings.Repeat(strings.Repeat("é", 150)+"\n", 6)); got != want {
			t.Errorf("got %d bytes", len(got))
		}
	})
}

func TestCredentialsAreMasked(t *testing.T) {
	for secret, want := range map[string]string{
		"https://user:pa@ss@h/r":                                         "https://user:***@h/r",
		"https://user@h/r ssh://git@h:22/r http://h:80/a@b":              "https://user@h/r ssh://git@h:22/r http://h:80/a@b",
		"https://0123456789abcdef0123@h/r":                               "https://***@h/r",
		`{\"author\": \"Ada\", \"auth\": \"YTpi\"}`:                      `{\"author\": \"Ada\", \"auth\": \"***\"}`,
		"ghp_0123456789abcdef0123":                                       "***",
		"github_pat_0123456789abcdef0123":                                "***",
		"glpat-0123456789abcdef0123":                                     "***",
		"AKIA0123456789ABCDEF":                                           "***",
		"dckr_pat_0123456789abcdef0123":                                  "***",
		"Authorization: Bearer abcdefghijklmnop.qr":                      "Authorization: Bearer ***",
		"eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln":                             "***",
		"DB_PASSWORD=hunter2 NPM_TOKEN='a b' x=1":                        "DB_PASSWORD=*** NPM_TOKEN=*** x=1",
		"unexpected token: foo":                                          "unexpected token: foo",
		"a\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\nd":                 "a\n-----BEGIN OPENSSH PRIVATE KEY----- ***",
		"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nb": "-----BEGIN PRIVATE KEY----- ***\nb",
		`process "/bin/sh -c DB_PASSWORD=\"hunter2\" make"`:              `process "/bin/sh -c DB_PASSWORD=*** make"`,
		"gh\x1b[0mp_0123456789abcdef0123":                                "***",
	} {
		if got := readBuilder(secret, kaniko).tail(); got != want {
			t.Errorf("%q became %q, want %q", secret, got, want)
		}
	}
	f := builderFailure("INFO[0000] Running: [/bin/sh -c TOKEN=s3cr3t make] \nerror building image: error building stage: failed to execute command: waiting for process to exit: exit status 1", nil)
	if strings.Contains(f.Message+f.LogTail, "s3cr3t") {
		t.Errorf("the secret is in %q", f.Message)
	}
}

func TestCutKeepsWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"ééé", 3, "ééé"}, {"éééé", 3, "éé…"}, {"", 3, ""}, {"日本語", 1, "…"}} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
		if got := cutMiddle(c.in, c.n); utf8.RuneCountInString(got) > c.n {
			t.Errorf("cutMiddle(%q, %d) = %q", c.in, c.n, got)
		}
	}
}

// hostileLogs are the worst that came to mind, each as long as the controller reads at most.
func hostileLogs() []string {
	const size = 256 << 10
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return []string{
		repeat("a"), repeat("\n"), repeat("\r"), repeat("\x1b"), repeat("\x1b["), repeat("\x1b]"), repeat("\xff"), repeat("é"), repeat("{"), repeat(`{"msg":`),
		repeat(`{"error":"stderr: \""}` + "\n"), repeat(`\"`), repeat("https://a:"), repeat("token="), repeat("-----BEGIN PRIVATE KEY-----"),
		repeat("] Running: ["), repeat(`msg="Running: [`), repeat("error building image: "), repeat("Usage:\n  executor "), repeat("http://h/v2/"),
		repeat("clone of '"), repeat(`time="x" level=info msg="` + "\n"), repeat("eyJaaaaaaaa."), repeat(` stderr: "`), repeat("Load key \""),
		repeat("------\n > a\n"), repeat("error: failed to solve: process \"a"), repeat("error: process \"\\\"\" did not complete successfully\n"),
		repeat("#1 exporting cache to registry\n"), repeat("could not connect to unix://\n"), repeat("NAME:\n   buildctl "), repeat("GLOBAL OPTIONS:\n"),
		repeat("Error: building at STEP \"RUN \": "), repeat("Error: building at STEP \"RUN \n"), repeat("Error: 2 errors occurred:\n\t* "), repeat("subprocess exited on "),
		repeat("Error: pushing image \"\n"), repeat("Successfully tagged localhost/\n"), repeat("[a] STEP 1/1: FROM "),
	}
}

func TestHostileLogsGiveAWellFormedFailure(t *testing.T) {
	for _, log := range hostileLogs() {
		wellFormedTail(t, sourceFailure(log, nil))
		for container := range dialects {
			wellFormedTail(t, builderRun{1, "Error", log}.failureIn(container, "", nil))
			wellFormedTail(t, builderRun{1, "Error", ""}.failureIn(container, log, nil))
		}
	}
}

// wellFormedTail is wellFormed but for words that a hostile log may well contain.
func wellFormedTail(t *testing.T, f *v1alpha1.Failure) {
	t.Helper()
	if f.Reason == "" || f.Step == "" || utf8.RuneCountInString(f.Message) > maxMessage || strings.ContainsAny(f.Message, "\n\x1b") || !utf8.ValidString(f.Message) {
		t.Errorf("bad failure %s/%s %q", f.Step, f.Reason, f.Message)
	}
	if len(f.LogTail) > maxTail || !utf8.ValidString(f.LogTail) || strings.ContainsAny(f.LogTail, "\x1b\r\x00") ||
		strings.Count(f.LogTail, "\n") >= maxTailLines {
		t.Errorf("bad log tail %q", f.LogTail)
	}
}

func FuzzFailure(f *testing.F) {
	for _, log := range []string{
		"", "sha256:" + strings.Repeat("0", 64), gitSyncLog("fatal: couldn't find remote ref x"), "\x1b[36mINFO\x1b[0m[0000] Running: [/bin/sh -c x] \nerror building image: waiting for process to exit: exit status 3",
		`time="x" level=info msg="a\x1b"`, `{"level":"info","msg":"\u001b"}`, "error pushing image: https://u:p@h/v2/a/manifests/1: DENIED", `" }","failCount":1,"maxFailures":0}`,
		"clone of 'x' into submodule path", "\xf0\x9f", "a\r\n\rb", "Error: x\nUsage:\n  executor [flags]",
		buildKitRunHead + "#5 0.1 x\n#5 ERROR: x\n------\n > RUN make:\n0.1 x\n------\n" + buildKitFailed, "error: failed to solve: failed to push h/a: 401 Unauthorized",
		"#9 exporting cache to registry\n#9 ERROR: x\nerror: x", "could not connect to unix://x\n[rootlesskit:parent] error: x", "error: flag provided but not defined: -x\nNAME:\n   buildctl",
		buildahRunHead + "x" + buildahFailed, "Error: pushing image \"a\" to \"docker://h/a\": denied", "Error during unshare(CLONE_NEWUSER): x", "Error: 2 errors occurred:\n\t* building at STEP \"RUN x\ny\": x",
	} {
		f.Add(log, "git@h:r", "secret")
	}
	f.Add("error building image: GET https://h/v2/a/manifests/1: DENIED", "git@\x00\xff:r", " \x7f\n\xff")
	f.Fuzz(func(t *testing.T, log, url, secret string) {
		b := &v1alpha1.Build{}
		b.Spec.Source.Git = v1alpha1.GitSource{URL: url, SecretName: secret, Revision: url}
		b.Spec.Source.ContextDir = secret
		b.Spec.Image = v1alpha1.Image{Name: url, SecretName: secret}
		wellFormedTail(t, sourceFailure(log, b))
		for container := range dialects {
			wellFormedTail(t, builderRun{1, "Error", log}.failureIn(container, "", b))
		}
		waiting := pendingPod()
		waiting.Status.InitContainerStatuses[0].State = waitsFor("ErrImagePull", log)
		for _, e := range []Evidence{
			{Events: nil, Build: b}, {Build: b, Before: sourceFailure(log, b)},
		} {
			e.Pods = append(e.Pods, waiting)
			wellFormedTail(t, Failure(e))
		}
	})
}
