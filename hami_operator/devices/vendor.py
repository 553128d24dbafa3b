"""The row type: everything the engine knows about one device backend.

A backend is data. What data cannot say is a hook; a row without hooks is served by the engine's
defaults alone.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from hami_operator import errors
from hami_operator.protocol import decision, register

if TYPE_CHECKING:  # hooks speak of the engine's values, and the engine of rows
    from hami_operator.devices import admit, annotate, fit, request, score, usage


class NodeFacts(Protocol):
    """What the core reads of a Node."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        ...

    @property
    def capacity(self) -> Mapping[str, str]:
        """``status.capacity``, as the API gives it."""
        ...

    @property
    def allocatable(self) -> Mapping[str, str]:
        """``status.allocatable``, as the API gives it."""
        ...


class Check(enum.Enum):
    """The checks of the fit, in the order in which a card meets them."""

    HEALTH = "F1"
    CORDON = "F2"
    TYPE = "F3"
    NUMA = "F4"
    UUID = "F5"
    SLOTS = "F6"
    MUTEX = "F7"
    CLAMP = "F8"
    QUOTA = "F9"
    MEMORY = "F10"
    CORES = "F11"
    EXCLUSIVE = "F12"
    EXHAUSTED = "F13"


SHARING = frozenset(Check) - {Check.CORDON, Check.TYPE, Check.NUMA}
"""Checks of a row whose cards are shared, without type keys, cordon and NUMA binding."""


WHOLE = frozenset({Check.HEALTH, Check.UUID, Check.SLOTS, Check.MUTEX})
"""Checks of a row whose devices are given as they are, by the number."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Names of the resources that containers ask with; an empty name matches nothing."""

    count: str
    memory: str = ""
    cores: str = ""
    percent: str = ""
    priority: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are in use, count first."""
        every = (self.count, self.memory, self.cores, self.percent, self.priority)
        return tuple(name for name in every if name)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeKeys:
    """Node annotations of the backend.

    Attributes:
        register: where its plugin registers; empty for backends that only show capacity.
        handshake: where the plugin is asked for a sign of life; empty where it never answers.
        legacy_handshake: used instead on nodes that carry it.
        listed: where devices are listed in a form of the vendor's own.
        extra: whatever else its plugin writes there and the row's hooks read.
    """

    register: str = ""
    handshake: str = ""
    legacy_handshake: str = ""
    listed: str = ""
    extra: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PodKeys:
    """Pod annotations of the decision.

    Attributes:
        to_allocate: what the plugin serves from; empty where the backend has only the other.
        allocated: what usage is read from.
        plugin: further keys that a decision may set for the plugin.
    """

    allocated: str
    to_allocate: str = ""
    plugin: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every key that a decision may write."""
        decided = (self.to_allocate, self.allocated)
        return (*(key for key in decided if key), *self.plugin)

    @property
    def recorded(self) -> str:
        """The key that usage is read from."""
        return self.allocated or self.to_allocate


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Pod annotations with which a user selects cards; an empty key selects nothing.

    Attributes:
        use_type: comma list; one must be part of the model.
        skip_type: comma list; none may be part of the model.
        use_uuid: keys of comma lists; the id must be in each of them.
        skip_uuid: keys of comma lists; the id must be in none of them.
        numa_bind: true words keep the cards of a container on one NUMA node.
    """

    use_type: str = ""
    skip_type: str = ""
    use_uuid: tuple[str, ...] = ()
    skip_uuid: tuple[str, ...] = ()
    numa_bind: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a `Hooks.devices` hook found on a node.

    Attributes:
        key: the resource or annotation that the devices come from.
        cards: well-formed devices.
        findings: what could not be read.
        allocatable: the resource whose allocatable amount says whether kubelet offers any.
    """

    key: str
    allocatable: str
    cards: tuple[register.Card, ...] = ()
    findings: tuple[register.Finding, ...] = ()


CheckFunction = Callable[
    ["fit.Walk", "register.Card", "usage.Usage"],
    "errors.Reason | None",
]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """What data cannot say; None leaves the engine's default.

    Attributes:
        devices: devices of a node that has no register of the row; None where there are none.
        card: a registered card as the row takes it, or the wire name of what is wrong with it.
        notes: what is amiss with other node annotations of the row; the cards stay.
        ask: reads the whole request, for rows that are not asked with a count.
        memory: MiB per device, 0 where the container names none, for units of the row's own.
        request: last word on a request that the engine has read.
        admit: changes to a container before its quantities are checked.
        before: judges the whole node before the walk; an answer replaces the walk.
        prepare: facts about the whole node that the hooks of the walk share (`fit.Walk.facts`).
        amounts: (MiB, cores, extra facts) of the pick that this card would give, where it is not
            what the request says.
        checks: replacements of single checks.
        rule: the row's own check, after all others.
        again: the same card once more, with the pick charged, for cards that serve several picks.
        enough: whether a container may ask for more devices than there are candidates.
        collect: whether all fitting cards are collected before some are chosen.
        choose: the choice among collected cards.
        charge: a card with one more pick for a pod with these annotations.
        note: what else a bound or reserved pod holds, for `settle`; asked once per pod.
        settle: all cards of a node, recounted from the pods that hold them.
        lasts: what one init container has of the card stays taken for the others of its pod.
        metered: a pick in the units of quota limits; the card is given for picks that were read.
        remark: what is odd about a bound pod's annotations beside its devices; empty if nothing.
        word: second field of a pick in the decision, where it is not the keyword.
        annotate: plugin keys beside the decision.
        score: the row's term of the node score; higher is better.
    """

    devices: Callable[[Vendor, NodeFacts], Found | None] | None = None
    card: Callable[[register.Card], register.Card | str] | None = None
    notes: Callable[[NodeFacts], tuple[register.Finding, ...]] | None = None
    ask: Callable[[Vendor, request.Asked], request.Request | request.Invalid | None] | None = None
    memory: Callable[[Vendor, request.Asked], int | request.Invalid] | None = None
    request: (
        Callable[[Vendor, request.Request, request.Asked], request.Request | request.Invalid]
        | None
    ) = None
    admit: Callable[[Vendor, admit.Container, admit.Pod], admit.Admitted | admit.Denied] | None = (
        None
    )
    prepare: Callable[[fit.Walk], Mapping[str, Any]] | None = None
    before: Callable[[fit.Walk], fit.Fit | fit.NoFit | None] | None = None
    amounts: Callable[[fit.Walk, register.Card], tuple[int, int, Mapping[str, Any]]] | None = None
    checks: Mapping[Check, CheckFunction] = dataclasses.field(default_factory=dict, hash=False)
    rule: CheckFunction | None = None
    again: Callable[[usage.CardUsage, decision.Pick], usage.CardUsage | None] | None = None
    enough: Callable[[fit.Walk], bool] | None = None
    collect: Callable[[fit.Walk], bool] | None = None
    choose: Callable[[fit.Walk], fit.Fit | fit.NoFit] | None = None
    charge: (
        Callable[[usage.CardUsage, decision.Pick, Mapping[str, str]], usage.CardUsage] | None
    ) = None
    note: Callable[[Mapping[str, str], decision.Slots], Any] | None = None
    settle: (
        Callable[
            [tuple[usage.CardUsage, ...], tuple[usage.Holder, ...]], tuple[usage.CardUsage, ...]
        ]
        | None
    ) = None
    lasts: Callable[[register.Card], bool] | None = None
    metered: Callable[[decision.Pick, register.Card | None], decision.Pick] | None = None
    remark: Callable[[Mapping[str, str], decision.Slots], str] | None = None
    word: Callable[[decision.Pick], str] | None = None
    annotate: Callable[[Vendor, decision.Slots, annotate.Facts], Mapping[str, str]] | None = None
    score: Callable[[Vendor, score.Facts], float] | None = None


PLAIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resourceCountName": "count",
        "resourceMemoryName": "memory",
        "resourceCoreName": "cores",
        "memoryFactor": "memory_factor",
    }
)
"""Names that most sections of HAMi's configuration file use."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Where HAMi's configuration file speaks of a row.

    Attributes:
        path: keys that lead to the section; a list there holds one entry per row.
        word_key: in a list, the key of an entry that holds the row's keyword.
        names: names of the file to our names of fields and options; of two for one field, the
            later counts.
        plugin: names that only device plugins read, each with a check of its value where a bad
            one must not go unnoticed: places within the value and what is wrong there.
        make: a row for an entry of the list with a new keyword.
    """

    path: tuple[str, ...] = ()
    word_key: str = ""
    names: Mapping[str, str] = dataclasses.field(default_factory=lambda: PLAIN)
    plugin: Mapping[str, Callable[[Any], Iterable[tuple[str, str]]] | None] = dataclasses.field(
        default_factory=lambda: register.NOTHING
    )
    make: Callable[[str], Vendor] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Guide:
    """What people are told of a row beside its data; nothing depends on it.

    Attributes:
        example: what a container may ask for, by names of `Resources`, where a device, 8 GiB and
            30 cores are no good example; 0 leaves a resource out.
        memory: the unit of the memory resource, where it is not `Vendor.mib_per_unit` per device.
        cores: likewise of the cores resource, where it is not percent of each device.
        notes: sentences.
    """

    example: Mapping[str, int] = dataclasses.field(default_factory=lambda: register.NOTHING)
    memory: str = ""
    cores: str = ""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Vendor:
    """One device backend.

    Attributes:
        keyword: type keyword: second field of a decision, and the key of everything we count.
        resources: what containers ask with.
        node: node annotations.
        pod: pod annotations of the decision.
        selection: pod annotations of the user.
        memory_unit_mib: MiB per unit of the memory resource.
        counted_by_kubelet: resources that nodes offer as capacity and kubelet counts, by their
            names in `Resources`.
        memory_factor: multiplies the memory resource; below 2 means 1.
        default_cores: cores per device when the container names none.
        default_memory_mib: MiB per device when the container names none; 0 = the whole card.
        default_count: devices that admission adds to a container that names only a size.
        read_requests: a resource absent from limits is looked up in requests.
        silent: a plugin that registers as JSON never answers; allocatable speaks for it.
        lock: node annotation of the lock that a pod needs; empty for none.
        consumes: the plugin erases served slots from the to-allocate value.
        checks: which checks of the fit apply.
        core_policy: how containers enforce cores; ``default`` leaves it to the plugin.
        overwrite_env: admission hides all devices from containers that take none.
        runtime_class: runtime class for pods that take the row; empty for none.
        score_weight: factor of the row's node score.
        guide: what the reference says of the row beside the data.
        options: settings of this row alone, by our names, each with its default; a
            configuration may change a value, not its type.
        file: where HAMi's configuration file speaks of the row.
        hooks: what data cannot say.
    """

    keyword: str
    resources: Resources
    pod: PodKeys
    node: NodeKeys = NodeKeys()
    selection: Selection = Selection()
    memory_unit_mib: int = 1
    counted_by_kubelet: tuple[str, ...] = ()
    memory_factor: int = 1
    default_cores: int = 0
    default_memory_mib: int = 0
    default_count: int = 0
    read_requests: bool = True
    silent: bool = False
    lock: str = ""
    consumes: bool = False
    checks: frozenset[Check] = SHARING
    core_policy: str = "default"
    overwrite_env: bool = False
    runtime_class: str = ""
    score_weight: int = 1
    guide: Guide = Guide()
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: register.NOTHING)
    file: Section = Section()
    hooks: Hooks = Hooks()

    def __hash__(self) -> int:
        """Cheap, since rows are keys of caches on hot paths; equality still compares all."""
        return hash(self.keyword)

    @property
    def kubelet_resources(self) -> tuple[str, ...]:
        """Resources of the row that kubelet counts on nodes that offer them."""
        found = (getattr(self.resources, name) for name in self.counted_by_kubelet)
        return tuple(name for name in found if name)

    @property
    def mib_per_unit(self) -> int:
        """MiB for one unit of the memory resource, also for quota limits."""
        return self.memory_unit_mib * max(self.memory_factor, 1)

    @property
    def quota_memory(self) -> str:
        """Resource whose ``limits.`` quota bounds memory; times `mib_per_unit` it is MiB."""
        return self.resources.memory

    @property
    def quota_cores(self) -> str:
        """Resource whose ``limits.`` quota bounds cores."""
        return self.resources.cores
