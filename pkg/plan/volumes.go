package plan

import (
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// The volumes of a run's pod.
const (
	workspaceVolume  = "workspace"   // the clone
	gitVolume        = "git"         // the Secret for the git server
	gitKeysVolume    = "git-keys"    // what is made of it
	gitCAVolume      = "git-ca"      // authorities that the clone trusts
	pushVolume       = "push"        // the Secret for the registry
	registryCAVolume = "registry-ca" // authorities that the builder trusts
	secretsVolume    = "secrets"     // what the Dockerfile's RUN may mount
	filesVolume      = "files"       // what the controller itself writes
	storageVolume    = "storage"     // the builder's layers
	userVolume       = "user-"       // and the name that the Build gives it
)

const (
	caKey        = "ca.crt"
	dockerConfig = "config.json"
)

// secretMode lets every user read: a container has only one, who is another for each builder. ssh gets a copy that is its own.
const secretMode = 0o444

func volumes(build *v1alpha1.Build) []corev1.Volume {
	git, image, settings := build.Spec.Source.Git, build.Spec.Image, ptr.Deref(build.Spec.Builder, v1alpha1.Builder{})
	var volumes []corev1.Volume
	add := func(name string, source corev1.VolumeSource) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	add(workspaceVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	add(gitKeysVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("4Mi")),
	}})
	if git.SecretName != "" {
		add(gitVolume, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: git.SecretName, DefaultMode: ptr.To[int32](secretMode),
		}})
	}
	if git.CAConfigMapName != "" {
		add(gitCAVolume, authorities(git.CAConfigMapName))
	}
	if image.SecretName != "" {
		// The whole Secret, which has to be there, and its key .dockerconfigjson under the name that builders want;
		// a Secret that has config.json instead needs no renaming.
		renamed := secretItem(image.SecretName, corev1.DockerConfigJsonKey, dockerConfig)
		renamed.Secret.Optional = ptr.To(true)
		add(pushVolume, projected(secretProjection(image.SecretName), renamed))
	}
	if image.CAConfigMapName != "" {
		add(registryCAVolume, authorities(image.CAConfigMapName))
	}
	if len(settings.Secrets) > 0 {
		var sources []corev1.VolumeProjection
		for _, secret := range settings.Secrets {
			sources = append(sources, secretItem(secret.SecretName, secret.Key, secret.ID))
		}
		add(secretsVolume, projected(sources...))
	}
	if files := files(build); len(files) > 0 {
		var items []corev1.DownwardAPIVolumeFile
		for _, name := range slices.Sorted(maps.Keys(files)) {
			items = append(items, corev1.DownwardAPIVolumeFile{Path: name, FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "metadata.annotations['" + fileAnnotation(name) + "']",
			}})
		}
		add(filesVolume, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}})
	}
	if needsStorage(build) {
		add(storageVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
	for _, volume := range settings.Volumes {
		add(userVolume+volume.Name, corev1.VolumeSource{
			PersistentVolumeClaim: volume.PersistentVolumeClaim, EmptyDir: volume.EmptyDir,
			ConfigMap: volume.ConfigMap, Secret: volume.Secret,
		})
	}
	return volumes
}

// hasVolume says whether the pod has the volume of that name.
func hasVolume(build *v1alpha1.Build, name string) bool {
	return slices.ContainsFunc(volumes(build), func(v corev1.Volume) bool { return v.Name == name })
}

// needsStorage says whether the builder keeps layers in a volume, and the Build brings none for them.
func needsStorage(build *v1alpha1.Build) bool {
	storage := builderOf(build).storage
	return storage != "" && !slices.ContainsFunc(ptr.Deref(build.Spec.Builder, v1alpha1.Builder{}).Volumes,
		func(v v1alpha1.Volume) bool { return path.Clean(v.MountPath) == storage })
}

func authorities(configMap string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
		Items:                []corev1.KeyToPath{{Key: caKey, Path: caKey}},
	}}
}

func projected(sources ...corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](secretMode), Sources: sources}}
}

func secretProjection(secret string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}
}

func secretItem(secret, key, file string) corev1.VolumeProjection {
	projection := secretProjection(secret)
	projection.Secret.Items = []corev1.KeyToPath{{Key: key, Path: file}}
	return projection
}
