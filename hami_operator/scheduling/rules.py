"""What holds for every pod that this scheduler places."""

from __future__ import annotations

import dataclasses

from hami_operator import settings as config
from hami_operator.devices import registry as registries
from hami_operator.scheduling import filters


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The rules of one process, built once.

    Attributes:
        registry: the device types.
        settings: policies and compatibility.
        options: of the ordinary filters; they leave our devices to us, except what kubelet
            counts.
    """

    registry: registries.Registry
    settings: config.Settings
    options: filters.Options

    @classmethod
    def of(cls, registry: registries.Registry, given: config.Settings) -> Rules:
        """The rules of a scheduler that places devices itself."""
        options = filters.Options(
            ignored=registry.resource_names - registry.counted_by_kubelet,
            where_offered=registry.counted_by_kubelet,
        )
        return cls(registry=registry, settings=given, options=options)
