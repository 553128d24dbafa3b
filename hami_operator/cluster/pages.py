"""A whole list, put together from its pages."""

from __future__ import annotations

from hami_operator.cluster import ports


async def whole(
    lister: ports.Lister,
    resource: ports.Resource,
    *,
    selector: ports.Selector = ports.EVERYTHING,
) -> ports.Page:
    """All objects as of one moment, as if they came on a single page.

    Raises:
        errors.Gone: the list was too long for the server's memory of that moment.
        errors.ApiError: the server cannot be read.
    """
    items: list[ports.Raw] = []
    token = ""
    while True:
        page = await lister.list_page(resource, selector=selector, token=token)
        items += page.items
        token = page.token
        if not token:
            return ports.Page(items=items, version=page.version)
