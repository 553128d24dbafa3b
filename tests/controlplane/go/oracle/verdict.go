package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// verdict is what kube-scheduler says of a scenario; README.md describes the fields.
type verdict struct {
	ID        string                      `json:"id"`
	Feasible  []string                    `json:"feasible"`
	Refusals  map[string]*refusal         `json:"refusals"`
	PreFilter *refusal                    `json:"prefilter"`
	Message   string                      `json:"message"`
	Scores    map[string]map[string]int64 `json:"scores"`
	Error     string                      `json:"error,omitempty"`
}

// newVerdict has an empty list where one is due, never null.
func newVerdict(id string) verdict {
	return verdict{
		ID:       id,
		Feasible: []string{},
		Refusals: map[string]*refusal{},
		Scores:   map[string]map[string]int64{},
	}
}

// refusal is a plugin's answer other than success.
type refusal struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// cycle is one run of a pod through the plugins.
type cycle struct {
	*cluster
	ctx   context.Context
	state fwk.CycleState
	scenario
}

// judge answers one scenario. Whatever goes wrong with it is in the verdict's error.
func judge(ctx context.Context, s scenario) (result verdict) {
	result = newVerdict(s.id)
	defer func() {
		if fault := recover(); fault != nil {
			result.Error = fmt.Sprintf("panic: %v", fault)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := newCluster(ctx, s)
	defer cluster.stop()
	if err == nil {
		run := cycle{cluster: cluster, ctx: ctx, state: framework.NewCycleState(), scenario: s}
		err = run.through(&result)
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// through sends the pod through the plugins as kube-scheduler does, up to the choice of a node.
func (c cycle) through(result *verdict) error {
	if result.PreFilter = c.preEnqueue(); result.PreFilter != nil {
		return nil
	}
	feasible, err := c.filter(result)
	if err != nil {
		return err
	}
	for _, node := range feasible {
		result.Feasible = append(result.Feasible, node.Node().Name)
	}
	slices.Sort(result.Feasible)
	c.score(result, feasible)
	result.Message, err = c.message(result.Feasible)
	return err
}

// preEnqueue returns the first plugin that keeps the pod out of the queue.
func (c cycle) preEnqueue() *refusal {
	for _, plugin := range c.framework.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(c.ctx, c.pod); !status.IsSuccess() {
			return newRefusal(status, plugin.Name())
		}
	}
	return nil
}

// filter asks the plugins about every node and returns the nodes that none refuses.
func (c cycle) filter(result *verdict) ([]fwk.NodeInfo, error) {
	nodes, err := c.framework.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	narrowed, status, narrowers := c.framework.RunPreFilterPlugins(c.ctx, c.state, c.pod)
	if !status.IsSuccess() {
		result.PreFilter = newRefusal(status, joined(narrowers))
		return nil, nil
	}
	feasible := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			result.Refusals[name] = leftOut(narrowers)
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(c.ctx, c.state, c.pod, node)
		if !status.IsSuccess() {
			result.Refusals[name] = newRefusal(status, "")
			continue
		}
		feasible = append(feasible, node)
	}
	return feasible, nil
}

// score notes each feasible node's points by plugin, normalised and weighted. It notes none if a
// plugin fails: then the pod is not placed, unless only one node is left, and the message says why.
func (c cycle) score(result *verdict, nodes []fwk.NodeInfo) {
	if len(nodes) == 0 {
		return
	}
	if !c.framework.RunPreScorePlugins(c.ctx, c.state, c.pod, nodes).IsSuccess() {
		return
	}
	scored, status := c.framework.RunScorePlugins(c.ctx, c.state, c.pod, nodes)
	if !status.IsSuccess() {
		return
	}
	for _, node := range scored {
		points := make(map[string]int64, len(node.Scores))
		for _, plugin := range node.Scores {
			points[plugin.Name] = plugin.Score
		}
		result.Scores[node.Name] = points
	}
}

// message lets kube-scheduler itself place the pod and returns why it does not, else "". It fails
// if that contradicts the nodes that we found feasible: then this program would be wrong.
func (c cycle) message(feasible []string) (string, error) {
	pod, err := framework.NewPodInfo(c.pod)
	if err != nil {
		return "", err
	}
	placed, refused := c.scheduler.SchedulePod(
		c.ctx, c.framework, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: pod},
	)
	var misfit *framework.FitError
	switch {
	case refused == nil && !slices.Contains(feasible, placed.SuggestedHost):
		return "", fmt.Errorf("kube-scheduler takes %s, not of %v", placed.SuggestedHost, feasible)
	case refused == nil:
		return "", nil
	case errors.As(refused, &misfit) && len(feasible) > 0:
		return "", fmt.Errorf("kube-scheduler takes none of %v: %w", feasible, refused)
	}
	return refused.Error(), nil
}

func newRefusal(status *fwk.Status, plugin string) *refusal {
	if status.Plugin() != "" {
		plugin = status.Plugin()
	}
	// Some plugins tell them in the order of a map.
	reasons := slices.Sorted(slices.Values(status.Reasons()))
	return &refusal{Plugin: plugin, Code: status.Code().String(), Reasons: reasons}
}

// leftOut is the refusal of a node that no filter saw, because PreFilter named others.
func leftOut(narrowers sets.Set[string]) *refusal {
	return &refusal{
		Plugin:  joined(narrowers),
		Code:    fwk.UnschedulableAndUnresolvable.String(),
		Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowers))},
	}
}

func joined(plugins sets.Set[string]) string { return strings.Join(sets.List(plugins), ",") }
