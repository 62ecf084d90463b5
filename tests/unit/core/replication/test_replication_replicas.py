"""A replica is known by its metadata."""

from __future__ import annotations

from tidegate.core.pending_deletes import Component, owner_metadata
from tidegate.core.replication.replicas import is_replica, is_shown_as_replica


def metadata(component: Component) -> dict[str, str]:
    return owner_metadata(component, pool="p", bucket="b", bucket_uid="u", key="k", version_id="v")


def test_what_has_the_metadata_of_a_replica_is_one() -> None:
    found = metadata(Component.REPLICA)
    assert is_shown_as_replica(found)
    assert is_replica({name.encode(): value.encode() for name, value in found.items()})


def test_other_data_of_tidegates_and_clients_objects_are_none() -> None:
    for found in (metadata(Component.PLACEMENT), {"x-amz-meta-component": "replica"}, {}):
        assert not is_shown_as_replica(found)
        assert not is_replica({name.encode(): value.encode() for name, value in found.items()})
