"""The places where the gateway's tests meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from places import Place
from running_service import RunningService


@pytest.fixture
def make_service(make_service: Callable[..., RunningService]) -> Callable[..., RunningService]:
    """Without lifecycle, whose processes take a second of a core to start."""
    return partial(make_service, lifecycle__enabled=False)


@pytest.fixture(scope="session")
def place(service: RunningService) -> Place:
    return Place(service, "gateway", "gateway-bucket")


@pytest.fixture(scope="session")
def tight(tmp_path_factory: pytest.TempPathFactory, _clean_environment: None) -> Iterator[Place]:
    """One gateway process that loses patience quickly, with direct host names and a list of trusted hosts."""
    service = RunningService(
        tmp_path_factory.mktemp("tight") / "data",
        {
            "gateway.processes": 1,
            "lifecycle.enabled": False,
            "gateway.head_seconds": 3,
            "gateway.idle_seconds": 2,
            "gateway.stall_seconds": 4,
            "gateway.access_seconds": 0.5,
            "gateway.direct_domain": "direct.test",
            "gateway.trusted_hosts": '["127.0.0.1", "127.0.0.32/30"]',
        },
    )
    try:
        yield Place(service.start(), "tight", "tight-bucket", "--direct-hostname", "straight")
    finally:
        service.end()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidegate tests")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files = directory / "chain.pem", directory / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return files
