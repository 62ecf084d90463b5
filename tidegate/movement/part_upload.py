"""An upload in parts that an earlier attempt may have begun: parts that are there already are not sent again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5

from tidegate.core.errors import NotFound
from tidegate.ports import Store, StoredPart

_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class OpenUpload:
    store: Store
    bucket: str
    key: str
    upload_id: str

    def parts(self) -> dict[int, StoredPart] | None:
        """What it has so far, by number; None if it is no more."""
        try:
            return {part.number: part for part in self.store.parts(self.bucket, self.key, self.upload_id)}
        except NotFound:
            return None

    def put(self, pieces: Iterable[bytes], known: Mapping[int, StoredPart]) -> list[StoredPart]:
        """All parts, one for each piece; those that are `known` are sent only if they are different."""
        parts: list[StoredPart] = []
        for number, data in enumerate(pieces, 1):
            earlier = known.get(number)
            if earlier is not None and (earlier.etag, earlier.size) == (md5_of(data), len(data)):
                parts.append(earlier)
            else:
                parts.append(self.store.put_part(self.bucket, self.key, self.upload_id, number, data))
        return parts


def part_size(wanted: int, size: int) -> int:
    """Larger than is wanted where there would be more parts than an upload may have."""
    return max(wanted, -(-size // _MOST_PARTS))


def md5_of(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()
