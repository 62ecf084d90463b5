"""The operations of a mixed load, in an order and with sizes that depend on the seed alone."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench.gateway.requests import Target

BUCKET = "mixed-load"
SHARES = {"GET": 45, "HEAD": 30, "PUT": 15, "DELETE": 10}
_LEAST, _MOST = 1 << 10, 1 << 20
_BYTES = bytes(range(256)) * (_MOST // 256)
# A key is deleted so many PUTs after it was put at the earliest: none that is deleted is still being written.
_BEHIND = 16


@dataclass(frozen=True, slots=True)
class Mixed:
    """`before` are the PUTs of what is read. `kinds` has the method of each of the `requests`."""

    before: list[bytes]
    requests: list[bytes]
    kinds: list[str]


def prepared(target: Target, *, count: int, objects: int, seed: int) -> Mixed:
    """Signed for the target. Targets differ in nothing but their keys, so that they share one bucket."""
    chance = random.Random(seed)
    read = [f"/{BUCKET}/{target.name}/read/{number:06}" for number in range(objects)]
    before = [_put(target, path, _size(chance)) for path in read]
    kinds = _kinds(chance, count)
    requests = []
    put = deleted = 0
    for kind in kinds:
        if kind == "PUT":
            requests.append(_put(target, _written(target, put), _size(chance)))
            put += 1
        elif kind == "DELETE":
            requests.append(target.head("DELETE", _written(target, deleted)))
            deleted += 1
        else:
            requests.append(target.head(kind, chance.choice(read)))
    return Mixed(before, requests, kinds)


def _kinds(chance: random.Random, count: int) -> list[str]:
    """The exact shares in random order, but that every DELETE has something to delete."""
    drawn = [kind for kind, share in SHARES.items() for _ in range(count * share // 100)]
    chance.shuffle(drawn)
    return list(_with_deletes_late_enough(drawn))


def _with_deletes_late_enough(drawn: list[str]) -> Iterator[str]:
    postponed = deletable = 0
    for kind in drawn:
        if kind == "DELETE" and deletable <= _BEHIND:
            postponed += 1
            continue
        yield kind
        deletable += (kind == "PUT") - (kind == "DELETE")
        if postponed and deletable > _BEHIND:
            postponed, deletable = postponed - 1, deletable - 1
            yield "DELETE"
    yield from ["DELETE"] * postponed


def _written(target: Target, number: int) -> str:
    return f"/{BUCKET}/{target.name}/written/{number:06}"


def _size(chance: random.Random) -> int:
    """Log-uniform: as many objects between 1 and 2 KiB as between 512 KiB and 1 MiB."""
    return round(math.exp(chance.uniform(math.log(_LEAST), math.log(_MOST))))


def _put(target: Target, path: str, size: int) -> bytes:
    body = _BYTES[:size]
    return target.head("PUT", path, length=size, digest=hashlib.sha256(body).hexdigest()) + body
