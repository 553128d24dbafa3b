"""Annotation and label keys that belong to no vendor, once each."""

from __future__ import annotations

from typing import Final

VGPU_NODE: Final = "hami.io/vgpu-node"
"""Pod annotation and label: the node that the decision is for."""
VGPU_TIME: Final = "hami.io/vgpu-time"
"""Pod annotation: when the decision was made, Unix seconds."""
BIND_PHASE: Final = "hami.io/bind-phase"
"""Pod annotation: how far the allocation has come, see `bindphase`."""
BIND_TIME: Final = "hami.io/bind-time"
"""Pod annotation: when the bind began, Unix seconds."""

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
"""Pod annotation of the user: ``binpack`` or ``spread``, between nodes."""
GPU_POLICY: Final = "hami.io/gpu-scheduler-policy"
"""Pod annotation of the user: card policy, a word or a comma list."""
SCORING_WEIGHTS: Final = "hami.io/device-scoring-weights"
"""Pod annotation of the user: weights of slots, cores and memory in card scores."""

GANG_NAME: Final = "hami.io/gang-name"
"""Pod annotation of the user: the gang that the pod belongs to."""
GANG_MIN_MEMBER: Final = "hami.io/gang-min-member"
"""Pod annotation of the user: so many pods of the gang run together, or none."""
POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Pod label of the user: the PodGroup that the pod belongs to."""

NODE_LOCK: Final = "hami.io/mutex.lock"
"""Node annotation: the lock that all backends share, see `nodelock`."""
DEVICE_CORDON: Final = "hami.io/device-cordon"
"""Node annotation of an administrator: comma list of card ids that take no new pods."""

DECISION: Final = (VGPU_NODE, VGPU_TIME, BIND_PHASE, BIND_TIME)
"""Pod annotations that every decision sets, whatever its devices."""
