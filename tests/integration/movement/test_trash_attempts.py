"""A task that is delivered again finds what an earlier attempt has kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from threading import Event as Flag

import pytest
from running_service import RunningService
from second_store import SecondStore
from undo_world import UndoWorld, undo_settings

from tidegate.assembly import open_location, open_store, open_tables, open_topics
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.stores import Stores
from tidegate.movement.locations import Locations
from tidegate.movement.trash import BucketTrash, Trash
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.settings import restore


@pytest.fixture(scope="module")
def world(second_store: SecondStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UndoWorld]:
    settings = undo_settings(second_store, **{"locations.trash.prefix": "attempts/"})
    service = RunningService(tmp_path_factory.mktemp("attempts") / "data", settings)
    try:
        service.start()
        yield UndoWorld(service, second_store, service.create_pool("undo"))
    finally:
        service.end()


@contextmanager
def attempt(world: UndoWorld, bucket: str) -> Iterator[tuple[BucketTrash, ObjectTask]]:
    """What a worker has that is to delete the object `k`, as it is now."""
    data = world.service.data
    settings, vault = restore((data / "run" / "settings.json").read_text()), Vault.open(data)
    with closing(open_tables(settings, data)) as tables, closing(open_topics(settings, data)) as topics:
        found = Bucket.from_json(tables.get(Bucket.PREFIX + bucket) or "")
        stores = Stores(Registry(tables, vault, data, settings), partial(open_store, world.service.s3_url))
        locations = Locations(tables, vault, settings.locations, open_location)
        with closing(stores), closing(locations):
            store = stores.of_pool(found.pool)
            with closing(Trash(tables, topics, stores, locations, settings, stop=Flag())) as trash:
                listed = store.list_versions(bucket).versions
                keeper = trash.of_bucket(found, store)
                assert keeper is not None
                yield keeper, ObjectTask(
                    effect=Effect.DELETE, owner="", bucket=bucket, key="k", version_id="", bucket_uid=found.uid,
                    pass_id="pass", kind=ActionKind.EXPIRATION_DAYS, rule_id="", action_id="", due_ns=0,
                    became_due_ns=0, etag=listed[0].etag, size=listed[0].size, last_modified=listed[0].modified,
                )  # fmt: skip


def test_a_second_attempt_makes_no_second_copy_and_takes_the_tags_that_there_are(
    world: UndoWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("attempts"))
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with attempt(world, bucket) as (keeper, task):
        assert keeper.keep([task]) == {}
    (first,) = world.trash(bucket)
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    world.s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags)
    with attempt(world, bucket) as (keeper, task):
        assert keeper.keep([task]) == {}
    (second,) = world.trash(bucket)
    assert second.placement.data_key == first.placement.data_key and second.until > first.until
    assert (first.placement.tags, second.placement.tags) == ((), (("a", "b"),))
    # A worker that died here leaves an object that is there, and a record that changes nothing.
    assert world.undelete(bucket)["kept"] == 1


def test_what_an_earlier_attempt_has_deleted_can_be_brought_back_though_it_was_rewritten_since(
    world: UndoWorld, fresh_name: Callable[[str], str]
) -> None:
    bucket = world.bucket(fresh_name("attempts"))
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    with attempt(world, bucket) as (keeper, task):
        assert keeper.keep([task]) == {}
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"rewritten")
    with attempt(world, bucket) as (keeper, _):
        (result,) = keeper.keep([task]).values()
        assert result.outcome is Outcome.NOOP_RESOLVED
        keeper.forget(task)
    assert len(world.trash(bucket)) == 1
    world.s3.delete_object(Bucket=bucket, Key="k")
    assert world.undelete(bucket)["restored"] == 1
    assert world.shown(bucket, "k")["Body"] == b"old"


def test_what_was_kept_for_nothing_goes_at_once(world: UndoWorld, fresh_name: Callable[[str], str]) -> None:
    bucket = world.bucket(fresh_name("attempts"))
    world.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with attempt(world, bucket) as (keeper, task):
        keeper.keep([task])
        (record,) = world.trash(bucket)
        keeper.forget(task)
    assert world.trash(bucket) == []
    world.wait_until(lambda: record.placement.data_key not in world.store.keys(prefix="attempts/"), "the data goes")
