"""One HTTP request, as the server reads it and as its log keeps it."""

from __future__ import annotations

import dataclasses
import functools
import urllib.parse
from collections.abc import Mapping
from typing import Any

import orjson

from hami_operator.cluster.memory import refusals

_TRUE = ("1", "true", "True")


@dataclasses.dataclass(kw_only=True, slots=True)
class Call:
    """A request; `status` and `user` are known when it has been served.

    ``method`` is that of HTTP, ``query`` is the text behind the question mark.
    """

    method: str
    path: str
    query: str = ""
    accept: str = ""
    content_type: str = ""
    user_agent: str = ""
    authorization: str = dataclasses.field(default="", repr=False)
    body: bytes = b""
    user: str = ""
    status: int = 0

    @property
    def parameters(self) -> Mapping[str, str]:
        """The query, parsed."""
        return _parse(self.query)

    @property
    def watches(self) -> bool:
        """Whether this is a watch."""
        return self.method == "GET" and self.parameters.get("watch") in _TRUE

    @property
    def fault_method(self) -> str:
        """The method for `faults.Fault`."""
        return "WATCH" if self.watches else self.method

    @property
    def json(self) -> Any:
        """The body, parsed; None if there is none."""
        return orjson.loads(self.body) if self.body else None

    def flag(self, name: str) -> bool:
        """A parameter that is yes or no."""
        return self.parameters.get(name) in _TRUE

    def number(self, name: str) -> int:
        """A parameter that is a number; 0 if it is absent.

        Raises:
            refusals.Refused: 400, it is none.
        """
        text = self.parameters.get(name) or "0"
        if text.isascii() and text.isdecimal():
            return int(text)
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')


@functools.lru_cache(maxsize=1024)
def _parse(query: str) -> Mapping[str, str]:
    return dict(urllib.parse.parse_qsl(query, keep_blank_values=True)) if query else {}
