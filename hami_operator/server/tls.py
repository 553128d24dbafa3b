"""The serving certificate, read again whenever its files have changed."""

from __future__ import annotations

import os
import ssl
from typing import Any, Final

import structlog

_Stamp = tuple[tuple[int, int, int], ...]

_PROTOCOLS: Final = ("http/1.1",)

_log = structlog.get_logger(__name__)


class Certificate:
    """A certificate with its key, in two PEM files that somebody else writes and renews.

    Every handshake looks at the files, so a renewed certificate serves from the next connection
    on, and no file event can be missed. A pair that cannot be used, such as one that is half
    written, is reported once and leaves the old one in service.

    Args:
        cert_file: certificate, with its chain if it has one.
        key_file: its private key.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        self._files = (cert_file, key_file)
        self._stamp: _Stamp | None = None
        self._current: ssl.SSLContext | None = None

    @property
    def loaded(self) -> bool:
        """Whether there is a certificate to serve with."""
        return self._current is not None

    def refresh(self) -> bool:
        """Read the files if they have changed; whether there is a certificate to serve with."""
        stamp = self._stat()
        if stamp is not None and stamp != self._stamp:
            self._stamp = stamp
            self._load()
        return self.loaded

    def context(self) -> ssl.SSLContext:
        """For a listener: serves each new connection with the certificate of that moment.

        It holds no certificate itself, so that a connection gets the newest one or none.
        """
        front = _context()
        front.sni_callback = self._choose
        return front

    def _choose(self, connection: Any, _name: str | None, _front: ssl.SSLContext) -> None:
        self.refresh()
        if self._current is not None:
            connection.context = self._current

    def _stat(self) -> _Stamp | None:
        try:
            found = [os.stat(path) for path in self._files]
        except OSError:
            return None  # not there yet, or just being replaced
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)

    def _load(self) -> None:
        try:
            self._current = self._read()
        except (OSError, ValueError) as error:
            _log.error("certificate cannot be used", files=self._files, error=str(error))
        else:
            _log.info("certificate loaded", files=self._files)

    def _read(self) -> ssl.SSLContext:
        context = _context()
        context.load_cert_chain(*self._files)
        return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(_PROTOCOLS))
    return context
