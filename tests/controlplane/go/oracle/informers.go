package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// registry remembers every event handler that anybody adds to an informer. The plugins keep caches
// of their own behind such handlers, and tell nobody when these are filled.
type registry struct {
	mutex    sync.Mutex
	handlers []cache.DoneChecker
}

func (r *registry) add(registration cache.ResourceEventHandlerRegistration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.handlers = append(r.handlers, registration.HasSyncedChecker())
}

// wait returns when every handler has seen every object, or with an error when ctx ends.
func (r *registry) wait(ctx context.Context) error {
	r.mutex.Lock()
	handlers := r.handlers
	r.mutex.Unlock()
	for _, handler := range handlers {
		select {
		case <-handler.Done():
		case <-ctx.Done():
			return fmt.Errorf("handler %s has not seen every object: %w", handler.Name(), ctx.Err())
		}
	}
	return nil
}

// recordedInformer is an informer that tells the registry of its handlers.
type recordedInformer struct {
	cache.SharedIndexInformer
	registry *registry
}

func (i recordedInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.recorded(i.SharedIndexInformer.AddEventHandler(handler))
}

func (i recordedInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.recorded(i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period))
}

func (i recordedInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.recorded(i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options))
}

func (i recordedInformer) recorded(
	registration cache.ResourceEventHandlerRegistration, err error,
) (cache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		i.registry.add(registration)
	}
	return registration, err
}

// unchanging lists the same objects for ever. It stands for the API server: a fake clientset would
// do as well, but copies every object on its way in and out.
type unchanging struct {
	objects []runtime.Object
}

func (u unchanging) List(metav1.ListOptions) (runtime.Object, error) {
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, object := range u.objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	return list, nil
}

func (u unchanging) Watch(metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// IsWatchListSemanticsUnSupported makes the informers list first and then watch.
func (u unchanging) IsWatchListSemanticsUnSupported() bool { return true }

// newInformerFactory returns informers of the scenario's objects. Kinds that a scenario cannot have
// come from the client, which has none.
func newInformerFactory(
	client kubernetes.Interface, objects map[string][]runtime.Object,
) (informers.SharedInformerFactory, *registry) {
	factory := informers.NewSharedInformerFactory(client, 0)
	registered := &registry{}
	for name, example := range kinds {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		source := unchanging{objects: objects[name]}
		factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			informer := cache.NewSharedIndexInformer(source, example, 0, indexers)
			return recordedInformer{SharedIndexInformer: informer, registry: registered}
		})
	}
	return factory, registered
}
