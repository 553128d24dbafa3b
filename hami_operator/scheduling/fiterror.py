"""The text that says why no node took a pod, as users know it from kube-scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hami_operator.scheduling import rejection


def message(
    all_nodes: int,
    rejections: Mapping[str, rejection.Rejection],
    prefilter: str | None = None,
    *,
    absent: rejection.Rejection | None = None,
    post_filter: str = "",
) -> str:
    """The whole message, e.g. ``0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.``.

    Args:
        all_nodes: all nodes that are known, looked at or not.
        rejections: by node name; each text of a node counts, so the counts may exceed the nodes.
        prefilter: what rejected the pod before any node was looked at; replaces the counts.
        absent: what counts for the nodes that ``rejections`` does not list.
        post_filter: what preemption said.
    """
    parts = [f"0/{all_nodes} nodes are available:"]
    if prefilter:
        parts.append(f"{prefilter}.")
    else:
        counts = Counter(text for one in rejections.values() for text in one.texts)
        if absent is not None and all_nodes > len(rejections):
            counts.update(dict.fromkeys(absent.texts, all_nodes - len(rejections)))
        histogram = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
        parts.extend([f"{histogram}."] if histogram else [])
    if post_filter:
        parts.append(post_filter)
    return " ".join(parts)
