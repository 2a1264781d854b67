// Package policy says what an administrator allows Builds to name: registries, git hosts and builders. It is asked at
// admission, and again before a run is started, since a Build may be older than the policy or the webhook may be off.
// Every function is pure.
package policy

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// Policy is what Builds may name. The zero Policy allows everything.
//
// It holds for what a Build says, not for what a RUN instruction, a FROM or a submodule does: that is for a NetworkPolicy.
type Policy struct {
	// Registries that images are pushed to, and that builder and cache images, mirrors and insecure registries are of.
	Registries Places
	// GitHosts that repositories are cloned from.
	GitHosts Places
	// Builders that build; by default all.
	Builders Builders
}

// userConfig are variables by which git, git-sync or a builder could be told to go elsewhere, or through somebody else.
var userConfig = regexp.MustCompile(`(?i)^(GIT|XDG_|HOME$|(https?|all|no)_proxy$|SSL_CERT_|KANIKO_|BUILDAH_|BUILDKIT|BUILDCTL_|DOCKER_|REGISTRY_|REGISTRIES_|CONTAINERS_)`)

// Check returns what the policy does not allow of a Build whose format the CRD has accepted.
func (p Policy) Check(build *v1alpha1.Build) field.ErrorList {
	spec := field.NewPath("spec")
	source, image, builder := build.Spec.Source, build.Spec.Image, v1alpha1.Builder{}
	if build.Spec.Builder != nil {
		builder = *build.Spec.Builder
	}
	var all field.ErrorList
	refuse := func(path *field.Path, format string, args ...any) {
		all = append(all, field.Forbidden(path, fmt.Sprintf(format, args...)))
	}

	if len(p.GitHosts) > 0 {
		at := spec.Child("source", "git", "url")
		if host, repository, ok := gitPlace(source.Git.URL); !ok || !p.GitHosts.allow(build.Namespace, host, repository) {
			refuse(at, "this repository is not among those that may be cloned here: %s", p.GitHosts.in(build.Namespace))
		}
	}

	if len(p.Registries) > 0 {
		check := func(at *field.Path, name string) {
			if host, repository, ok := imagePlace(name); !ok || !p.Registries.allow(build.Namespace, host, repository) {
				refuse(at, "this repository is not among those that may be used here: %s", p.Registries.in(build.Namespace))
			}
		}
		check(spec.Child("image", "name"), image.Name)
		if builder.Image != "" {
			check(spec.Child("builder", "image"), builder.Image)
		}
		if builder.Cache != nil {
			check(spec.Child("builder", "cache", "repository"), builder.Cache.Repository)
		}
		for list, hosts := range map[string][]string{"mirrors": builder.Mirrors, "insecureRegistries": builder.InsecureRegistries} {
			for i, host := range hosts {
				if !p.Registries.allowHost(host) {
					refuse(spec.Child("builder", list).Index(i), "this registry is not among those that may be used here: %s", p.Registries.in(build.Namespace))
				}
			}
		}
	}

	if len(p.GitHosts)+len(p.Registries) > 0 { // what would lead around them
		if len(builder.Args) > 0 {
			refuse(spec.Child("builder", "args"), "flags of the builder may not be given where hosts are limited: some clone or push elsewhere")
		}
		if len(builder.HostAliases) > 0 {
			refuse(spec.Child("builder", "hostAliases"), "names may not be given addresses where hosts are limited")
		}
		for i, env := range builder.Env {
			if userConfig.MatchString(env.Name) {
				refuse(spec.Child("builder", "env").Index(i).Child("name"), "variables that configure git, proxies or the builder may not be set where hosts are limited")
			}
		}
	}
	if name := plan.BuilderName(build); len(p.Builders) > 0 && !slices.Contains(p.Builders, name) {
		refuse(spec.Child("builder", "name"), "%s is not among the builders that may be used here: %s", name, p.Builders)
	}
	slices.SortFunc(all, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return all
}

// Places are hosts, each with a port or a path if need be, for example registry.example.com/team. {namespace} in the path stands for
// the namespace of the Build. It is the value of a flag: separated by commas.
type Places []string

var place = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~{}-]+)*/?$`)

// Set implements flag.Value.
func (p *Places) Set(value string) error {
	*p = nil
	for _, entry := range list(value) {
		if !place.MatchString(entry) || strings.ContainsAny(strings.ReplaceAll(entry, "{namespace}", ""), "{}") || strings.Contains(entry, "..") {
			return fmt.Errorf("%q must be host[:port][/path] in lower case, for example registry.example.com/{namespace}; *. before a host stands for all below it", entry)
		}
		*p = append(*p, strings.TrimSuffix(strings.TrimSuffix(entry, "/"), ".git"))
	}
	return nil
}

// String implements flag.Value.
func (p Places) String() string { return strings.Join(p, ",") }

// in is the list as it reads in a namespace.
func (p Places) in(namespace string) string {
	return strings.ReplaceAll(strings.Join(p, ", "), "{namespace}", namespace)
}

func (p Places) allow(namespace, host, repository string) bool {
	return slices.ContainsFunc(p, func(entry string) bool {
		entryHost, prefix, limited := strings.Cut(entry, "/")
		if !matchHost(entryHost, host) {
			return false
		}
		prefix = strings.ReplaceAll(prefix, "{namespace}", namespace)
		return !limited || repository == prefix || strings.HasPrefix(repository, prefix+"/")
	})
}

// allowHost is of a registry that is only read from, where the path does not matter.
func (p Places) allowHost(host string) bool {
	return slices.ContainsFunc(p, func(entry string) bool {
		entryHost, _, _ := strings.Cut(entry, "/")
		return matchHost(entryHost, strings.ToLower(host))
	})
}

func matchHost(pattern, host string) bool {
	if below, ok := strings.CutPrefix(pattern, "*"); ok { // with its dot
		return strings.HasSuffix(host, below) && len(host) > len(below)
	}
	return pattern == host
}

// imagePlace returns the registry and the repository of an image; ok is false for what is no name of an image.
func imagePlace(name string) (host, repository string, ok bool) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", "", false
	}
	return strings.ToLower(reference.Domain(named)), reference.Path(named), true
}

// scpLike is user@host:path, which ssh reads as a URL that net/url does not know.
var scpLike = regexp.MustCompile(`^([^@/]+)@(\[[^\]]+\]|[^:/]+):/*(.*)$`)

// gitPlace returns the host of a repository, with its port where that is not the usual one, and its path; ok is false for what is
// no URL, or has a path that a server may read in another way than we do.
func gitPlace(repository string) (host, where string, ok bool) {
	if parts := scpLike.FindStringSubmatch(repository); parts != nil {
		repository = "ssh://" + parts[1] + "@" + parts[2] + "/" + parts[3]
	}
	parsed, err := url.Parse(repository)
	if err != nil || parsed.Hostname() == "" || strings.ContainsAny(repository, "?#") { // which are part of the path over ssh
		return "", "", false
	}
	where = strings.TrimPrefix(parsed.Path, "/")
	if strings.Contains(parsed.EscapedPath(), "%") || strings.Contains(where, `\`) || path.Clean("/"+where) != "/"+strings.TrimSuffix(where, "/") {
		return "", "", false
	}
	usual := map[string]string{"ssh": ":22", "https": ":443"}[parsed.Scheme] // with its colon, or 10.0.0.122 would be 10.0.0.1
	host = strings.TrimSuffix(strings.TrimSuffix(parsed.Host, usual), ":")
	return strings.ToLower(host), strings.TrimSuffix(where, ".git"), true
}

// Builders are names of builders. It is the value of a flag: separated by commas.
type Builders []v1alpha1.BuilderName

// Set implements flag.Value.
func (b *Builders) Set(value string) error {
	*b = nil
	for _, name := range list(value) {
		known := plan.BuilderNames()
		if !slices.Contains(known, v1alpha1.BuilderName(name)) {
			return fmt.Errorf("there is no builder %q; there are %s", name, Builders(known))
		}
		*b = append(*b, v1alpha1.BuilderName(name))
	}
	return nil
}

// String implements flag.Value.
func (b Builders) String() string {
	names := make([]string, 0, len(b))
	for _, name := range b {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

func list(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}
