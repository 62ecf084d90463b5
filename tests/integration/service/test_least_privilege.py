"""As whom the service runs, which rights its processes have, and what others see of it."""

from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from open_places import open_place, service_user
from running_service import TIDEGATE, PoolKey, RunningService

from tidegate.processes import descendants_of
from tidegate.service_account import identity_of, run_as

MakeService = Callable[..., RunningService]

AS_ROOT = os.geteuid() == 0
OWNER = "daemon" if AS_ROOT else ""
OPTION = "an option of Spark that nobody may see"
SECRET = "the secret of Spark's own ports"
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can start the service for other users")
RULE = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}


class Whole:
    """A service with pools that run, and a session of Spark."""

    def __init__(self, service: RunningService, keys: list[PoolKey]) -> None:
        self.service = service
        self.keys = keys

    def processes(self) -> list[int]:
        return [self.service.pid, *descendants_of(self.service.pid)]

    def secrets(self) -> dict[str, str]:
        data = self.service.data
        return {
            "admin token": self.service.endpoints["admin_token"],
            "key of the vault": (data / "secret.key").read_text().strip(),
            "option of Spark": OPTION,
            "secret of Spark": SECRET,
        } | {f"secret of {key.pool}": key.secret_key for key in self.keys}


@pytest.fixture(scope="module")
def whole(_clean_environment: None) -> Iterator[Whole]:
    """Where every user of the machine can reach it."""
    with open_place() as place:
        data = place / "data"
        data.mkdir()
        (data / "tidegate.toml").write_text(
            f'[spark]\nsecret = "{SECRET}"\noptions = {{ "spark.probe" = "{OPTION}" }}\n'
        )
        service = RunningService(data, {"gateway.processes": 1})
        try:
            service.start()
            keys = [service.create_pool("plain"), service.create_pool("owned", *(["--owner", OWNER] if OWNER else []))]
            for key in keys:
                s3 = service.s3(key)
                s3.create_bucket(Bucket=f"in-{key.pool}")
                s3.put_object(Bucket=f"in-{key.pool}", Key="key", Body=b"contents")
                s3.put_bucket_lifecycle_configuration(Bucket=f"in-{key.pool}", LifecycleConfiguration={"Rules": [RULE]})
            done = service.run_cli("pass", "run", "--json")
            assert done.returncode == 0, f"{done.stdout}\n{service.log()}"
            yield Whole(service, keys)
        finally:
            service.end()


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def test_only_supervisor_and_starter_have_root_s_rights(whole: Whole) -> None:
    found = whole.processes()
    assert any("org.apache.spark.deploy.SparkSubmit" in words_of(pid) for pid in found)
    rooted = {pid for pid in found if "0" in status_of(pid)["Uid"].split()}
    starters = set(whole.service.pids_of("tidegate.pools.starter"))
    assert rooted == ({whole.service.pid} | starters if AS_ROOT else set())
    assert len(starters) == (1 if AS_ROOT else 0)
    managers = whole.service.pids_of("tidegate.pools.manager")
    for pid in set(found) - rooted - set(managers):
        assert {int(status_of(pid)[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")} == {0}, words_of(pid)


def test_processes_of_pools_are_the_account_s_and_the_owner_s(whole: Whole) -> None:
    users = {}
    for key in whole.keys:
        shown = whole.service.cli("pool", "show", key.pool)
        assert whole.service.pid not in (shown["manager_pid"], shown["backend_pid"])
        for pid in (shown["manager_pid"], *descendants_of(shown["manager_pid"])):
            assert "0" not in status_of(pid)["Uid"].split() or not AS_ROOT
        users[key.pool] = pwd.getpwuid(Path(f"/proc/{shown['backend_pid']}").stat().st_uid).pw_name
    assert users == {"plain": service_user().pw_name, "owned": OWNER or service_user().pw_name}


def test_no_command_line_shows_a_secret(whole: Whole) -> None:
    lines = {pid: " ".join(words_of(pid)) for pid in whole.processes()}
    assert len(lines) > 6
    shown = [(name, line) for line in lines.values() for name, secret in whole.secrets().items() if secret in line]
    assert shown == []


def test_every_process_makes_its_files_for_itself_alone(whole: Whole) -> None:
    masks = {words_of(pid)[2]: status_of(pid)["Umask"] for pid in whole.processes() if len(words_of(pid)) > 2}
    assert set(masks.values()) == {"0077"}, masks


def test_others_may_pass_to_pools_and_sockets_and_see_nothing(whole: Whole) -> None:
    data = whole.service.data
    passable = {data, data / "run", data / "pools"}
    for path in (data, *data.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path in passable:
            assert mode & ~0o711 == 0, path
        elif path.parent.parent == data / "run" / "sockets":
            assert path.parent.lstat().st_mode & 0o007 == 0, path  # the directory keeps others from the socket
        elif data / "pools" in path.parent.parents:
            continue  # backends choose the modes of their files, in a directory that nobody else enters
        else:
            assert mode & 0o007 == 0, path
            assert mode & 0o070 == 0 or path.parent == data / "run" / "sockets", path
    if AS_ROOT:
        paths = [str(path) for path in (data, *data.rglob("*"))]
        assert len(paths) > 30
        nobody = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "sh", "-c"]
        looks = 'while read -r path; do if [ -r "$path" ] || [ -w "$path" ]; then echo "$path"; fi; done'
        done = subprocess.run([*nobody, looks], input="\n".join(paths), capture_output=True, text=True, check=True)
        assert done.stdout.split("\n") == [""]


def foreign(data: Path) -> list[Path]:
    """What of the data directory is not the service's, contents of pools aside."""
    inside = [data, *(path for path in data.rglob("*") if not path.is_relative_to(data / "pools" / "owned"))]
    return [path for path in inside if path.lstat().st_uid != service_user().pw_uid and path.name != "tidegate.toml"]


def test_commands_leave_nothing_behind_that_the_service_cannot_open(make_service: MakeService, tmp_path: Path) -> None:
    data = tmp_path / "below" / "data"
    before = RunningService(data, {"gateway.processes": 1, "lifecycle.enabled": False})
    key = before.create_pool("first")  # there is no service yet, and no data directory
    assert before.cli("pool", "start", "first")["endpoint"]
    assert before.cli("pool", "stop", "first")["stopped"]
    assert foreign(data) == []
    running = make_service(data=data, gateway__processes=1, lifecycle__enabled=False)
    running.s3(key).create_bucket(Bucket="bucket")
    for words in (["pool", "stop", "first"], ["pool", "start", "first"], ["key", "create", "first"], ["status"]):
        running.cli(*words)
    assert running.run_cli("metalog", "tail").returncode == 0
    assert foreign(data) == []
    assert running.stop() == 0
    for words in (["pool", "create", "second"], ["key", "create", "second"], ["metalog", "statistics"], ["status"]):
        running.cli(*words)
    assert foreign(data) == []
    again = make_service(data=data, gateway__processes=1, lifecycle__enabled=False)
    assert again.s3(key).list_buckets()["Buckets"][0]["Name"] == "bucket"


@needs_root
def test_what_root_had_from_an_earlier_version_is_handed_over_and_contents_of_pools_are_not(
    make_service: MakeService,
) -> None:
    running = make_service(gateway__processes=1, lifecycle__enabled=False)
    data = running.data
    key = running.create_pool("owned", "--owner", "daemon")
    running.s3(key).create_bucket(Bucket="bucket")
    assert running.stop() == 0
    stranger = data / "notes"
    stranger.write_text("not Tidegate's")
    for path in (data, *data.rglob("*")):
        if not path.is_relative_to(data / "pools" / "owned"):
            os.lchown(path, 0, 0)
    link = data / "log" / "link"
    link.symlink_to("/etc/passwd")
    double = data / "log" / "double"
    os.link(stranger, double)
    again = make_service(data=data, gateway__processes=1, lifecycle__enabled=False)
    assert again.s3(key).list_buckets()["Buckets"][0]["Name"] == "bucket"
    assert foreign(data) == [path for path in foreign(data) if path in (stranger, link, double)]
    assert Path("/etc/passwd").stat().st_uid == 0
    assert (data / "pools" / "owned").stat().st_uid == pwd.getpwnam("daemon").pw_uid


def up(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(TIDEGATE), "up", "--data", str(data), "--set", "gateway.port=0", "--set", "api.port=0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@needs_root
def test_without_its_account_the_service_says_how_to_make_it(tmp_path: Path) -> None:
    done = up(tmp_path / "data", "--set", "service.account=no-such-account")
    assert done.returncode == 1
    assert "useradd --system --user-group --no-create-home --shell /usr/sbin/nologin no-such-account" in done.stderr
    assert not (tmp_path / "data").exists()


@needs_root
def test_root_is_no_service_account(tmp_path: Path) -> None:
    done = up(tmp_path / "data", "--set", "service.account=root")
    assert (done.returncode, "does not run as root" in done.stderr) == (1, True)


@needs_root
def test_a_root_that_is_not_the_machine_s_is_told_that_it_cannot_give_files_away(tmp_path: Path) -> None:
    command = [str(TIDEGATE), "up", "--data", str(tmp_path / "data")]
    done = subprocess.run(["unshare", "-Ur", *command], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be given to the account tidegate" in done.stderr


@needs_root
def test_a_directory_of_other_things_is_not_taken_nor_given_away(tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root's")
    for done in (up(tmp_path), RunningService(tmp_path).run_cli("pool", "list")):
        assert (done.returncode, "not Tidegate's" in done.stderr) == (1, True)
    assert tmp_path.stat().st_uid == (tmp_path / "shadow").stat().st_uid == 0


@needs_root
def test_settings_that_somebody_else_may_have_written_are_not_obeyed_by_root(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "tidegate.toml").write_text("")
    os.chown(data / "tidegate.toml", service_user().pw_uid, -1)
    done = up(data)
    assert (done.returncode, "chown root" in done.stderr) == (1, True)
    (data / "tidegate.toml").unlink()
    (tmp_path / "root-s").touch(mode=0o644)
    (data / "tidegate.toml").symlink_to(tmp_path / "root-s")
    os.lchown(data / "tidegate.toml", service_user().pw_uid, -1)
    done = up(data)
    assert (done.returncode, "chown root" in done.stderr) == (1, True)
    assert stat.S_IMODE((tmp_path / "root-s").stat().st_mode) == 0o644


@needs_root
def test_a_pool_below_a_closed_directory_is_refused_and_nothing_is_made_of_it(service: RunningService) -> None:
    """pytest's directories are root's alone: the service sees only its data directory in them."""
    place = service.data.parent / "elsewhere"
    place.mkdir(exist_ok=True)
    body: dict[str, Any] = {"name": "hidden", "directory": str(place / "pool")}
    with service.api() as api:
        reply = api.post("/api/v1/pools", json=body)
    assert reply.status_code == 400
    assert "chmod o+x" in reply.json()["message"]
    assert service.run_cli("pool", "create", "hidden", "--directory", body["directory"]).returncode == 1
    assert list(place.iterdir()) == []


@needs_root
def test_the_api_makes_pools_for_other_owners_through_the_starter(
    service: RunningService, fresh_name: Callable[[str], str]
) -> None:
    name = fresh_name("owned")
    with service.api() as api:
        assert api.post("/api/v1/pools", json={"name": name, "owner": "daemon"}).status_code == 201
        for owner in ("root", "no-such-user"):
            assert api.post("/api/v1/pools", json={"name": fresh_name("bad"), "owner": owner}).status_code == 400
    assert (service.data / "pools" / name).stat().st_uid == pwd.getpwnam("daemon").pw_uid


def ask(address: Path, line: bytes) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        connection.sendall(line)
        return connection.makefile().readline()


@needs_root
def test_the_starter_serves_the_account_and_root_only_and_judges_what_it_is_asked() -> None:
    nobody, account = identity_of(pwd.getpwnam("nobody")), identity_of(service_user())
    with open_place() as place, socket.socket(socket.AF_UNIX) as listener:
        address = place / "s"
        listener.bind(str(address))
        address.chmod(0o777)  # so that the starter itself has to refuse
        listener.listen()
        words = ["--data", str(place / "data"), "--account", account.user, "--fd", str(listener.fileno())]
        command = [sys.executable, "-m", "tidegate.pools.starter", *words]
        starter = subprocess.Popen(command, pass_fds=[listener.fileno()])
        try:
            assert "only tidegate and root may ask" in run_as(nobody, lambda: ask(address, b'{"start": "demo"}\n'))
            for request, why in (
                ({"start": "../evil"}, "pool"),
                (
                    {"pool": "p", "directory": str(place / "data" / "run" / "x"), "owner": "daemon", "group": ""},
                    "overlaps",
                ),
                ({"pool": "p", "directory": "/etc/tidegate-pool", "owner": "daemon", "group": ""}, "install -d"),
                ({"pool": "p", "directory": "", "owner": "root", "group": ""}, "no backend runs as root"),
                ({"pool": "p", "directory": "", "owner": "daemon", "group": "root"}, "not in the group"),
            ):
                answer = run_as(account, lambda request=request: ask(address, json.dumps(request).encode() + b"\n"))
                assert why in json.loads(answer)["error"], request
            assert "error" in json.loads(ask(address, b"not JSON\n"))
        finally:
            starter.kill()
            starter.wait()
