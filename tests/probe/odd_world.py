"""The tenants whose buckets the differential probe plays with, and those who send its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from backend_reading import Meaning
from requests_on_the_wire import Request, Signer

DOMAIN = "s3.test"
DIRECT_DOMAIN = "direct.test"


class Sender(NamedTuple):
    """Someone with a key of a pool, or nobody in particular. A forger has a key's name and not its secret."""

    name: str
    pool: str
    signer: Signer | None
    reads: bool = False
    writes: bool = False
    forged: bool = False


class Bucket(NamedTuple):
    name: str
    pool: str
    policy: str = "none"


@dataclass(frozen=True)
class World:
    """`own` is the pool whose keys the senders have; `spare` are names that its clients may create and delete."""

    authority: bytes
    own: str
    other: str
    buckets: dict[str, Bucket]
    spare: tuple[str, ...]
    senders: tuple[Sender, ...]
    direct_names: tuple[str, ...] = ()
    upload_ids: tuple[str, ...] = ("upload-1", "upload-2")

    def of(self, pool: str) -> list[str]:
        return [bucket.name for bucket in self.buckets.values() if bucket.pool == pool]

    def open_buckets(self) -> list[str]:
        return [bucket.name for bucket in self.buckets.values() if bucket.policy != "none"]

    def pool_of(self, meaning: Meaning) -> str:
        """Where the request belongs; only clients of the senders' own pool make further buckets."""
        bucket = self.buckets.get(meaning.bucket)
        return bucket.pool if bucket is not None else self.own

    def may(self, sender: Sender, meaning: Meaning) -> tuple[bool, bool]:
        """Whether the sender may read, and may write, what the request names."""
        bucket = self.buckets.get(meaning.bucket)
        if sender.forged:
            return False, False
        if sender.signer is None:
            policy = bucket.policy if bucket is not None else "none"
            return policy in ("download", "public"), policy in ("upload", "public")
        if bucket is not None and bucket.pool != sender.pool:
            return False, False
        return sender.reads, sender.writes


@dataclass(slots=True)
class Sent:
    """A request, its sender, and what was done to it. `payload` is the data in the body, without its framing;
    `form_key` is the key that a form names."""

    seed: int
    sender: Sender
    request: Request
    payload: bytes
    recipe: list[str]
    form_key: str = ""

    def head(self) -> bytes:
        raw = self.request.raw()
        return raw[: len(raw) - len(self.request.body)]


def lane_names(lane: int) -> tuple[str, str]:
    """The pools of one lane: the senders' own, and the other tenant's."""
    return f"own-{lane}", f"other-{lane}"


def spare_buckets(lane: int) -> tuple[str, ...]:
    return tuple(f"lane{lane}-spare-{number}" for number in range(3))


def lane_buckets(lane: int) -> dict[str, Bucket]:
    own, other = lane_names(lane)
    buckets = [
        Bucket(f"lane{lane}-mine", own),
        Bucket(f"lane{lane}.dotted.name", own),
        Bucket(f"lane{lane}-public", own, "public"),
        Bucket(f"lane{lane}-download", own, "download"),
        Bucket(f"lane{lane}-upload", own, "upload"),
        Bucket(f"lane{lane}-foreign", other),
        Bucket(f"lane{lane}-foreign-public", other, "public"),
    ]
    return {bucket.name: bucket for bucket in buckets}
