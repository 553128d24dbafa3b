"""Which rules a pod's specification needs that this scheduler does not know yet.

Such a pod waits with a reason that names them; nothing in a specification is ignored in silence.
A rule that gets built leaves this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WORKLOAD: Final = "GangScheduling by spec.workloadRef"
"""Kubernetes 1.35 alone; 1.36 has ``spec.schedulingGroup`` in its stead."""


def filters(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of rules."""
    return (WORKLOAD,) if spec.get("workloadRef") else ()
