"""Certificates for the webhook: made here, checked here, renewed in good time.

Each renewal makes an authority of its own, whose key is forgotten at once: nothing that is
stored can sign anything else. Clients trust a bundle, the newest authority first, in which the
former ones stay until they expire, so that replicas may change over one after the other.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

RENEW_AT: Final = 0.6
"""Part of its life after which a certificate is renewed; well before two thirds."""
MOST_AUTHORITIES: Final = 4
_SKEW: Final = datetime.timedelta(minutes=5)
_AUTHORITY: Final = "hami-operator webhook authority"
_UNREADABLE: Final = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm)

Name = x509.DNSName | x509.IPAddress


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Issued:
    """A serving certificate, all in PEM.

    Attributes:
        certificate: for the server.
        key: its private key.
        bundle: what clients trust: the authority that signed it first.
    """

    certificate: bytes = b""
    key: bytes = b""
    bundle: bytes = b""


NOTHING: Final = Issued()


def issue(
    names: Sequence[str],
    *,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
    former: Issued = NOTHING,
) -> Issued:
    """A new authority, and a certificate by it.

    Args:
        names: DNS names and IP addresses of the server.
        now: the time.
        lifetime: of both.
        former: what served so far; its authorities stay trusted until they expire.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    span = (now - _SKEW, now + lifetime)
    authority = _authority(authority_key, span)
    certificate = _certificate(names, key, authority, span).sign(authority_key, hashes.SHA256())
    kept = [authority, *_trusted(former, now)][:MOST_AUTHORITIES]
    return Issued(
        certificate=_pem(certificate),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        bundle=b"".join(map(_pem, kept)),
    )


def problem(issued: Issued, names: Sequence[str], *, now: datetime.datetime) -> str:
    """Why a new certificate is due; empty while the old one will do."""
    if issued == NOTHING:
        return "there is none yet"
    try:
        certificate = x509.load_pem_x509_certificate(issued.certificate)
        key = serialization.load_pem_private_key(issued.key, password=None)
        authority = x509.load_pem_x509_certificates(issued.bundle)[0]
        certificate.verify_directly_issued_by(authority)
        found = set(certificate.extensions.get_extension_for_class(_NAMES).value)
    except (*_UNREADABLE, x509.ExtensionNotFound) as error:
        return f"the old one cannot be used: {str(error) or type(error).__name__}"
    if certificate.public_key() != key.public_key():
        return "the old one and its key do not belong together"
    if found != set(_names(names)):
        return "its names have changed"
    return "its time has come" if now >= renewal(certificate) else ""


def renewal(certificate: x509.Certificate) -> datetime.datetime:
    """When a certificate is to be renewed."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * RENEW_AT


_NAMES: Final = x509.SubjectAlternativeName


def _trusted(former: Issued, now: datetime.datetime) -> Iterable[x509.Certificate]:
    """Authorities of before that some replica may still serve by."""
    try:
        known = x509.load_pem_x509_certificates(former.bundle)
    except _UNREADABLE:
        return ()
    return (one for one in known if one.not_valid_after_utc > now)


def _authority(
    key: ec.EllipticCurvePrivateKey, span: tuple[datetime.datetime, datetime.datetime]
) -> x509.Certificate:
    name = _name(_AUTHORITY)
    return (
        _builder(key.public_key(), span)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    names: Sequence[str],
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    span: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier.value)
    return (
        _builder(key.public_key(), span)
        .subject_name(_name("hami-operator webhook"))
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .add_extension(issuer, critical=False)
        .add_extension(_NAMES(_names(names)), critical=False)
    )


def _builder(
    key: ec.EllipticCurvePublicKey, span: tuple[datetime.datetime, datetime.datetime]
) -> x509.CertificateBuilder:
    begin, end = span
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .public_key(key)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, text)])


def _names(names: Iterable[str]) -> list[Name]:
    return [_alternative(name) for name in dict.fromkeys(names)]


def _alternative(name: str) -> Name:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
