package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// syncLimit bounds the wait for informers and plugins; it takes about a millisecond.
const syncLimit = 20 * time.Second

// cluster is a whole kube-scheduler that has seen a scenario's objects and was never started: its
// queue, cache and plugins are filled, but nothing takes pods from the queue.
type cluster struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	informers informers.SharedInformerFactory
	cancel    context.CancelFunc
}

// newCluster builds kube-scheduler with its default profile and shows it the scenario. The caller
// must stop it, also after an error.
func newCluster(ctx context.Context, s scenario) (*cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	client := fake.NewSimpleClientset()
	factory, registered := newInformerFactory(client, s.objects)
	c := &cluster{informers: factory, cancel: cancel}
	built, err := scheduler.New(
		ctx, client, factory, nil, discardEvents,
		// By default it stops at the first hundred feasible nodes.
		scheduler.WithPercentageOfNodesToScore(new(int32(100))),
	)
	if err != nil {
		return c, fmt.Errorf("building the scheduler: %w", err)
	}
	c.scheduler = built
	c.framework = built.Profiles[corev1.DefaultSchedulerName]
	if err := c.fill(ctx, registered); err != nil {
		return c, err
	}
	return c, c.takeSnapshot(ctx)
}

// fill lets the informers tell the scheduler and its plugins every object.
func (c *cluster) fill(ctx context.Context, registered *registry) error {
	c.informers.Start(ctx.Done())
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	c.informers.WaitForCacheSync(ctx.Done())
	if err := registered.wait(ctx); err != nil {
		return err
	}
	return c.scheduler.WaitForHandlersSync(ctx)
}

// takeSnapshot does what kube-scheduler does at the start of each scheduling cycle.
func (c *cluster) takeSnapshot(ctx context.Context) error {
	snapshot, ok := c.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("the snapshot is a %T", c.framework.SnapshotSharedLister())
	}
	return c.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

// stop ends every goroutine of the cluster and waits for the informers'.
func (c *cluster) stop() {
	c.cancel()
	c.informers.Shutdown()
	if c.scheduler != nil {
		c.scheduler.SchedulingQueue.Close()
	}
}

func discardEvents(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
