"""Certificates that the parts of one backend show each other. They are made for one start and exist only in memory.

Whoever connects without a certificate of this one authority is turned away before saying anything.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidegate.pools.owners import Account

# A backend may run for years. The beginning lies back for clocks that are set while it runs.
_BEFORE = timedelta(days=2)
_AFTER = timedelta(days=3650)


class Certificates:
    """Files without a name in any directory; a process that has `descriptors` reads them under the paths here."""

    def __init__(self, host: str, account: Account) -> None:
        authority_key = ec.generate_private_key(ec.SECP256R1())
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        authority = _authority(authority_key, now)
        certificate = _certificate(host, key, authority_key, now)
        contents = (
            authority.public_bytes(Encoding.PEM),
            certificate.public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )
        self.descriptors = tuple(memory_file("certificates", content, account) for content in contents)
        self.authority, self.certificate, self.key = (f"/proc/self/fd/{fd}" for fd in self.descriptors)

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)


def memory_file(name: str, content: bytes, account: Account) -> int:
    """The descriptor of a file in memory that only this user may read."""
    fd = os.memfd_create(f"tidegate-{name}", os.MFD_CLOEXEC)
    os.fchmod(fd, 0o600)
    os.write(fd, content)
    if not account.is_current:
        os.fchown(fd, account.uid, account.gid)
    return fd


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    return (
        _builder("authority", key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    host: str, key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.Certificate:
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return (
        _builder("backend", key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(both, critical=False)
        .sign(authority, hashes.SHA256())
    )


def _builder(subject: str, key: ec.EllipticCurvePublicKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("authority"))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
