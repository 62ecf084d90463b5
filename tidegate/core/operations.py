"""S3's operations: what a request asks for, and what a request of that kind consists of.

A request is read as one operation with the parameters and headers that the operation knows. Nothing else of it counts:
the backend's request is built from these alone. The table of all operations is the gateway's
(`tidegate.gateway.operations.table`), which knows how each is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

from tidegate.core.s3errors import S3Error
from tidegate.core.sigv4.canonical import canonical_pairs

Scope = Literal["service", "bucket", "object"]
Parameters = Mapping[str, str]

METADATA = b"x-amz-meta-"
_IDENTIFIER = re.compile(r"[!-~]{1,1024}")
# Parameters that say which object or upload is meant. An operation that does not know one must not leave it out.
_IDENTIFYING = ("partNumber", "uploadId", "versionId")
# Headers that make a change depend on something, or turn it into another one. They must not be left out either.
_CONDITIONAL = (b"if-", b"x-amz-if-", b"x-amz-copy-source-if-", b"x-amz-rename-", b"x-amz-write-offset-bytes")
_COPY_SOURCE = b"x-amz-copy-source"
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"})
# Sub-resources that S3 has and Tidegate does not offer, or of which it only answers GET.
_UNSUPPORTED = frozenset(
    (
        *("abac", "accelerate", "analytics", "annotation", "encryption", "intelligent-tiering", "inventory"),
        *("logging", "metadataAnnotationTable", "metadataConfiguration", "metadataInventoryTable"),
        *("metadataJournalTable", "metadataTable", "metrics", "notification", "ownershipControls"),
        *("publicAccessBlock", "renameObject", "restore", "select", "session", "torrent", "website"),
    )
)


class Body(NamedTuple):
    """What a request's body may be. `limit` is None for the data of objects, which is never held whole.

    `read` gives what a document says, and raises `S3Error`; `write` makes the backend's document from that.
    `is_stated` says whether a checksum among the request's headers is that of this body.
    """

    limit: int | None = None
    read: Callable[[bytes], Any] | None = None
    write: Callable[[Any], bytes] | None = None
    is_stated: bool = True


DATA = Body()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything about one operation.

    `reads` and `writes` say which right it needs (a copy both, a preflight none); listing an upload's parts belongs
    to writing. `logs_events`: its success becomes events of the log. `anonymous`: a bucket's policy can open it to
    requests without a key. `headers` are passed on to the backend, those of metadata if `has_metadata`; `conditions`
    are headers that the gateway heeds itself. `canned_acls` are those that it accepts where it takes ACLs. `chosen_by`
    is the parameter that tells it from another operation of the same sub-resource. `body` is None where none belongs.
    With `is_form` the body is a form, whose fields stand for the key and the headers, and whose file is the data of the
    object.

    The others are the gateway's: `handler` gives the work in place of plain forwarding, if there is any; `events` notes
    down a success, and makes the events of a change; `missing` looks into a reply of status 404; `reply_headers` and
    `reply_body` change what the client sees of the backend's reply, and `reply` answers a change that was made in place
    of it. `placed` gives the work in place of `handler` where objects may have been moved; `prepare` is done
    before a body is taken in; `settles` says that its
    success can make the record of a moved version void. An operation that `is_internal` is for Tidegate's own workers.
    """

    name: str
    scope: Scope
    method: str
    subresource: str = ""
    reads: bool = False
    writes: bool = False
    logs_events: bool = False
    anonymous: bool = False
    parameters: frozenset[str] = frozenset()
    headers: frozenset[bytes] = frozenset()
    has_metadata: bool = False
    conditions: frozenset[bytes] = frozenset()
    canned_acls: frozenset[bytes] = frozenset()
    chosen_by: str = ""
    is_copy: bool = False
    uploads_part: bool = False
    is_form: bool = False
    body: Body | None = None
    handler: Callable[..., Any] | None = None
    events: Callable[..., Any] | None = None
    missing: Callable[..., Any] | None = None
    reply_headers: Callable[..., bytes] | None = None
    reply_body: Callable[..., bytes] | None = None
    reply: Callable[..., None] | None = None
    placed: Callable[..., Any] | None = None
    prepare: Callable[..., Any] | None = None
    settles: bool = False
    is_internal: bool = False

    @property
    def backend_method(self) -> str:
        """That of the backend's request: the file of a form is an object that is put."""
        return "PUT" if self.is_form else self.method

    @property
    def shows_object(self) -> bool:
        """Whether its reply is an object, or the head of one."""
        return self.scope == "object" and self.reads and not self.writes and not self.subresource

    @property
    def removes(self) -> bool:
        """Whether all that it does is to take something away."""
        return self.method == "DELETE" or self.subresource == "delete"

    @property
    def changes(self) -> bool:
        """Whether it changes anything, in the log or in the store alone."""
        return self.writes and self.method != "GET"


class OperationTable:
    """All operations, found by what tells them apart: scope, method, sub-resource, a parameter, and a copy's source.

    The table is complete: what does not stand in it never reaches a backend.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        every = tuple(operations)
        self.by_name = {operation.name: operation for operation in every}
        self._plain = {_place(each): each for each in every if not each.is_copy and not each.chosen_by}
        self._copies = {_place(each): each for each in every if each.is_copy}
        self._chosen = {_place(each): each for each in every if each.chosen_by}
        self._subresources = _UNSUPPORTED | {each.subresource for each in self.by_name.values()} - {""}

    def find(
        self, method: str, scope: Scope, given: list[tuple[str, str]], headers: Mapping[bytes, bytes]
    ) -> tuple[Operation, Parameters]:
        """The operation, and those of the given parameters that it knows. Raises `S3Error` when there is none, when
        Tidegate does not offer it, or when something that must not be left out does not belong to it."""
        subresource = "" if not given or method == "OPTIONS" else self._subresource(given)
        operation = self._plain.get((scope, method, subresource))
        if operation is None:
            raise self._refusal(method, scope, subresource)
        if operation.is_form and not is_form(headers):
            condition = "Bucket POST must be of the enclosure-type multipart/form-data"
            raise S3Error("PreconditionFailed", fields={"Condition": condition})
        if _COPY_SOURCE in headers:
            operation = self._copies.get((scope, method, subresource), operation)
        parameters: Parameters = {}
        if given and method != "OPTIONS":
            operation = self._choice(operation, given)
            parameters = _known(operation, given)
        if operation.writes:
            _check_headers(operation, headers)
        return operation, parameters

    def _subresource(self, given: list[tuple[str, str]]) -> str:
        found = [name for name, _ in given if name in self._subresources]
        if len(found) > 1:
            raise S3Error("InvalidRequest", f"Conflicting query string parameters: {', '.join(sorted(found))}")
        return found[0] if found else ""

    def _choice(self, operation: Operation, given: list[tuple[str, str]]) -> Operation:
        other = self._chosen.get(_place(operation))
        return other if other is not None and any(name == other.chosen_by for name, _ in given) else operation

    def _refusal(self, method: str, scope: Scope, subresource: str) -> S3Error:
        if method not in _METHODS:
            return S3Error("MethodNotAllowed", f"S3 knows no method {method[:20]}.")
        if subresource in _UNSUPPORTED:
            return S3Error("NotImplemented", f"{method} of the sub-resource {subresource} is not implemented.")
        allowed = sorted(each for where, each, of in self._plain if where == scope and of == subresource)
        what = f"the sub-resource {subresource}" if subresource else "this resource"
        return S3Error(
            "MethodNotAllowed",
            f"The method {method} is not allowed against {what}.",
            headers={"Allow": ", ".join(allowed)} if allowed else {},
        )


def _place(operation: Operation) -> tuple[Scope, str, str]:
    return operation.scope, operation.method, operation.subresource


def is_form(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == b"multipart/form-data"


def read_query(query: bytes) -> list[tuple[str, str]]:
    """The parameters of a request, as its signature reads them: only `&` separates them, and a plus sign is a space."""
    try:
        return [
            (unquote_to_bytes(name).decode(), unquote_to_bytes(value).decode())
            for name, value in canonical_pairs(query)
        ]
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The parameters of a request must be valid UTF-8.") from None


def _known(operation: Operation, given: list[tuple[str, str]]) -> Parameters:
    known: dict[str, str] = {}
    for name, value in given:
        if name in operation.parameters:
            if name in known:
                raise S3Error("InvalidArgument", f"The parameter {name} is given twice.")
            known[name] = value
        elif name in _IDENTIFYING:
            raise S3Error("InvalidArgument", f"This operation does not accept the parameter {name}.")
    for name in _IDENTIFYING:
        if name in known:
            _check_identifier(name, known[name])
    if known.get("list-type", "2") != "2":
        raise S3Error("InvalidArgument", "Invalid List Type specified in Request")
    if "partNumber" in known or operation.uploads_part:
        _check_part_number(known.get("partNumber", ""))
    return known


def _check_identifier(name: str, value: str) -> None:
    """Ids are made of printable characters. A line break in one would hide it from a router that looks for `.*`."""
    if not _IDENTIFIER.fullmatch(value):
        raise S3Error("InvalidArgument", f"The parameter {name} is empty or has characters that no identifier has.")


def check_version_id(value: str) -> None:
    _check_identifier("versionId", value)


def _check_part_number(text: str) -> None:
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or not 1 <= int(text) <= 10000:
        raise S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")


def _check_headers(operation: Operation, headers: Mapping[bytes, bytes]) -> None:
    for name in headers:
        if name.startswith(_CONDITIONAL) and name not in operation.headers and name not in operation.conditions:
            raise S3Error(
                "NotImplemented",
                f"A header you provided implies functionality that is not implemented: {name.decode('latin-1')}.",
            )


def passed_on(operation: Operation, headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The headers of a request that the backend's request has as they are."""
    known, has_metadata = operation.headers, operation.has_metadata
    return [
        (name, value)
        for name, value in headers.items()
        if name in known or (has_metadata and name.startswith(METADATA))
    ]
