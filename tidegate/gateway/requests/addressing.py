"""Which bucket and key a request names, and where: at a pool's own host name, or at the one for all pools."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.core.operations import Scope
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import parse_target
from tidegate.gateway.http.http1 import RequestHead
from tidegate.gateway.requests.directory import BucketView, Directory
from tidegate.settings import GatewaySettings


class Address(NamedTuple):
    """`direct` is the pool whose own host name was used; None at the others."""

    bucket: str
    key: str
    is_virtual_hosted: bool
    direct: str | None

    @property
    def scope(self) -> Scope:
        return "object" if self.key else "bucket" if self.bucket else "service"


def address_of(head: RequestHead, directory: Directory, settings: GatewaySettings) -> Address:
    host = head.headers.get(b"host", b"").decode("latin-1")
    direct = _direct_pool(host, directory, settings.direct_domain) if settings.direct_domain else None
    domains = () if direct is not None else settings.domains
    bucket, key, style = parse_target(head.path, host, domains)
    return Address(bucket, key, style == "virtual", direct)


def bucket_at(address: Address, directory: Directory) -> BucketView | None:
    """The bucket, if it exists and can be seen at that host name."""
    found = directory.bucket(address.bucket)
    if found is None or (address.direct is not None and found.bucket.pool != address.direct):
        return None
    return found


def _direct_pool(host: str, directory: Directory, domain: str) -> str | None:
    hostname = host.partition(":")[0].lower()
    if not hostname.endswith("." + domain):
        return None
    pool = directory.direct_pool(hostname[: -len(domain) - 1])
    if pool is None:
        raise S3Error("NoSuchBucket", "no pool has this host name")
    return pool
