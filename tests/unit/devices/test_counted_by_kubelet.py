"""Which device resources kubelet counts itself: those that come from a node's capacity."""

from hami_operator.devices import registry


def test_only_capacity_resources_are_left_to_the_ordinary_filter() -> None:
    assert registry.default().counted_by_kubelet == {
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "cambricon.com/mlu.smlu.vcore",
        "cambricon.com/mlu.smlu.vmemory",
        "enflame.com/gcu",
        "kunlunxin.com/xpu",
        "metax-tech.com/gpu",
        "mthreads.com/sgpu-core",
        "mthreads.com/sgpu-memory",
    }
