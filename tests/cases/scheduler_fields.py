"""The fields that rows of ``scheduler.yaml`` may have: what is not here would be passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Case = Mapping[str, Any]

ROW: Final = "id topic given when expect"
ALWAYS: Final = " mode models fixture settings profiles"
"""Fields of ``given`` that fixtures bring along, or that any row may have."""
CARD: Final = (
    "id index count used total_mem mem total_cores cores numa mode healthy type backend profiles"
    " placed"
)
POD: Final = (
    "uid ns name node vgpu_node phase terminating created inits apps allocated to_allocate"
    " bind_phase bind_time mig init_exit"
)
PENDING: Final = "ns name uid policy annotations inits apps"
REQUEST: Final = "n mem cores percent"

OPERATIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "admit": ("backends quota quota_used", "pod apps inits annotations",
              "allowed message_contains set"),
    "backend_score": ("backend cards node_annotations node_policy raw", "", "score"),
    "bind": ("api ledger locks_needed nodes pod_group pods", "node pod uid",
             "calls error_contains events lock lock_attempts reservation result"),
    "card_score": ("card", "request", "score"),
    "container_of_segment": ("apps inits", "segments", "containers"),
    "decide": ("node_annotations nodes pair_scores pods quota quota_used", "pod node_names",
               "answer decision error_contains events failed ledger mig node scores writes"),
    "decode": ("mig value", "", "segments unreadable"),
    "e2e": ("nodes", "pod", "events phase"),
    "effective": ("inits released segments segments_by_keyword", "", "effective"),
    "encode": ("profile segments", "", "value"),
    "event": ("outcome pod", "", "sent type"),
    "http": ("caller leader synced", "body method path", "Error status"),
    "lease": ("hostname lease", "events", "leader notified synced"),
    "lock": ("api busy_in_process lock nodes pods", "node pod times",
             "error_contains events lock lock_time patch_has patches result waited_for"),
    "metrics": ("nodes quota_used", "", "absent samples"),
    "mig_place": ("card earlier_picks placed", "wanted", "chosen"),
    "node_score": ("cards", "", "score"),
    "order": ("cards", "numa_bind policy", "order"),
    "plugin_allocate": (
        "api bind_phase containers lock to_allocate", "calls in_one_request",
        "bind_phase bind_phase_after error ld_so_preload_mounted lock lock_after"
        " patches_of_to_allocate unserved_after",
    ),
    "plugin_find": ("lock pods", "node", "pod"),
    "plugin_pop": ("containers segments", "times", "error popped"),
    "pod_group_member": ("labels spec", "", "member"),
    "quota_fits": ("apps inits memory_factor quota quota_used taken",
                   "ask card keyword meanwhile ns times", "fits"),
    "quota_steps": ("", "steps", "limits"),
    "read_register": ("register", "", "cards malformed state"),
    "register_steps": ("nodes types", "steps", "A B C candidates node_writes"),
    "requests": ("apps inits", "", "requests"),
    "settings": ("env flags", "", "node_lock_timeout"),
    "simulate": ("quota", "nodes pod", "answer ledger quota_used writes"),
    "steps": ("nodes pods quota", "steps", "cards ledger quota_used"),
    "tick": ("allocatable api handshake leader register register_changes_to", "",
             "alive cards decisions logged state written"),
    "type_allowed": ("nouse use", "models", "allowed"),
    "unlock": ("api lock", "node pod", "lock patches result"),
    "usage": ("nodes pods", "", "cards"),
    "uuid_allowed": ("nouse use", "ids", "allowed"),
    "weights": ("annotation", "", "core error error_contains memory slot"),
}  # fmt: skip
"""Operation to the fields of ``given``, ``when`` and ``expect``."""


def unknown(row: Case) -> set[str]:
    """The fields of a row that nothing reads, each with its place."""
    when, given = row["when"], row["given"]
    if when["op"] not in OPERATIONS:
        return {f"when.op {when['op']}"}
    known_given, known_when, known_expect = OPERATIONS[when["op"]]
    found = row.keys() - set(ROW.split())
    found |= _beyond("given", [given], known_given + ALWAYS)
    found |= _beyond("when", [when], known_when + " op")
    expected = row["expect"] if isinstance(row["expect"], list) else [row["expect"]]
    found |= _beyond("expect", expected, known_expect)
    found |= _beyond("card", _cards(given.get("nodes")), CARD)
    found |= _beyond("pod", [*given.get("pods", ()), *given.get("ledger", ())], POD)
    if when["op"] in ("decide", "simulate"):
        found |= _beyond("when.pod", [when["pod"]], PENDING)
        found |= _beyond("request", _requests(when["pod"]), REQUEST)
    return found


def _beyond(place: str, found: Any, known: str) -> set[str]:
    return {f"{place}.{name}" for each in found for name in each.keys() - set(known.split())}


def _cards(nodes: Any) -> Iterator[Case]:
    """The cards of all nodes; some rows only name their nodes."""
    for cards in nodes.values() if isinstance(nodes, Mapping) else ():
        yield from cards or ()


def _requests(pod: Case) -> Iterator[Case]:
    for container in (*pod.get("inits", ()), *pod.get("apps", ())):
        yield from container.values()
