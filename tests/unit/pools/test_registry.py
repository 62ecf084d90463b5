from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from open_places import give_to_service, service_user

from tidegate.core.errors import AlreadyExists, InvalidInput, NotFound, TidegateError
from tidegate.core.records import Pool, PoolState, PoolStatus
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables

NOW = 1_800_000_000.0


def everything(tables: Tables) -> dict[str, str]:
    """All entries except the users, which stay when a pool goes."""
    prefixes = ("po:", "ps:", "bd:", "ma:", "mn:", "ep:", "bk:", "ts:", "id:", "dn:", "gn:")
    return {key: value for prefix in prefixes for key, value in tables.scan(prefix)}


def test_a_new_pool_has_a_private_directory_the_service_s_user_and_no_state(registry: Registry, data: Path) -> None:
    pool = registry.create_pool("demo", now=NOW)
    assert pool.owner == service_user().pw_name
    assert pool.backend == "seaweedfs"
    assert pool.directory == str(data / "pools" / "demo")
    assert Path(pool.directory).stat().st_mode & 0o777 == 0o700
    assert Path(pool.directory).stat().st_uid == service_user().pw_uid
    assert registry.pool("demo") == pool
    assert registry.pools() == [pool]
    assert registry.status("demo", NOW).state == "NONE"
    assert [user.name for user in registry.users()] == [pool.owner]


def test_a_second_pool_of_the_same_name_is_refused_and_the_first_unharmed(registry: Registry, tables: Tables) -> None:
    registry.create_pool("demo", now=NOW)
    before = everything(tables)
    with pytest.raises(AlreadyExists):
        registry.create_pool("demo", now=NOW + 1)
    assert everything(tables) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Bad_Name"},
        {"owner": "no-such-user-here"},
        {"group": "no-such-group-here"},
        {"directory": "relative"},
        {"directory": "/"},
        {"backend": "nosuch"},
        {"direct_hostname": "a.b"},
        {"expires_at": NOW},
        {"expires_at": float("nan")},
        {"expires_at": 1e300},
    ],
)
def test_wrong_input_is_refused_and_changes_nothing(
    registry: Registry, tables: Tables, wrong: dict[str, object]
) -> None:
    arguments = {"name": "demo", "now": NOW} | wrong
    with pytest.raises(InvalidInput):
        registry.create_pool(**arguments)  # type: ignore[arg-type]
    assert everything(tables) == {}


def test_an_unknown_backend_is_refused_with_the_known_ones_named(registry: Registry) -> None:
    with pytest.raises(InvalidInput, match="seaweedfs"):
        registry.create_pool("demo", now=NOW, backend="nosuch")


def test_two_pools_do_not_share_a_directory_nor_lie_within_one_another(
    registry: Registry, tables: Tables, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    registry.create_pool("one", now=NOW, directory=str(place))
    (place / "in").mkdir()
    link = tmp_path / "link"
    link.symlink_to(place)
    before = everything(tables)
    for directory in (place, place / "in", place / "in" / "deeper", tmp_path / "x" / ".." / "place", link):
        with pytest.raises((AlreadyExists, InvalidInput)):
            registry.create_pool("two", now=NOW, directory=str(directory))
    assert everything(tables) == before


def test_a_pool_does_not_lie_in_the_service_s_own_directories(registry: Registry, data: Path) -> None:
    for directory in (data, data / "run", data.parent, data / "pools", data / "pools" / "a" / "b"):
        with pytest.raises(InvalidInput, match="overlaps"):
            registry.create_pool("demo", now=NOW, directory=str(directory))


@pytest.mark.parametrize("name", ["a b", "c:d", "e,f", "ü😀"])
def test_a_directory_may_have_any_printable_name(registry: Registry, tmp_path: Path, name: str) -> None:
    assert registry.create_pool("demo", now=NOW, directory=str(tmp_path / name)).directory == str(tmp_path / name)


def test_a_directory_whose_parent_is_missing_is_refused(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        registry.create_pool("demo", now=NOW, directory=str(tmp_path / "missing" / "place"))


def test_a_directory_with_files_of_somebody_is_refused_and_left_alone(registry: Registry, tmp_path: Path) -> None:
    place = tmp_path / "theses"
    (place / "master").mkdir(parents=True)
    (place / "master" / "thesis.tex").write_text("years of work")
    give_to_service(place)
    with pytest.raises(InvalidInput, match="not a pool's"):
        registry.create_pool("demo", now=NOW, directory=str(place))
    assert [path.name for path in place.iterdir()] == ["master"]
    assert registry.pools() == []


def test_an_empty_directory_and_one_that_was_a_pools_before_are_taken(registry: Registry, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    give_to_service(place)
    registry.create_pool("first", now=NOW, directory=str(place))
    (place / "volumes").mkdir()
    registry.delete_pool("first")
    assert registry.create_pool("second", now=NOW, directory=str(place)).directory == str(place)


def test_a_file_is_not_taken_for_a_directory(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is not a directory"):
        registry.create_pool("demo", now=NOW, directory=str(tmp_path / "file"))


def test_a_direct_host_name_belongs_to_one_pool(registry: Registry, tables: Tables) -> None:
    registry.create_pool("one", now=NOW, direct_hostname="shared")
    assert tables.get("dn:shared") == "one"
    with pytest.raises(AlreadyExists, match="one"):
        registry.create_pool("two", now=NOW, direct_hostname="shared")
    registry.delete_pool("one")
    registry.create_pool("two", now=NOW, direct_hostname="shared")
    assert tables.get("dn:shared") == "two"


def test_what_a_creation_that_broke_off_left_is_taken_over(registry: Registry, tables: Tables, data: Path) -> None:
    tables.put(f"bd:{data / 'pools' / 'demo'}", "ghost")
    tables.put("dn:host", "ghost")
    registry.create_pool("demo", now=NOW, direct_hostname="host")
    assert tables.get("dn:host") == "demo"


def test_of_many_creations_of_one_pool_at_once_one_succeeds_and_is_whole(
    registry: Registry, tables: Tables, tmp_path: Path
) -> None:
    def create(number: int) -> Pool | None:
        try:
            return registry.create_pool("demo", now=NOW + number, directory=str(tmp_path / f"place{number % 4}"))
        except TidegateError:
            return None

    with ThreadPoolExecutor(8) as threads:
        made = [pool for pool in threads.map(create, range(16)) if pool is not None]
    assert len(made) == 1
    assert registry.pools() == made
    assert tables.scan("bd:") == [(f"bd:{made[0].directory}", "demo")]


@pytest.mark.parametrize("round_number", range(3))
def test_of_many_pools_for_one_directory_at_once_at_most_one_gets_it(
    registry: Registry, tables: Tables, tmp_path: Path, round_number: int
) -> None:
    def create(number: int) -> bool:
        try:
            registry.create_pool(f"pool{number}", now=NOW, directory=str(tmp_path / "place"))
        except TidegateError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(create, range(8)))
    assert outcomes.count(True) <= 1
    assert len(registry.pools()) == outcomes.count(True)
    assert len(tables.scan("bd:")) == outcomes.count(True)


def test_deleting_a_pool_forgets_keys_buckets_and_places_and_keeps_the_contents(
    registry: Registry, tables: Tables
) -> None:
    pool = registry.create_pool("demo", now=NOW, direct_hostname="demo")
    kept = registry.create_pool("kept", now=NOW)
    registry.create_key("demo", now=NOW)
    registry.create_bucket("bucket-one", "demo", now=NOW)
    registry.create_bucket("bucket-two", "kept", now=NOW)
    content = Path(pool.directory) / "content"
    content.write_text("precious")
    registry.delete_pool("demo")
    assert content.read_text() == "precious"
    assert registry.pools() == [kept]
    left = everything(tables)
    assert set(left) == {"po:kept", f"bd:{kept.directory}", "bk:bucket-two", "gn:kept"}
    with pytest.raises(NotFound):
        registry.delete_pool("demo")
    assert registry.create_pool("demo", now=NOW).directory == pool.directory


def test_a_secret_is_shown_once_and_stored_sealed(registry: Registry, tables: Tables, data: Path) -> None:
    registry.create_pool("demo", now=NOW)
    key, secret = registry.create_key("demo", now=NOW, policy="readonly", expires_at=NOW + 1)
    assert (len(key.access_key), len(secret)) == (20, 40)
    stored = tables.get(f"id:{key.access_key}") or ""
    assert secret not in stored
    assert Vault.open(data).unseal(registry.key(key.access_key).secret) == secret
    assert registry.keys("demo") == [key]
    for file in data.iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("wrong", [{"policy": "admin"}, {"expires_at": NOW - 1}, {"expires_at": float("inf")}])
def test_a_key_with_wrong_input_is_refused(registry: Registry, wrong: dict[str, object]) -> None:
    registry.create_pool("demo", now=NOW)
    with pytest.raises(InvalidInput):
        registry.create_key("demo", now=NOW, **wrong)  # type: ignore[arg-type]
    assert registry.keys("demo") == []


def test_keys_and_buckets_need_their_pool(registry: Registry) -> None:
    with pytest.raises(NotFound):
        registry.create_key("nosuch", now=NOW)
    with pytest.raises(NotFound):
        registry.create_bucket("bucket", "nosuch", now=NOW)
    for look_up in (registry.keys, registry.buckets, registry.pool, registry.stop_pool):
        with pytest.raises(NotFound):
            look_up("nosuch")
    with pytest.raises(NotFound):
        registry.key("NOSUCHKEY")
    with pytest.raises(NotFound):
        registry.bucket("nosuch")


def test_a_bucket_name_is_taken_across_pools_until_it_is_deleted(registry: Registry) -> None:
    registry.create_pool("one", now=NOW)
    registry.create_pool("two", now=NOW)
    first = registry.create_bucket("bucket", "one", now=NOW)
    with pytest.raises(AlreadyExists):
        registry.create_bucket("bucket", "two", now=NOW)
    assert registry.set_bucket_policy("bucket", "download").policy == "download"
    registry.delete_bucket("bucket")
    second = registry.create_bucket("bucket", "two", now=NOW)
    assert second.uid != first.uid
    assert registry.buckets("two") == [second]


def test_a_policy_meant_for_a_bucket_is_not_given_to_a_later_one_of_the_same_name(registry: Registry) -> None:
    registry.create_pool("one", now=NOW)
    registry.create_pool("two", now=NOW)
    first = registry.create_bucket("bucket", "one", now=NOW)
    registry.delete_bucket("bucket")
    registry.create_bucket("bucket", "two", now=NOW)
    with pytest.raises(NotFound):
        registry.set_bucket_policy("bucket", "public", uid=first.uid)
    assert registry.bucket("bucket").policy == "none"


def test_only_a_bucket_that_the_backend_is_to_make_raises_the_generation(registry: Registry, tables: Tables) -> None:
    def generation() -> int:
        return int(tables.get("gn:demo") or 0)

    registry.create_pool("demo", now=NOW)
    key, _ = registry.create_key("demo", now=NOW)
    registry.service_key("demo", now=NOW)
    registry.create_bucket("by-client", "demo", now=NOW, by_client=True)
    registry.set_bucket_policy("by-client", "public")
    registry.delete_bucket("by-client")
    registry.delete_key(key.access_key)
    registry.update_pool("demo", online=False)
    assert generation() == 0
    registry.create_bucket("bucket", "demo", now=NOW)
    assert generation() == 1


def test_buckets_made_at_once_all_count_in_the_generation(registry: Registry, tables: Tables) -> None:
    registry.create_pool("demo", now=NOW)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: registry.create_bucket(f"bucket-{number}", "demo", now=NOW), range(24)))
    assert int(tables.get("gn:demo") or 0) == 24
    assert len(registry.buckets("demo")) == 24


@pytest.mark.parametrize("name", ["status", "healthz", "readyz"])
def test_a_bucket_whose_name_the_pool_s_backend_reserves_is_refused(
    registry: Registry, tables: Tables, name: str
) -> None:
    registry.create_pool("demo", now=NOW)
    before = everything(tables)
    for by_client in (False, True):
        with pytest.raises(InvalidInput, match=name):
            registry.create_bucket(name, "demo", now=NOW, by_client=by_client)
    assert everything(tables) == before


def test_a_pool_s_state_follows_online_expiry_and_the_owner(registry: Registry) -> None:
    owner = registry.create_pool("demo", now=NOW).owner
    registry.update_pool("demo", online=False)
    status = registry.status("demo", NOW)
    assert (status.state, status.reason) == ("DISABLED", "offline")
    registry.update_pool("demo", online=True, expires_at=NOW)
    assert registry.status("demo", NOW - 1).state == "NONE"
    assert registry.status("demo", NOW).reason == "expired"
    registry.update_pool("demo", expires_at=None)
    registry.set_user_permitted(owner, False, NOW)
    assert registry.status("demo", NOW).reason == "owner denied"
    assert registry.set_user_permitted(owner, True, NOW).permitted
    assert registry.status("demo", NOW).state == "NONE"


def test_an_update_that_names_nothing_changes_nothing(registry: Registry) -> None:
    pool = registry.create_pool("demo", now=NOW, expires_at=NOW + 60)
    assert registry.update_pool("demo") == pool


def test_a_reset_brings_an_inoperable_pool_back(registry: Registry, tables: Tables) -> None:
    registry.create_pool("demo", now=NOW)
    tables.put("ps:demo", PoolStatus(PoolState.INOPERABLE, "broken", NOW).to_json())
    assert registry.status("demo", NOW).reason == "broken"
    registry.reset_pool("demo", now=NOW)
    assert registry.status("demo", NOW).state == "INITIAL"


def test_an_unknown_user_is_not_found(registry: Registry) -> None:
    with pytest.raises(NotFound):
        registry.set_user_permitted("no-such-user-here", False, NOW)


def test_waiting_for_a_sleeping_pool_ends_at_once(registry: Registry) -> None:
    registry.create_pool("demo", now=NOW)
    registry.create_bucket("bucket", "demo", now=NOW)
    registry.wait_applied("demo", 0)


def test_another_owner_needs_root_and_root_gives_it_the_directory(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir(mode=0o700)
    if os.geteuid() != 0:
        with pytest.raises(InvalidInput, match="only root"):
            registry.create_pool("demo", now=NOW, owner="nobody")
        return
    found = Path(registry.create_pool("demo", now=NOW, owner="nobody").directory).stat()
    assert (found.st_uid, found.st_mode & 0o777) == (65534, 0o700)
    registry.delete_pool("demo")
    assert registry.create_pool("demo", now=NOW, owner="nobody").owner == "nobody"  # its own directory again
    with pytest.raises(InvalidInput, match="other than root"):
        registry.create_pool("other", now=NOW, owner="root")
    with pytest.raises(InvalidInput, match="belongs to root"):
        registry.create_pool("third", now=NOW, owner="nobody", directory=str(tmp_path / "place"))
    with pytest.raises(InvalidInput, match="install -d -o nobody"):
        registry.create_pool("third", now=NOW, owner="nobody", directory=str(tmp_path / "not-nobody-s-to-make"))
    (tmp_path / "place").chmod(0o777)
    made = Path(registry.create_pool("third", now=NOW, owner="nobody", directory=str(tmp_path / "place/p")).directory)
    assert made.stat().st_uid == 65534
