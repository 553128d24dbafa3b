"""Which rules a pod's specification needs that this scheduler does not know yet.

Such a pod waits with a reason that names them; nothing in a specification is ignored in silence.
A rule that gets built leaves this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

GANG: Final = "GangScheduling"


def filters(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of rules, as kube-scheduler calls them."""
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        return (GANG,)
    return ()
