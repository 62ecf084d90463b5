"""What the gateway reads in a request: the one place where the differential probe knows the package's own reader."""

from __future__ import annotations

from backend_reading import Meaning
from s3_operations import Effect

from tidegate.core.operations import Operation, read_query
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import parse_copy_source, parse_target
from tidegate.gateway.http.http1 import BadMessage, RequestHead
from tidegate.gateway.operations.table import TABLE


def admitted(raw_head: bytes, *, domains: tuple[str, ...], direct_domain: str) -> Meaning | None:
    """The meaning that is authorised and logged; None when the request has none and must be refused."""
    try:
        head = RequestHead(raw_head)
        host = head.headers.get(b"host", b"").decode("latin-1")
        direct = host.partition(":")[0].lower().endswith("." + direct_domain)
        bucket, key, _ = parse_target(head.path, host, () if direct else domains)
        scope = "object" if key else "bucket" if bucket else "service"
        operation, parameters = TABLE.find(head.method.decode(), scope, read_query(head.query), head.headers)
        source = None
        if operation.is_copy:
            found = parse_copy_source(head.headers[b"x-amz-copy-source"])
            source = found.bucket, found.key, found.version_id
    except (BadMessage, S3Error, UnicodeDecodeError):
        return None
    return Meaning(
        operation.name,
        _effect(operation),
        bucket,
        key,
        parameters.get("versionId", ""),
        parameters.get("uploadId", ""),
        source,
    )


def _effect(operation: Operation) -> Effect:
    """Listing uploads and parts needs the right to write, and changes nothing."""
    if operation.name in ("ListMultipartUploads", "ListParts"):
        return "read"
    return "write" if operation.writes else "read" if operation.reads else "none"
