package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// The API server's own defaulting, one package per group of the kinds below.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// kinds names every collection that the default plugins read, by the resource name in the API's
// paths, with an example of its objects. A scenario may have others, which decide nothing.
var kinds = map[string]runtime.Object{
	"nodes":                  &corev1.Node{},
	"pods":                   &corev1.Pod{},
	"namespaces":             &corev1.Namespace{},
	"services":               &corev1.Service{},
	"replicationcontrollers": &corev1.ReplicationController{},
	"replicasets":            &appsv1.ReplicaSet{},
	"statefulsets":           &appsv1.StatefulSet{},
	"poddisruptionbudgets":   &policyv1.PodDisruptionBudget{},
	"persistentvolumes":      &corev1.PersistentVolume{},
	"persistentvolumeclaims": &corev1.PersistentVolumeClaim{},
	"storageclasses":         &storagev1.StorageClass{},
	"csinodes":               &storagev1.CSINode{},
	"csidrivers":             &storagev1.CSIDriver{},
	"csistoragecapacities":   &storagev1.CSIStorageCapacity{},
	"volumeattachments":      &storagev1.VolumeAttachment{},
	"resourceclaims":         &resourcev1.ResourceClaim{},
	"resourceslices":         &resourcev1.ResourceSlice{},
	"deviceclasses":          &resourcev1.DeviceClass{},
}

// scenario is a cluster and one pod that waits for a node of it.
type scenario struct {
	id      string
	objects map[string][]runtime.Object
	pod     *corev1.Pod
}

// parseScenario reads one line. The id is returned even with an error, if it could be read.
func parseScenario(line []byte) (scenario, error) {
	var text struct {
		ID    string                       `json:"id"`
		Kinds map[string][]json.RawMessage `json:"kinds"`
		Pod   json.RawMessage              `json:"pod"`
	}
	if err := json.Unmarshal(line, &text); err != nil {
		return scenario{id: text.ID}, fmt.Errorf("not a scenario: %w", err)
	}
	parsed := scenario{id: text.ID, objects: make(map[string][]runtime.Object)}
	for name, example := range kinds {
		objects, err := parseObjects(name, text.Kinds[name], example)
		if err != nil {
			return parsed, err
		}
		parsed.objects[name] = objects
	}
	pod, err := parseObject(text.Pod, &corev1.Pod{})
	if err != nil {
		return parsed, fmt.Errorf("pod: %w", err)
	}
	parsed.pod = pod.(*corev1.Pod)
	// kube-scheduler sees the waiting pod among the others. One that names a node, as in a scenario
	// about the plugin NodeName, would count as running there and be in its own way.
	if parsed.pod.Spec.NodeName == "" {
		parsed.objects["pods"] = append(parsed.objects["pods"], parsed.pod)
	}
	return parsed, nil
}

func parseObjects(
	name string, items []json.RawMessage, example runtime.Object,
) ([]runtime.Object, error) {
	objects := make([]runtime.Object, 0, len(items))
	for i, item := range items {
		object, err := parseObject(item, example)
		if err != nil {
			return nil, fmt.Errorf("kinds.%s[%d]: %w", name, i, err)
		}
		if !isTerminal(object) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// parseObject decodes one object, which must be of the example's type, and sets its defaults.
func parseObject(text json.RawMessage, example runtime.Object) (runtime.Object, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	if reflect.TypeOf(object) != reflect.TypeOf(example) {
		return nil, fmt.Errorf("want %T, have %T", example, object)
	}
	legacyscheme.Scheme.Default(object)
	return object, nil
}

// isTerminal tells of pods that kube-scheduler's watch, which has a field selector, never shows.
func isTerminal(object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}
