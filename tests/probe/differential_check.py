"""Compares the two meanings of a request: what the gateway admitted and logged, and what arrived at a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from backend_reading import Meaning, header
from odd_signing import verifies
from odd_world import Sent, World
from recording_store import MARK, Arrival, Part, mark, named_in
from requests_on_the_wire import Request, Signer
from s3_operations import KNOWN, UPLOAD_PART_COPY, documented_name

# Operations through which the gateway may carry one out; all others must arrive as themselves.
_CARRIED_OUT_BY = {
    "DeleteObjects": {"DeleteObjects", "DeleteObject"},
    "DeleteObject": {"DeleteObjects", "DeleteObject"},
    "PostObject": {"PutObject"},
    "CreateBucket": {"CreateBucket", "PutBucketVersioning", "PutObjectLockConfiguration"},
}
_TAKES_VERSION = frozenset(documented_name(known) for known in KNOWN if "versionId" in known.parameters)
_TAKES_UPLOAD = frozenset(
    documented_name(known) for known in (*KNOWN, UPLOAD_PART_COPY) if known.subresource == "uploadId"
)
# Those of reading uploads that belong to whoever writes.
_OF_WRITERS = frozenset(("ListMultipartUploads", "ListParts"))
# Changes of a bucket that the gateway makes without asking the store.
_OWN_EVENTS = frozenset(("bucket-attributes", "bucket-created", "bucket-deleted"))


class Reply(NamedTuple):
    """What the client got; status 0 when the connection ended without a reply."""

    status: int
    head: bytes
    body: bytes


class Logged(NamedTuple):
    """An event of the metadata log, as far as a store's reading can be compared with it."""

    kind: str
    pool: str
    bucket: str
    key: str
    version_id: str
    upload_id: str
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Trial:
    """All that is known of one request."""

    sent: Sent
    admitted: Meaning | None
    arrivals: list[Arrival]
    reply: Reply
    started_ns: int = 0
    ended_ns: int = 0
    events: list[Logged] = field(default_factory=list)


class Finding(NamedTuple):
    kind: str
    text: str


class Checker:
    """`credential` is what the stores know; `unsettled` are buckets of earlier requests that ended in doubt, whose
    objects the gateway may look at whenever it likes."""

    def __init__(self, world: World, credential: Signer) -> None:
        self._world = world
        self._credential = credential
        self.unsettled: set[str] = set()
        self._hosts: dict[str, bytes] = {}

    def check(self, trial: Trial) -> list[Finding]:
        found = [finding for one in trial.arrivals for finding in self._formed(one)]
        if trial.admitted is None:
            found += [Finding("refused", "a request without a meaning arrived") for _ in self._not_settling(trial)]
        else:
            admitted = _as_documented(trial.admitted)
            for arrival in self._not_settling(trial):
                found += self._arrived(trial, admitted, arrival)
            found += self._shown(trial, admitted)
        found += self._logged(trial)
        if trial.admitted is not None and (trial.reply.status >= 500 or not trial.reply.status):
            self.unsettled.add(trial.admitted.bucket)
        return found

    def _not_settling(self, trial: Trial) -> list[Arrival]:
        return [one for one in trial.arrivals if not (_reads(one) and _bucket(one) in self.unsettled | {""})]

    def _formed(self, arrival: Arrival) -> list[Finding]:
        """A store is called by one name, whatever a client calls the gateway, and with the credential it knows."""
        found = [Finding(f"form, {fault.partition(':')[0]}", fault) for fault in arrival.reading.faults]
        path, _, query = arrival.target.partition(b"?")
        if not verifies(self._credential, Request(arrival.method, path, query, arrival.headers)):
            found.append(Finding("credential", "not signed with the store's own"))
        host = header(arrival.headers, b"host")
        usual = self._hosts.setdefault(arrival.pool, host)
        if host != usual:
            found.append(Finding("host", f"{host!r} arrived where {usual!r} is usual"))
        return found

    def _arrived(self, trial: Trial, admitted: Meaning, arrival: Arrival) -> list[Finding]:
        world, sender = self._world, trial.sent.sender
        meaning = arrival.reading.meaning
        if meaning is None:
            return []  # the reader has said why
        found = []
        reads, writes = world.may(sender, admitted)
        if arrival.pool != world.pool_of(admitted):
            found.append(Finding("other pool", f"{arrival.pool} got what belongs to {world.pool_of(admitted)}"))
        allowed = reads if admitted.effect == "read" and admitted.operation not in _OF_WRITERS else writes
        if not allowed and (meaning.effect != "none" or sender.forged):
            found.append(Finding("no right", f"{sender.name} may not do {admitted.operation} there"))
        if _reads(arrival):
            buckets = {admitted.bucket, admitted.source[0] if admitted.source else admitted.bucket}
            if meaning.bucket not in buckets:
                found.append(Finding("other bucket", f"{meaning.bucket!r} is read, {admitted.bucket!r} was admitted"))
            return found
        if meaning.effect == "write" and not writes:
            found.append(Finding("write without right", f"{meaning.operation} by {sender.name}"))
        found += _same(trial, admitted, arrival, meaning)
        return found + (self._source(trial, meaning, arrival) if meaning.source is not None else [])

    def _source(self, trial: Trial, meaning: Meaning, arrival: Arrival) -> list[Finding]:
        assert trial.admitted is not None and meaning.source is not None
        found = []
        if meaning.source != trial.admitted.source:
            found.append(Finding("other source", f"{meaning.source} is copied, {trial.admitted.source} was admitted"))
        if not self._world.may(trial.sent.sender, Meaning("GetObject", "read", meaning.source[0]))[0]:
            found.append(Finding("read without right", f"the source {meaning.source}"))
        bucket = self._world.buckets.get(meaning.source[0])
        if bucket is not None and bucket.pool != arrival.pool:
            found.append(Finding("other pool", f"the source {meaning.source} belongs to {bucket.pool}"))
        return found

    def _shown(self, trial: Trial, admitted: Meaning) -> list[Finding]:
        """What the client was shown is what it asked for, and may see."""
        marks = set(MARK.findall(trial.reply.head + trial.reply.body))
        sender = trial.sent.sender
        found = []
        if marks and not self._world.may(sender, admitted)[0]:
            found.append(Finding("read without right", f"{admitted.operation} by {sender.name}"))
        pool = self._world.pool_of(admitted)
        if marks - {mark(pool, admitted)}:
            found.append(Finding("other data", f"the reply to {admitted} shows something else"))
        return found

    def _logged(self, trial: Trial) -> list[Finding]:
        """Each change that a store has made is in the log, under the name that the store has for it; and no other."""
        made = Counter(logged for one in trial.arrivals if 200 <= one.status < 300 for logged in _owed(one))
        told = Counter(event for event in trial.events if event.kind not in _OWN_EVENTS)
        missing = [change for change in (made - told).elements() if change.kind not in _OWN_EVENTS]
        found = [Finding("not logged", f"{change}") for change in missing]
        found += [Finding("logged, not made", f"{event}") for event in (told - made).elements()]
        for event in trial.events:
            if trial.admitted is None or event.bucket != trial.admitted.bucket:
                found.append(Finding("log of another bucket", f"{event} for {trial.admitted}"))
        changed = [one for one in trial.arrivals if 200 <= one.status < 300 and not _reads(one)]
        if changed and 400 <= trial.reply.status < 500:
            found.append(Finding("refused after the change", f"status {trial.reply.status}"))
        return found


def _same(trial: Trial, admitted: Meaning, arrival: Arrival, meaning: Meaning) -> list[Finding]:
    found = []
    if meaning.operation not in _CARRIED_OUT_BY.get(admitted.operation, {admitted.operation}):
        found.append(Finding("other operation", f"{meaning.operation} arrived, {admitted.operation} was admitted"))
    if meaning.bucket != admitted.bucket:
        found.append(Finding("other bucket", f"{meaning.bucket!r} arrived, {admitted.bucket!r} was admitted"))
    if "DeleteObjects" in (meaning.operation, admitted.operation):
        named = _named(trial.sent, admitted)
        other = set(arrival.deleted or (Part(meaning.key, meaning.version_id),)) - named
        return found + [Finding("other key", f"{part} is deleted and was not named") for part in other]
    for name in ("key", "version_id", "upload_id"):
        came, meant = getattr(meaning, name), getattr(admitted, name)
        if came != meant:
            found.append(Finding(f"other {name}", f"{came!r} arrived, {meant!r} was admitted"))
    is_data = admitted.operation in ("PutObject", "PostObject", "UploadPart")
    came, meant = (_data(arrival), trial.sent.payload) if is_data else map(_leaves, (arrival.body, trial.sent.payload))
    if came != meant:
        found.append(Finding("other body", f"{came!r:.200} arrived, {meant!r:.200} was sent"))
    return found


def _leaves(document: bytes) -> list[tuple[str, str]]:
    """What an XML document says, however it is written."""
    try:
        nodes = list(ElementTree.fromstring(document).iter()) if document else []
    except ElementTree.ParseError:
        return [("not XML", document.hex())]
    return sorted((node.tag.rpartition("}")[2], (node.text or "").strip()) for node in nodes if not len(node))


def _named(sent: Sent, admitted: Meaning) -> set[Part]:
    if admitted.operation != "DeleteObjects":
        return {Part(admitted.key, admitted.version_id)}
    try:
        return set(named_in(sent.payload))
    except ElementTree.ParseError:
        return set()


def _data(arrival: Arrival) -> bytes:
    """The data in a body, which may still be in aws-chunked framing."""
    if not header(arrival.headers, b"x-amz-content-sha256").startswith(b"STREAMING-"):
        return arrival.body
    data, rest = b"", arrival.body
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line.partition(b";")[0] or b"0", 16)
        if not size:
            break
        data, rest = data + rest[:size], rest[size + 2 :]
    return data


def _owed(arrival: Arrival) -> list[Logged]:
    """The events that the log owes for a change that the store has made."""
    meaning = arrival.reading.meaning
    kind = arrival.reading.event
    if meaning is None or not kind:
        return []
    if meaning.operation == "DeleteObjects":
        return [Logged(kind, arrival.pool, meaning.bucket, *part, "") for part in arrival.deleted]
    tags: tuple[tuple[str, str], ...] = ()
    if meaning.operation in ("PutObject", "CreateMultipartUpload"):
        text = header(arrival.headers, b"x-amz-tagging").decode("latin-1")
        tags = tuple(sorted(parse_qsl(text, keep_blank_values=True)))
    elif meaning.operation == "PutObjectTagging":
        tags = _tags(arrival.body)
    upload = "" if kind == "upload-started" else meaning.upload_id
    return [Logged(kind, arrival.pool, meaning.bucket, meaning.key, meaning.version_id, upload, tags)]


def _tags(document: bytes) -> tuple[tuple[str, str], ...]:
    try:
        tags = [node for node in ElementTree.fromstring(document).iter() if node.tag.rpartition("}")[2] == "Tag"]
    except ElementTree.ParseError:
        return ()
    fields = [{child.tag.rpartition("}")[2]: child.text or "" for child in tag} for tag in tags]
    return tuple(sorted((tag.get("Key", ""), tag.get("Value", "")) for tag in fields))


def _as_documented(meaning: Meaning) -> Meaning:
    """Without the parameters that the operation does not have: those must not arrive, and so mean nothing."""
    return meaning._replace(
        version_id=meaning.version_id if meaning.operation in _TAKES_VERSION else "",
        upload_id=meaning.upload_id if meaning.operation in _TAKES_UPLOAD else "",
    )


def _reads(arrival: Arrival) -> bool:
    return arrival.reading.meaning is not None and arrival.reading.meaning.effect == "read"


def _bucket(arrival: Arrival) -> str:
    return arrival.reading.meaning.bucket if arrival.reading.meaning is not None else ""
