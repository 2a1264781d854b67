package policy

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

func TestPlacesAreReadFromAFlag(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  []string // nil: it is refused
	}{
		"nothing":                            {"", []string{}},
		"a host":                             {"registry.example.com", []string{"registry.example.com"}},
		"two, with spaces and a comma more":  {" a.example.com, b.example.com,", []string{"a.example.com", "b.example.com"}},
		"a host without a dot":               {"localhost", []string{"localhost"}},
		"a host of one letter":               {"r", []string{"r"}},
		"a port":                             {"registry.example.com:5000", []string{"registry.example.com:5000"}},
		"a path":                             {"registry.example.com/team/sub", []string{"registry.example.com/team/sub"}},
		"a path that ends in a slash":        {"registry.example.com/team/", []string{"registry.example.com/team"}},
		"a host that ends in a slash":        {"registry.example.com/", []string{"registry.example.com"}},
		"the namespace":                      {"registry.example.com/{namespace}", []string{"registry.example.com/{namespace}"}},
		"the namespace within a name":        {"registry.example.com/team-{namespace}/x", []string{"registry.example.com/team-{namespace}/x"}},
		"all hosts below another":            {"*.example.com:5000/x", []string{"*.example.com:5000/x"}},
		"an IPv4 address":                    {"10.0.0.1:5000", []string{"10.0.0.1:5000"}},
		"an IPv6 address":                    {"[2001:db8::1]:5000/x", []string{"[2001:db8::1]:5000/x"}},
		"an upper case path, as of a user":   {"github.com/Team", []string{"github.com/Team"}},
		"a scheme":                           {"https://registry.example.com", nil},
		"an upper case host":                 {"Registry.example.com", nil},
		"a star alone":                       {"*", nil},
		"a star within a host":               {"registry.*.com", nil},
		"a star that is not a whole label":   {"*example.com", nil},
		"a star in a path":                   {"registry.example.com/*", nil},
		"a user":                             {"git@git.example.com", nil},
		"an scp-like path":                   {"git.example.com:team", nil},
		"a port of six digits":               {"registry.example.com:500000", nil},
		"a path without a host":              {"/team", nil},
		"two slashes":                        {"registry.example.com//team", nil},
		"a path that climbs":                 {"registry.example.com/../team", nil},
		"two dots in a host":                 {"registry..example.com", nil},
		"a host that ends in a dot":          {"registry.example.com.", nil},
		"another variable":                   {"registry.example.com/{name}", nil},
		"a brace":                            {"registry.example.com/{", nil},
		"a brace too many":                   {"registry.example.com/{{namespace}}", nil},
		"the namespace in a host":            {"{namespace}.example.com", nil},
		"a tag":                              {"registry.example.com/shop:1.0", nil},
		"an encoded path":                    {"registry.example.com/%2e%2e", nil},
		"a good one and a bad one":           {"registry.example.com,https://x", nil},
		"a line break":                       {"registry.example.com\n", nil},
		"an IPv6 address without brackets":   {"2001:db8::1", nil},
		"a host of letters beyond the ASCII": {"bücher.example.com", nil},
	} {
		t.Run(name, func(t *testing.T) {
			places := Places{"of.before.example.com"}
			err := places.Set(c.value)
			switch {
			case c.want == nil && err == nil:
				t.Errorf("%q was taken as %q", c.value, places)
			case c.want == nil && !strings.Contains(err.Error(), "host[:port][/path]"):
				t.Errorf("%q does not say what is wanted", err)
			case c.want != nil && (err != nil || !slices.Equal(places, c.want)):
				t.Errorf("%q was taken as %q: %v", c.value, places, err)
			}
			if c.want == nil {
				return
			}
			if again := (Places{}); again.Set(places.String()) != nil || !slices.Equal(again, places) {
				t.Errorf("%q reads as %q", places.String(), again)
			}
		})
	}
}

func TestBuildersAreReadFromAFlag(t *testing.T) {
	var builders Builders
	if err := builders.Set("BuildKit, Kaniko"); err != nil || builders.String() != "BuildKit, Kaniko" {
		t.Errorf("they are %v: %v", builders, err)
	}
	if err := builders.Set("Buildah"); err != nil || !slices.Equal(builders, Builders{v1alpha1.Buildah}) {
		t.Errorf("the last value does not count alone: %v, %v", builders, err)
	}
	if err := builders.Set(""); err != nil || builders != nil {
		t.Errorf("nothing is %v: %v", builders, err)
	}
	const want = `there is no builder "kaniko"; there are BuildKit, Buildah, Kaniko`
	if err := builders.Set("BuildKit,kaniko"); err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
}

// aBuild is the smallest Build there can be, changed.
func aBuild(change ...func(*v1alpha1.Build)) *v1alpha1.Build {
	build := &v1alpha1.Build{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"},
		Spec: v1alpha1.BuildSpec{
			Source: v1alpha1.Source{Git: v1alpha1.GitSource{URL: "https://git.example.com/team/shop.git"}},
			Image:  v1alpha1.Image{Name: "registry.example.com/team/shop:1.0"},
		},
	}
	for _, f := range change {
		f(build)
	}
	return build
}

func builder(settings v1alpha1.Builder) func(*v1alpha1.Build) {
	return func(b *v1alpha1.Build) { b.Spec.Builder = &settings }
}

func TestGitHosts(t *testing.T) {
	for places, urls := range map[string]struct{ allowed, refused []string }{
		"git.example.com": {
			allowed: []string{
				"https://git.example.com/team/shop.git", "https://git.example.com:443/team/shop", "https://GIT.Example.Com/team/shop",
				"ssh://git@git.example.com/team/shop", "ssh://git@git.example.com:22/team/shop", "ssh://git.example.com/shop",
				"git@git.example.com:team/shop.git", "git@GIT.example.com:/srv/shop.git", "git@git.example.com:2222/shop", // there it is a directory
				"https://git.example.com/shop.git/", "https://git.example.com/~me/shop", "https://git.example.com/a..b/shop",
			},
			refused: []string{
				"https://evil.example.com/git.example.com/shop", "https://evil-git.example.com/shop", "https://git.example.com.evil.com/shop",
				"https://git.example.com:8443/shop", "https://git.example.com:22/shop", "ssh://git@git.example.com:443/shop",
				"ssh://git@git.example.com:2222/shop", "https://git.example.com@evil.com/shop", "https://git.example.com:x@evil.com/shop",
				"ssh://git.example.com@evil.com/shop", "git.example.com@evil.com:shop", "git@evil.com:git.example.com/shop",
				"git@[git.example.com]:shop", "git@[git.example.com:2222]:shop", "https://git.example.com./shop", "https://sub.git.example.com/shop",
				"https://git.example.com\\@evil.com/shop", "https://evil.com\\.git.example.com/shop", "https://git.example.com%2eevil.com/shop",
				"https://git.example.com443/shop", "ssh://git@git.example.com22/shop", "ssh://git@git.example.com022/shop",
				"https://git.example.com/team/../shop", "https://git.example.com/%2e%2e/shop", "https://git.example.com/team%2fshop",
				"https://git.example.com//shop", "https://git.example.com/team//shop", "https://git.example.com/./shop", `https://git.example.com/..\shop`,
				"https://git.example.com/shop?x=1", "https://git.example.com/shop#x", "git@git.example.com:team/../shop",
				"file:///git.example.com/shop", "/git.example.com/shop", "ext::sh -c git.example.com", "git.example.com:shop", "https:git.example.com/shop", "",
			},
		},
		"10.0.0.1,10.0.0.99:2222": {
			allowed: []string{"ssh://git@10.0.0.1/shop", "https://10.0.0.1:443/shop", "git@10.0.0.1:shop", "ssh://git@10.0.0.99:2222/shop"},
			refused: []string{
				"ssh://git@10.0.0.122/shop", "git@10.0.0.122:shop", "https://10.0.0.11/shop", "ssh://git@10.0.0.99/shop", "https://10.0.0.99/shop",
			},
		},
		"10.0.0.122": {allowed: []string{"ssh://git@10.0.0.122/shop", "git@10.0.0.122:shop", "https://10.0.0.122/shop"}},
		"[2001:db8::22],[2001:db8::2]:2222": {
			allowed: []string{
				"ssh://git@[2001:db8::22]/shop", "ssh://git@[2001:DB8::22]:22/shop", "git@[2001:db8::22]:shop", "https://[2001:db8::22]:443/shop",
				"ssh://git@[2001:db8::2]:2222/shop",
			},
			refused: []string{"ssh://git@[2001:db8::2]/shop", "ssh://git@[2001:db8::]:22/shop", "git@[2001:db8::2]:shop", "https://[2001:db8::22%25eth0]/shop"},
		},
		"*.example.com": {
			allowed: []string{"https://git.example.com/shop", "git@a.b.example.com:shop"},
			refused: []string{
				"https://example.com/shop", "https://evil-example.com/shop", "https://git.example.com.evil.com/shop", "https://.example.com/shop",
				"https://git.example.com:8443/shop", "https://example.com.git/shop", "git@evil.com:x.example.com/shop",
			},
		},
		"*.example.com:8443": {allowed: []string{"https://git.example.com:8443/shop"}, refused: []string{"https://git.example.com/shop"}},
		"git.example.com/team,git.example.com/one/shop": {
			allowed: []string{
				"https://git.example.com/team/shop", "https://git.example.com/team/a/b", "git@git.example.com:team/shop.git", "git@git.example.com:/team/shop",
				"https://git.example.com/one/shop", "ssh://git@git.example.com/one/shop.git", "https://git.example.com/team.git",
			},
			refused: []string{
				"https://git.example.com/team2/shop", "https://git.example.com/Team/shop", "https://git.example.com/shop", "https://git.example.com/other/team/shop",
				"https://git.example.com/team/../other/shop", "https://git.example.com/team/..%2fother/shop", "https://git.example.com/other/../team/shop",
				"https://git.example.com/team/%2e%2e/other", "ssh://git@git.example.com/team?/../../other/shop", "ssh://git@git.example.com/team#/../../other/shop",
				"git@git.example.com:team?2/shop", "git@git.example.com:team/../other", "git@git.example.com:../team/shop", "https://git.example.com//team/shop",
				"https://git.example.com/one/shop2", "https://git.example.com/one", "https://git.example.com/",
			},
		},
		"git.example.com/{namespace},git.example.com/all/x-{namespace}": {
			allowed: []string{"https://git.example.com/team/shop", "git@git.example.com:team/shop", "https://git.example.com/all/x-team/shop"},
			refused: []string{"https://git.example.com/other/shop", "https://git.example.com/team2/shop", "https://git.example.com/all/x-team2/shop", "https://git.example.com/{namespace}/shop"},
		},
	} {
		var policy Policy
		if err := policy.GitHosts.Set(places); err != nil {
			t.Fatal(err)
		}
		for want, urls := range map[bool][]string{true: urls.allowed, false: urls.refused} {
			for _, url := range urls {
				refused := policy.Check(aBuild(func(b *v1alpha1.Build) { b.Spec.Source.Git.URL = url }))
				if (len(refused) == 0) != want {
					t.Errorf("where %s is allowed, %q gets %v", places, url, refused)
				}
				if !want && len(refused) > 0 && refused[0].Field != "spec.source.git.url" {
					t.Errorf("%q is refused as %s", url, refused[0].Field)
				}
			}
		}
	}
}

// Of all fields that name an image the same holds.
func TestRegistries(t *testing.T) {
	fields := map[string]func(name string) func(*v1alpha1.Build){
		"spec.image.name":    func(name string) func(*v1alpha1.Build) { return func(b *v1alpha1.Build) { b.Spec.Image.Name = name } },
		"spec.builder.image": func(name string) func(*v1alpha1.Build) { return builder(v1alpha1.Builder{Image: name}) },
		"spec.builder.cache.repository": func(name string) func(*v1alpha1.Build) {
			return builder(v1alpha1.Builder{Cache: &v1alpha1.Cache{Repository: name}})
		},
	}
	for places, images := range map[string]struct{ allowed, refused []string }{
		"registry.example.com": {
			allowed: []string{
				"registry.example.com/shop", "registry.example.com/team/shop:1.0", "Registry.EXAMPLE.com/shop",
				"registry.example.com/shop@sha256:" + strings.Repeat("1", 64),
			},
			refused: []string{
				"shop", "team/shop:1.0", "docker.io/shop", "registry.example.com:5000/shop", "evil-registry.example.com/shop", "registry.example.com.evil.com/shop",
				"evil.com/registry.example.com/shop", "registry.example.com", "registry.example.com:5000", "registry.example.com/../shop", "registry.example.com//shop",
				"registry.example.com/Shop", "https://registry.example.com/shop", "user@registry.example.com/shop", "registry.example.com/shop@sha256:1", "@",
				"registry.example.com/%2e%2e/shop", strings.Repeat("1", 64),
			},
		},
		"docker.io": {
			allowed: []string{"shop", "team/shop:1.0", "docker.io/shop", "index.docker.io/team/shop", "docker.io/library/shop"},
			refused: []string{"localhost/shop", "localhost:5000/shop", "registry.example.com/docker.io/shop", "docker.io.evil.com/shop", "evil.docker.io/shop", "Team/shop"},
		},
		"docker.io/library,docker.io/team": {
			allowed: []string{"shop", "library/shop", "docker.io/team/shop", "team/shop"}, refused: []string{"team2/shop", "docker.io/other/team", "other/shop"},
		},
		"*.example.com": {
			allowed: []string{"registry.example.com/shop", "a.b.example.com/shop"},
			refused: []string{"example.com/shop", "evil-example.com/shop", "registry.example.com.evil.com/shop", "registry.example.com:5000/shop"},
		},
		"registry.example.com/team,registry.example.com:5000/{namespace}": {
			allowed: []string{"registry.example.com/team/shop", "registry.example.com/team", "registry.example.com/team/a/b", "registry.example.com:5000/team/shop"},
			refused: []string{"registry.example.com/team2/shop", "registry.example.com/shop", "registry.example.com/other/team/shop", "registry.example.com:5000/other/shop", "registry.example.com/team-x"},
		},
		"[2001:db8::1]:5000": {allowed: []string{"[2001:db8::1]:5000/shop", "[2001:DB8::1]:5000/shop"}, refused: []string{"[2001:db8::1]/shop", "[2001:db8::2]:5000/shop"}},
	} {
		var policy Policy
		if err := policy.Registries.Set(places); err != nil {
			t.Fatal(err)
		}
		good := images.allowed[0]
		for want, names := range map[bool][]string{true: images.allowed, false: images.refused} {
			for _, name := range names {
				for field, to := range fields {
					refused := policy.Check(aBuild(func(b *v1alpha1.Build) { b.Spec.Image.Name = good }, to(name)))
					if (len(refused) == 0) != want {
						t.Errorf("where %s is allowed, %s %q gets %v", places, field, name, refused)
					}
					if !want && (len(refused) != 1 || refused[0].Field != field) {
						t.Errorf("%s %q is refused with %v", field, name, refused)
					}
				}
			}
		}
	}
}

func TestWhatAPolicyRefuses(t *testing.T) {
	const variables = "Forbidden: variables that configure git, proxies or the builder may not be set where hosts are limited"
	for name, c := range map[string]struct {
		registries, hosts string
		builders          Builders
		build             func(*v1alpha1.Build)
		want              []string // nil: nothing
	}{
		"nothing when it is empty": {build: func(b *v1alpha1.Build) {
			b.Spec.Source.Git.URL = "git@evil.com:x"
			b.Spec.Builder = &v1alpha1.Builder{
				Name: v1alpha1.BuildKit, Image: "evil.com/x", Args: []string{"--x"}, Env: []corev1.EnvVar{{Name: "GIT_PROXY_COMMAND"}},
				Cache: &v1alpha1.Cache{Repository: "evil.com/x"}, Mirrors: []string{"evil.com"}, InsecureRegistries: []string{"evil.com"},
			}
		}},
		"another host of the source": {hosts: "git.example.com/{namespace},*.example.org", build: func(b *v1alpha1.Build) { b.Spec.Source.Git.URL = "git@evil.com:x" }, want: []string{
			"spec.source.git.url: Forbidden: this repository is not among those that may be cloned here: git.example.com/team, *.example.org"}},
		"another registry of the image": {registries: "registry.example.com/{namespace}", build: func(b *v1alpha1.Build) { b.Spec.Image.Name = "evil.com/x" }, want: []string{
			"spec.image.name: Forbidden: this repository is not among those that may be used here: registry.example.com/team"}},
		"an address for a host, where hosts are limited": {hosts: "git.example.com", build: builder(v1alpha1.Builder{HostAliases: []corev1.HostAlias{{IP: "10.0.0.1"}}}), want: []string{
			"spec.builder.hostAliases: Forbidden: names may not be given addresses where hosts are limited"}},
		"all that is wrong, in the order of the fields": {registries: "registry.example.com", hosts: "git.example.com", builders: Builders{v1alpha1.Kaniko, v1alpha1.Buildah},
			build: func(b *v1alpha1.Build) {
				b.Spec.Image.Name, b.Spec.Source.Git.URL = "evil.com/x", "git@evil.com:x"
				b.Spec.Builder = &v1alpha1.Builder{
					Name: v1alpha1.BuildKit, Image: "evil.com/x", Args: []string{"--x"}, Env: []corev1.EnvVar{{Name: "GIT_SSH_COMMAND"}},
					Cache: &v1alpha1.Cache{Repository: "evil.com/x"}, Mirrors: []string{"evil.com"}, InsecureRegistries: []string{"evil.com"},
				}
			},
			want: []string{
				"spec.builder.args: Forbidden: flags of the builder may not be given where hosts are limited: some clone or push elsewhere",
				"spec.builder.cache.repository: Forbidden: this repository is not among those that may be used here: registry.example.com",
				"spec.builder.env[0].name: " + variables,
				"spec.builder.image: Forbidden: this repository is not among those that may be used here: registry.example.com",
				"spec.builder.insecureRegistries[0]: Forbidden: this registry is not among those that may be used here: registry.example.com",
				"spec.builder.mirrors[0]: Forbidden: this registry is not among those that may be used here: registry.example.com",
				"spec.builder.name: Forbidden: BuildKit is not among the builders that may be used here: Kaniko, Buildah",
				"spec.image.name: Forbidden: this repository is not among those that may be used here: registry.example.com",
				"spec.source.git.url: Forbidden: this repository is not among those that may be cloned here: git.example.com",
			}},

		"no mirror of an allowed host, whatever its path": {registries: "registry.example.com/team,*.example.org:5000", build: builder(v1alpha1.Builder{
			Mirrors: []string{"registry.example.com", "REGISTRY.example.com", "a.example.org:5000"}})},
		"no insecure registry of an allowed host": {registries: "registry.example.com/team,10.0.0.1:5000", build: builder(v1alpha1.Builder{InsecureRegistries: []string{"registry.example.com", "10.0.0.1:5000"}})},
		"the mirrors of other hosts": {registries: "registry.example.com,*.example.org", build: builder(v1alpha1.Builder{
			Mirrors: []string{"registry.example.com", "registry.example.com:5000", "registry.example.com.evil.com", "example.org"}}), want: []string{
			"spec.builder.mirrors[1]: Forbidden: this registry is not among those that may be used here: registry.example.com, *.example.org",
			"spec.builder.mirrors[2]: Forbidden: this registry is not among those that may be used here: registry.example.com, *.example.org",
			"spec.builder.mirrors[3]: Forbidden: this registry is not among those that may be used here: registry.example.com, *.example.org"}},

		"a flag of the builder where only hosts of repositories are limited": {hosts: "git.example.com", build: builder(v1alpha1.Builder{Args: []string{"--context=git://evil.com/x"}}), want: []string{
			"spec.builder.args: Forbidden: flags of the builder may not be given where hosts are limited: some clone or push elsewhere"}},
		"a variable where only registries are limited": {registries: "registry.example.com", build: builder(v1alpha1.Builder{Env: []corev1.EnvVar{{Name: "KANIKO_REGISTRY_MIRROR"}}}), want: []string{
			"spec.builder.env[0].name: " + variables}},
		"neither where only builders are limited": {builders: Builders{v1alpha1.Kaniko}, build: builder(v1alpha1.Builder{Args: []string{"--x"}, Env: []corev1.EnvVar{{Name: "HTTPS_PROXY"}}})},
		"variables of git and of git-sync, and where their configuration is": {hosts: "git.example.com", build: builder(v1alpha1.Builder{Env: []corev1.EnvVar{
			{Name: "HTTPS_PROXY"}, {Name: "GITSYNC_REPO"}, {Name: "MY_GIT"}, {Name: "HOME"}, {Name: "HOMEPAGE"}, {Name: "XDG_CONFIG_HOME"}, {Name: "git_x"}}}), want: []string{
			"spec.builder.env[0].name: " + variables, "spec.builder.env[1].name: " + variables, "spec.builder.env[3].name: " + variables, "spec.builder.env[5].name: " + variables,
			"spec.builder.env[6].name: " + variables}},

		"the builder that counts when none is named": {builders: Builders{v1alpha1.BuildKit}, want: []string{
			"spec.builder.name: Forbidden: Kaniko is not among the builders that may be used here: BuildKit"}},
		"no builder that is allowed": {builders: Builders{v1alpha1.BuildKit, v1alpha1.Buildah}, build: builder(v1alpha1.Builder{Name: v1alpha1.Buildah})},
	} {
		t.Run(name, func(t *testing.T) {
			policy := Policy{Builders: c.builders}
			if err := policy.Registries.Set(c.registries); err != nil {
				t.Fatal(err)
			}
			if err := policy.GitHosts.Set(c.hosts); err != nil {
				t.Fatal(err)
			}
			build := aBuild()
			if c.build != nil {
				c.build(build)
			}
			var got []string
			for _, err := range policy.Check(build) {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("refused is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// Without a namespace, as only somebody who plays the API server sends it, {namespace} stands for no path.
func TestNoNamespaceIsNoPath(t *testing.T) {
	policy := Policy{Registries: Places{"registry.example.com/{namespace}"}}
	if refused := policy.Check(aBuild(func(b *v1alpha1.Build) { b.Namespace = "" })); len(refused) == 0 {
		t.Error("all paths are allowed")
	}
}

// What the CRD lets pass; types.go has the same in CEL.
var (
	httpsURL = regexp.MustCompile(`^https://([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?/[!-~]+$`)
	sshURL   = regexp.MustCompile(`^ssh://([A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?/[!-~]+$`)
	scpURL   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@([A-Za-z0-9][A-Za-z0-9.-]*|[[][0-9A-Fa-f:.]+[]]):([!-9;-~][!-~]*)$`)
)

// asGitReads returns the host and port that git connects to, and the path that it asks for there, by git's own order: a scheme, else a
// colon before the first slash. It reads byte by byte and knows nothing of net/url.
func asGitReads(repository string) (host, port, path string) {
	if _, rest, ok := strings.Cut(repository, "://"); ok {
		authority, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			authority = authority[at+1:]
		}
		port := "443"
		if strings.HasPrefix(repository, "ssh:") {
			port = "22"
		}
		if host, given, err := net.SplitHostPort(authority); err == nil {
			return host, given, path
		}
		return strings.Trim(authority, "[]"), port, path
	}
	_, rest, _ := strings.Cut(repository, "@")
	if strings.HasPrefix(rest, "[") {
		host, path, _ := strings.Cut(rest[1:], "]:")
		return host, "22", path
	}
	host, path, _ = strings.Cut(rest, ":")
	return host, "22", path
}

// A repository that passes is on the one host that is allowed, on its usual port, and in the one directory.
func FuzzGitHost(f *testing.F) {
	for _, url := range []string{
		"https://10.0.0.1/team/shop.git", "ssh://git@10.0.0.1:22/team/x", "git@10.0.0.1:/team/x", "ssh://git@10.0.0.122/team/x", "https://10.0.0.1@evil/team/x",
		"ssh://git@10.0.0.1/team?/../../x", "git@10.0.0.1:team/../x", "git@[10.0.0.1]:team/x", "https://10.0.0.1:443/team%2f../x", "https://10.0.0.1:/team/x#y",
	} {
		f.Add(url)
	}
	policy := Policy{GitHosts: Places{"10.0.0.1/team"}}
	f.Fuzz(func(t *testing.T, url string) {
		if len(url) > 2048 || !httpsURL.MatchString(url) && !sshURL.MatchString(url) && !scpURL.MatchString(url) ||
			len(policy.Check(aBuild(func(b *v1alpha1.Build) { b.Spec.Source.Git.URL = url }))) > 0 {
			return
		}
		host, port, path := asGitReads(url)
		if host != "10.0.0.1" || port != "22" && port != "443" || strings.HasPrefix(url, "https") != (port == "443") {
			t.Errorf("%q passes, and is on %s port %s", url, host, port)
		}
		segments := strings.Split(strings.Trim(path, "/"), "/")
		if segments[0] != "team" && segments[0] != "team.git" || strings.ContainsAny(path, `%\?#`) || slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
			t.Errorf("%q passes, and is at %s", url, path)
		}
	})
}

// An image that passes is in the one registry that is allowed, as the CRD's pattern divides a name: a registry is before the first slash.
func FuzzImageHost(f *testing.F) {
	for _, name := range []string{"10.0.0.1:5000/team/shop:1.0", "10.0.0.1:50001/team/x", "10.0.0.1/team", "team/shop", "evil.com/10.0.0.1:5000/team/x", "10.0.0.1:5000/team2/x"} {
		f.Add(name)
	}
	policy := Policy{Registries: Places{"10.0.0.1:5000/team"}}
	f.Fuzz(func(t *testing.T, name string) {
		for field, build := range map[string]*v1alpha1.Build{
			"image":         aBuild(func(b *v1alpha1.Build) { b.Spec.Image.Name = name }),
			"builder image": aBuild(func(b *v1alpha1.Build) { b.Spec.Image.Name = "10.0.0.1:5000/team/shop" }, builder(v1alpha1.Builder{Image: name})),
		} {
			if name == "" || len(policy.Check(build)) > 0 {
				continue
			}
			host, rest, _ := strings.Cut(name, "/")
			first, _, _ := strings.Cut(rest, "/")
			first, _, _ = strings.Cut(first, "@")
			first, _, _ = strings.Cut(first, ":")
			if host != "10.0.0.1:5000" || first != "team" || strings.Contains(rest, "..") {
				t.Errorf("the %s %q passes", field, name)
			}
		}
	})
}
