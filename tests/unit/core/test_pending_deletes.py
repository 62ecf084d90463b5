"""Whose data a pending delete is about, and what stored data says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import pytest

from tidegate.core.pending_deletes import Component, DataType, PendingDelete, is_owner, is_told_by_hash, owner_metadata

LONG = "長" * 300
HASH = f"sha256:{sha256(LONG.encode()).hexdigest()}"


@dataclass(frozen=True)
class Data:
    """Of one version; `told` is the key in the message."""

    key: str
    told: str

    @property
    def metadata(self) -> dict[str, str]:
        return owner_metadata(
            Component.PLACEMENT, pool="p", bucket="b", bucket_uid="uid", key=self.key, version_id="null"
        )

    @property
    def pending(self) -> PendingDelete:
        return PendingDelete(
            component=Component.PLACEMENT,
            data_type=DataType.LOCATION,
            pool="p",
            bucket="b",
            bucket_uid="uid",
            key=self.told,
            version_id="null",
            sent_ns=1,
            location="cold",
            data_key="p/uid/00",
        )


@pytest.mark.parametrize("key", ["a", "a/b:c", "with\nnewline", "🌊", LONG, HASH])
def test_data_is_known_by_its_key(key: str) -> None:
    data = Data(key, told=key)
    assert is_owner(data.pending, data.metadata)
    assert not is_told_by_hash(data.pending, data.metadata), "no search through the whole bucket"
    assert all(len(value) <= 1024 and value.isascii() for value in data.metadata.values())


def test_data_of_a_long_key_is_known_by_the_hash_that_it_shows() -> None:
    data = Data(LONG, told=HASH)
    assert is_owner(data.pending, data.metadata)
    assert is_told_by_hash(data.pending, data.metadata)


@pytest.mark.parametrize(
    ("key", "told"), [("a", "b"), (LONG, "a"), ("a", HASH), (HASH, LONG), (LONG, f"sha256:{'0' * 64}")]
)
def test_data_of_another_key_is_another_owners(key: str, told: str) -> None:
    data = Data(key, told)
    assert not is_owner(data.pending, data.metadata)
