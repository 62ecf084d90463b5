"""Virtual-hosted style, and the endpoint behind TLS."""

from __future__ import annotations

import datetime
import http.client
import ipaddress
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import SSLError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from running_service import RunningService
from ways import MIB, Files, Ways


@pytest.fixture(scope="module")
def bucket(ways: Ways) -> str:
    ways.gateway.s3().create_bucket(Bucket="virtual-hosted")
    return "virtual-hosted"


@pytest.mark.parametrize("key", ["plain", "a/b c+ü", "colon:key"])
def test_virtual_hosted_requests_reach_the_bucket_in_the_host_name(ways: Ways, bucket: str, key: str) -> None:
    assert _virtual(ways, "PUT", bucket, key, body=b"virtual")[0] == 200
    assert _virtual(ways, "GET", bucket, key) == (200, b"virtual")
    assert ways.gateway.s3().get_object(Bucket=bucket, Key=key)["Body"].read() == b"virtual"
    status, listing = _virtual(ways, "GET", bucket, "", query="list-type=2")
    assert status == 200 and b"<ListBucketResult" in listing
    assert _virtual(ways, "DELETE", bucket, key)[0] == 204


def test_virtual_hosted_presigned_address_works(ways: Ways, bucket: str) -> None:
    ways.gateway.s3().put_object(Bucket=bucket, Key="presigned", Body=b"presigned")
    assert _virtual(ways, "GET", bucket, "presigned", presign=True) == (200, b"presigned")


def test_virtual_hosted_request_for_another_bucket_than_signed_is_refused(ways: Ways, bucket: str) -> None:
    assert _virtual(ways, "GET", bucket, "plain", host="other-bucket")[0] in (403, 404)


def test_endpoint_behind_tls_takes_small_large_and_multipart_bodies(
    make_service: Callable[..., RunningService], files: Files, tmp_path: Path
) -> None:
    certificate, private_key = _self_signed(tmp_path)
    service = make_service(gateway__tls_certificate=str(certificate), gateway__tls_key=str(private_key))
    assert service.s3_url.startswith("https://")
    key = service.create_pool("behind-tls")
    options = {
        "endpoint_url": service.s3_url,
        "region_name": "us-east-1",
        "aws_access_key_id": key.access_key,
        "aws_secret_access_key": key.secret_key,
        "config": Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    }
    client = boto3.client("s3", verify=str(certificate), **options)
    client.create_bucket(Bucket="behind-tls")
    transfer = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=16 * MIB)
    for name in files.sizes:
        client.upload_file(str(files.path(name)), "behind-tls", name, Config=transfer)
        assert client.get_object(Bucket="behind-tls", Key=name)["Body"].read() == files.contents(name)
    with pytest.raises(SSLError):
        boto3.client("s3", **options).list_buckets()


def _virtual(
    ways: Ways,
    method: str,
    bucket: str,
    key: str,
    *,
    query: str = "",
    body: bytes = b"",
    presign: bool = False,
    host: str = "",
) -> tuple[int, bytes]:
    """`*.localhost` need not resolve: the connection goes to the address, the name only into the Host header."""
    port = ways.gateway.authority.rpartition(":")[2]
    target = "/" + "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in key)
    target = target.replace("%2F", "/") + (f"?{query}" if query else "")
    request = AWSRequest(method, f"http://{bucket}.localhost:{port}{target}", data=body)
    credentials = Credentials(ways.gateway.key.access_key, ways.gateway.key.secret_key)
    if presign:
        S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=60).add_auth(request)
        target = request.url.partition(f":{port}")[2]
    else:
        S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    connection = http.client.HTTPConnection(ways.gateway.authority, timeout=60)
    try:
        headers = {**dict(request.headers), "Host": f"{host or bucket}.localhost:{port}"}
        connection.request(method, target, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _self_signed(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
