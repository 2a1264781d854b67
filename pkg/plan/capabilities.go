package plan

import "github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"

// Capability is a field of the API that is the builder's to honour.
type Capability struct {
	// Field of the spec.
	Field string
	// By says how each builder honours the field. One that is missing cannot, and the CRD refuses the field with it.
	By map[v1alpha1.BuilderName]string
}

// Capabilities are all the fields that are the builder's to honour. docs/builders.md has them as a table, and the
// tests of the API layer see that the CRD refuses what is missing here.
var Capabilities = []Capability{
	{"dockerfile.target", by("--target", "target", "--target")},
	{"dockerfile.buildArgs", by("--build-arg", "build-arg", "--build-arg")},
	{"image.additionalTags", by("--destination", "name", "push")},
	{"image.labels", by("--label", "label", "--label")},
	{"image.annotations", by("", "annotation", "--annotation")},
	{"image.reproducible", by("--reproducible", "SOURCE_DATE_EPOCH, rewrite-timestamp", "--timestamp")},
	{"image.sbom", by("", "attest:sbom", "")},
	{"image.provenance", by("", "attest:provenance", "")},
	{"image.insecure", by("--insecure, --insecure-pull", "buildkitd.toml", "--tls-verify")},
	{"image.caConfigMapName", by("SSL_CERT_DIR", "SSL_CERT_DIR", "SSL_CERT_DIR")},
	{"builder.secrets", by("", "--secret", "--secret")},
	{"builder.platforms, one", by("--custom-platform", "platform", "--platform")},
	{"builder.platforms, several", by("", "platform", "--platform, --manifest")},
	{"builder.cache.repository", by("--cache-repo", "--export-cache, --import-cache", "--cache-to, --cache-from")},
	{"builder.cache.ttl", by("--cache-ttl", "", "--cache-ttl")},
	{"builder.insecureRegistries", by("--insecure-pull", "buildkitd.toml", "registries.conf")},
	{"builder.mirrors", by("--registry-mirror", "buildkitd.toml", "registries.conf")},
}

func by(kaniko, buildKit, buildah string) map[v1alpha1.BuilderName]string {
	how := map[v1alpha1.BuilderName]string{}
	for name, with := range map[v1alpha1.BuilderName]string{v1alpha1.Kaniko: kaniko, v1alpha1.BuildKit: buildKit, v1alpha1.Buildah: buildah} {
		if with != "" {
			how[name] = with
		}
	}
	return how
}
