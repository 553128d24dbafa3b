"""Hygon HCU, and DCU: the same row under its older names."""

from __future__ import annotations

from typing import Final

from hami_operator.devices import vendor
from hami_operator.protocol import keys

_FILE: Final = vendor.Section(path=("hygon",))


def _row(keyword: str) -> vendor.Vendor:
    name = keyword.lower()
    return vendor.Vendor(
        keyword=keyword,
        resources=vendor.Resources(
            count=f"hygon.com/{name}num",
            memory=f"hygon.com/{name}mem",
            cores=f"hygon.com/{name}cores",
        ),
        node=vendor.NodeKeys(
            register=f"hami.io/node-{name}-register",
            handshake=f"hami.io/node-handshake-{name}",
        ),
        pod=vendor.PodKeys(
            to_allocate=f"hami.io/{name}-devices-to-allocate",
            allocated=f"hami.io/{name}-devices-allocated",
        ),
        selection=vendor.Selection(
            use_type=f"hygon.com/use-{name}type",
            skip_type=f"hygon.com/nouse-{name}type",
            use_uuid=("hygon.com/use-gpuuuid",),
            skip_uuid=("hygon.com/nouse-gpuuuid",),
        ),
        default_cores=100,
        file=_FILE,
        lock=keys.NODE_LOCK,
        checks=vendor.SHARING | {vendor.Check.TYPE},
    )


HCU: Final = _row("HCU")
DCU: Final = _row("DCU")
