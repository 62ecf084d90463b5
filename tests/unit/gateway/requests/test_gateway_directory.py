"""Copies of table entries: kept for a while, dropped at once when something changes, read once for all who ask."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from gateway_records import Records

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Unavailable
from tidegate.gateway.requests import directory as directory_module
from tidegate.gateway.requests.directory import Directory, Missing
from tidegate.pools.changes import ChangeCounter


class CountedTables(SqliteTables):
    """The real tables; a test sees which keys were read and can hold readers up."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self.broken = False

    def get(self, key: str) -> str | None:
        self.read.append(key)
        self.open.wait(30)
        if self.broken:
            raise Unavailable("the tables are away")
        return super().get(key)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path)
    made.add_pool("physics", direct="lab")
    yield made
    made.close()


@pytest.fixture
def counted(records: Records, tmp_path: Path) -> Iterator[CountedTables]:
    tables = CountedTables(tmp_path / "tables.db")
    yield tables
    tables.close()


def directory_on(records: Records, tables: CountedTables, life: float = 60) -> Directory:
    return Directory(tables, records.vault, records.changes, life=life)


async def loaded_bucket(directory: Directory, name: str):
    try:
        return directory.bucket(name)
    except Missing as missing:
        await directory.load(missing)
        return directory.bucket(name)


def test_entries_are_read_from_the_tables_with_secrets_opened(records: Records) -> None:
    async def main() -> None:
        directory = records.directory
        access_key, secret = records.keys["physics"]
        for look_up, name in (
            (directory.key, access_key),
            (directory.bucket, "physics-bucket"),
            (directory.pool, "physics"),
            (directory.direct_pool, "lab"),
        ):
            with pytest.raises(Missing) as missing:
                look_up(name)
            await directory.load(missing.value)
        key, pool = directory.key(access_key), directory.pool("physics")
        assert key is not None and (key.secret, key.pool, key.policy) == (secret, "physics", "readwrite")
        assert directory.direct_pool("lab") == "physics"
        assert pool is not None and (pool.address, pool.manager_token) == ("127.0.0.1:1", "token")
        assert pool.disabled(records.now) is None

    uvloop.run(main())


def test_an_address_without_a_backend_entry_counts_as_asleep(records: Records) -> None:
    async def main() -> None:
        records.tables.delete("mn:physics")
        with pytest.raises(Missing) as missing:
            records.directory.pool("physics")
        await records.directory.load(missing.value)
        pool = records.directory.pool("physics")
        assert pool is not None and pool.address is None

    uvloop.run(main())


def test_an_entry_is_read_once_while_it_lives(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted)
        for _ in range(5):
            assert await loaded_bucket(directory, "physics-bucket") is not None
        assert counted.read.count("bk:physics-bucket") == 1
        directory.close()

    uvloop.run(main())


def test_an_old_entry_is_read_again(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted, life=0)
        assert await loaded_bucket(directory, "physics-bucket") is not None
        await asyncio.sleep(2 * directory_module._ABSENCE_SECONDS)
        with pytest.raises(Missing):
            directory.bucket("physics-bucket")
        directory.close()

    uvloop.run(main())


def test_an_entry_in_use_is_read_again_before_it_gets_old(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted, life=10)
        await loaded_bucket(directory, "physics-bucket")
        async with asyncio.timeout(30):
            while counted.read.count("bk:physics-bucket") < 2:
                directory.bucket("physics-bucket")  # never missing
                await asyncio.sleep(0.02)
        directory.close()

    uvloop.run(main())


def test_a_change_by_any_process_is_seen_at_the_next_look(records: Records, tmp_path: Path) -> None:
    async def main() -> None:
        assert (await loaded_bucket(records.directory, "physics-bucket")).policy == "none"
        records.registry.set_bucket_policy("physics-bucket", "public")
        with pytest.raises(Missing):
            records.directory.bucket("physics-bucket")
        assert (await loaded_bucket(records.directory, "physics-bucket")).policy == "public"
        ChangeCounter(tmp_path).bump()  # as another process would
        with pytest.raises(Missing):
            records.directory.bucket("physics-bucket")

    uvloop.run(main())


def test_an_entry_that_was_read_while_something_changed_is_not_kept(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted)
        with pytest.raises(Missing) as missing:
            directory.bucket("physics-bucket")
        counted.open.clear()
        reading = asyncio.create_task(directory.load(missing.value))
        await asyncio.sleep(0.01)
        records.registry.set_bucket_policy("physics-bucket", "public")
        counted.open.set()
        await reading
        with pytest.raises(Missing):
            directory.bucket("physics-bucket")
        directory.close()

    uvloop.run(main())


def test_absence_is_not_kept(records: Records) -> None:
    async def main() -> None:
        assert await loaded_bucket(records.directory, "no-such-bucket") is None
        await asyncio.sleep(4 * directory_module._ABSENCE_SECONDS)
        with pytest.raises(Missing):
            records.directory.bucket("no-such-bucket")
        assert records.directory._buckets.entries == {}, "names that do not exist fill no memory"

    uvloop.run(main())


def test_those_who_ask_at_once_share_one_reading(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted)
        counted.open.clear()
        asking = [asyncio.create_task(loaded_bucket(directory, "physics-bucket")) for _ in range(20)]
        await asyncio.sleep(0.02)
        asking[0].cancel()
        counted.open.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert all(not isinstance(bucket, BaseException) for bucket in found[1:])
        assert counted.read.count("bk:physics-bucket") == 1
        directory.close()

    uvloop.run(main())


def test_who_asks_right_after_a_reading_has_ended_is_not_sent_back_to_it(records: Records) -> None:
    """It ends before it is struck off. Whoever waited for it in that moment, for an entry that had changed meanwhile,
    would get the floor back at once, look, and wait again, for ever."""

    async def main() -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.set_result(None)
        records.directory._buckets.readings["physics-bucket"] = ended
        assert await loaded_bucket(records.directory, "physics-bucket") is not None

    uvloop.run(main())


def test_a_failed_reading_reaches_all_and_is_tried_anew(records: Records, counted: CountedTables) -> None:
    async def main() -> None:
        directory = directory_on(records, counted)
        counted.broken = True
        asking = [loaded_bucket(directory, "physics-bucket") for _ in range(3)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(error, Unavailable) for error in found)
        counted.broken = False
        assert await loaded_bucket(directory, "physics-bucket") is not None
        directory.close()

    uvloop.run(main())


def test_a_forgotten_pool_is_read_again(records: Records) -> None:
    async def main() -> None:
        with pytest.raises(Missing) as missing:
            records.directory.pool("physics")
        await records.directory.load(missing.value)
        assert records.directory.pool("physics") is not None
        records.directory.forget_pool("physics")
        with pytest.raises(Missing):
            records.directory.pool("physics")

    uvloop.run(main())
