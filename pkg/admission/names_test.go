package admission

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// fill sets every string in a value, at any depth, to the path of its field, and returns these paths. Of a list and of a map there is one entry.
func fill(value reflect.Value, path string) []string {
	switch value.Kind() {
	case reflect.String:
		value.SetString(path)
		return []string{path}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		return fill(value.Elem(), path)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		return fill(value.Index(0), path)
	case reflect.Map:
		entry := reflect.New(value.Type().Elem()).Elem()
		paths := fill(entry, path)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), entry)
		return paths
	case reflect.Struct:
		var paths []string
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() {
				below := strings.TrimPrefix(path+"."+field.Name, ".")
				if field.Anonymous {
					below = path
				}
				paths = append(paths, fill(value.Field(i), below)...)
			}
		}
		return paths
	}
	return nil
}

// ofContainers are the same places in containers of all three kinds.
func ofContainers(places ...string) []string {
	var all []string
	for _, place := range places {
		all = append(all, "InitContainers."+place, "Containers."+place, "EphemeralContainers."+place)
	}
	return all
}

// These are the places of Kubernetes 1.37, looked up in its types by hand. When a newer one has a field more, this test fails: look at what
// the field names, and put it where it belongs.
func TestAllSecretsOfAPodAreFound(t *testing.T) {
	secrets := append(ofContainers("Env.ValueFrom.SecretKeyRef.Name", "EnvFrom.SecretRef.Name"),
		"ImagePullSecrets.Name",
		"Volumes.AzureFile.SecretName",
		"Volumes.CSI.NodePublishSecretRef.Name",
		"Volumes.CephFS.SecretRef.Name",
		"Volumes.Cinder.SecretRef.Name",
		"Volumes.FlexVolume.SecretRef.Name",
		"Volumes.ISCSI.SecretRef.Name",
		"Volumes.Projected.Sources.Secret.Name",
		"Volumes.RBD.SecretRef.Name",
		"Volumes.ScaleIO.SecretRef.Name",
		"Volumes.Secret.SecretName",
		"Volumes.StorageOS.SecretRef.Name")
	// Parts of a reference to a Secret that are not its name.
	parts := append(ofContainers("Env.ValueFrom.SecretKeyRef.Key"),
		"Volumes.Projected.Sources.Secret.Items.Key", "Volumes.Projected.Sources.Secret.Items.Path",
		"Volumes.Secret.Items.Key", "Volumes.Secret.Items.Path")
	// What names an object of another kind, a file, or nothing outside of the pod.
	others := append(ofContainers(
		"Name", "Env.Name", "Env.ValueFrom.ConfigMapKeyRef.Name", "Env.ValueFrom.FileKeyRef.VolumeName", "Env.ValueFrom.ResourceFieldRef.ContainerName",
		"EnvFrom.ConfigMapRef.Name", "Ports.Name", "Resources.Claims.Name", "VolumeDevices.Name", "VolumeMounts.Name",
		"Lifecycle.PostStart.HTTPGet.HTTPHeaders.Name", "Lifecycle.PreStop.HTTPGet.HTTPHeaders.Name", "LivenessProbe.HTTPGet.HTTPHeaders.Name",
		"ReadinessProbe.HTTPGet.HTTPHeaders.Name", "StartupProbe.HTTPGet.HTTPHeaders.Name", "SecurityContext.WindowsOptions.GMSACredentialSpecName", "SecurityContext.WindowsOptions.RunAsUserName",
		"ResizePolicy.ResourceName"),
		"EphemeralContainers.TargetContainerName",
		"DNSConfig.Options.Name", "EvictionResponders.Name", "NodeName", "OS.Name", "PriorityClassName", "ResourceClaims.Name",
		"ResourceClaims.ResourceClaimName", "ResourceClaims.ResourceClaimTemplateName", "Resources.Claims.Name", "RuntimeClassName",
		"SchedulerName", "SchedulingGates.Name", "SchedulingGroup.PodGroupName", "SecurityContext.Sysctls.Name",
		"SecurityContext.WindowsOptions.GMSACredentialSpecName", "SecurityContext.WindowsOptions.RunAsUserName",
		"Volumes.Name", "Volumes.AzureDisk.DiskName", "Volumes.AzureFile.ShareName", "Volumes.CephFS.SecretFile", "Volumes.ConfigMap.Name",
		"Volumes.DownwardAPI.Items.ResourceFieldRef.ContainerName", "Volumes.Ephemeral.VolumeClaimTemplate.GenerateName",
		"Volumes.Ephemeral.VolumeClaimTemplate.Name", "Volumes.Ephemeral.VolumeClaimTemplate.OwnerReferences.Name",
		"Volumes.Ephemeral.VolumeClaimTemplate.Spec.DataSource.Name", "Volumes.Ephemeral.VolumeClaimTemplate.Spec.DataSourceRef.Name",
		"Volumes.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName", "Volumes.Ephemeral.VolumeClaimTemplate.Spec.VolumeAttributesClassName",
		"Volumes.Ephemeral.VolumeClaimTemplate.Spec.VolumeName", "Volumes.Flocker.DatasetName", "Volumes.GCEPersistentDisk.PDName",
		"Volumes.Glusterfs.EndpointsName", "Volumes.ISCSI.InitiatorName", "Volumes.PersistentVolumeClaim.ClaimName",
		"Volumes.Projected.Sources.ClusterTrustBundle.Name", "Volumes.Projected.Sources.ClusterTrustBundle.SignerName",
		"Volumes.Projected.Sources.ConfigMap.Name", "Volumes.Projected.Sources.DownwardAPI.Items.ResourceFieldRef.ContainerName",
		"Volumes.Projected.Sources.PodCertificate.SignerName", "Volumes.Projected.Sources.ServiceAccountToken.Audience",
		"Volumes.Projected.Sources.ServiceAccountToken.Path", "Volumes.ScaleIO.VolumeName", "Volumes.StorageOS.VolumeName",
		"Volumes.VsphereVolume.StoragePolicyName")

	var pod corev1.PodSpec
	paths := fill(reflect.ValueOf(&pod).Elem(), "")
	build := aBuild(func(b *v1alpha1.Build) {
		b.Spec.Deployment = &v1alpha1.Deployment{Ingress: &v1alpha1.Ingress{TLSSecretName: "tls"}}
	})
	got := namesOf(build, []corev1.PodSpec{{}, pod, pod})
	if want := slices.Sorted(slices.Values(append(secrets, "tls"))); !slices.Equal(got.secrets, want) {
		t.Errorf("the Secrets are\n%s\nwant\n%s", strings.Join(got.secrets, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(got.serviceAccounts, []string{"DeprecatedServiceAccount", "ServiceAccountName"}) {
		t.Errorf("the ServiceAccounts are %q", got.serviceAccounts)
	}

	// Whatever could be the name of a Secret has been looked at.
	for _, path := range paths {
		if (strings.Contains(strings.ToLower(path), "secret") || strings.HasSuffix(path, "Name") || strings.Contains(path, "Account")) &&
			!slices.Contains(secrets, path) && !slices.Contains(parts, path) && !slices.Contains(others, path) && !slices.Contains(got.serviceAccounts, path) {
			t.Errorf("what is %s?", path)
		}
	}
	for _, path := range slices.Concat(secrets, parts, others) {
		if !slices.Contains(paths, path) {
			t.Errorf("there is no %s", path)
		}
	}
}
