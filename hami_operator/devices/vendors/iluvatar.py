"""Iluvatar: one row per chip."""

from __future__ import annotations

from typing import Final

from hami_operator.devices import admit, request, vendor
from hami_operator.protocol import keys

_CHIPS: Final = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
_NAME: Final = "SOL_CONTINER_NAME"  # the plugin spells it so


def _admit(
    row: vendor.Vendor, container: admit.Container, pod: admit.Pod
) -> admit.Admitted | admit.Denied:
    names = row.resources
    count = admit.limited(row, container).amount(names.count)
    if names.count not in container.limits or isinstance(count, request.Invalid):
        return admit.Admitted(container=container, pod=pod)  # the quantities are checked next
    if count > 1:  # several cards are whole cards
        container = container.with_limit(names.cores, str(100 * count))
    if container.name and not container.has_env(_NAME):
        container = container.with_env(_NAME, container.name)
    return admit.Admitted(container=container, pod=pod)


def _row(chip: str) -> vendor.Vendor:
    """The row of a chip, also of one that only a configuration knows."""
    resource, key = f"iluvatar.ai/{chip}", f"hami.io/{chip}"
    return vendor.Vendor(
        keyword=chip,
        resources=vendor.Resources(
            count=f"{resource}-vgpu", memory=f"{resource}.vMem", cores=f"{resource}.vCore"
        ),
        node=vendor.NodeKeys(
            register=f"hami.io/node-{chip}-register", handshake=f"hami.io/node-handshake-{chip}"
        ),
        pod=vendor.PodKeys(
            to_allocate=f"{key}-devices-to-allocate", allocated=f"{key}-devices-allocated"
        ),
        selection=vendor.Selection(
            use_uuid=(f"hami.io/use-{chip}-uuid",), skip_uuid=(f"hami.io/no-use-{chip}-uuid",)
        ),
        memory_unit_mib=256,
        lock=keys.NODE_LOCK,
        file=vendor.Section(
            path=("iluvatars",), word_key="commonWord", plugin={"chipName": None}, make=_row
        ),
        hooks=vendor.Hooks(admit=_admit),
    )


ROWS: Final = tuple(map(_row, _CHIPS))
