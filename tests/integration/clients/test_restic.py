"""restic keeps backups in a bucket: two of them, one forgotten, the other restored byte for byte."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from shell import Shell
from trees import forest, read, write
from ways import MIB, Way


@pytest.fixture
def restic(gateway: Way, fresh_name: Callable[[str], str], tmp_path: Path) -> Shell:
    program = shutil.which("restic")
    assert program, "restic is missing: `make setup` says how to install it"
    bucket = fresh_name("restic")
    gateway.s3().create_bucket(Bucket=bucket)
    return Shell(
        gateway,
        tmp_path,
        program,
        RESTIC_REPOSITORY=f"s3:{gateway.url}/{bucket}/backups",
        RESTIC_PASSWORD="of a test",
    )


def test_restic_backs_up_forgets_prunes_checks_and_restores(restic: Shell, gateway: Way, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    rng = random.Random(1)
    trees = {prefix + path: data for prefix, tree in list(forest().items())[:5] for path, data in tree.files.items()}
    write(source, trees | {"large": rng.randbytes(20 * MIB), "old": rng.randbytes(MIB)})

    restic("init")
    restic("backup", str(source))
    (source / "old").unlink()
    write(source, {"new/file": rng.randbytes(3 * MIB)})
    restic("backup", str(source))
    snapshots = restic.json("snapshots", "--json")
    assert len(snapshots) == 2

    restic("forget", "--keep-last", "1", "--prune")
    assert [snapshot["id"] for snapshot in restic.json("snapshots", "--json")] == [snapshots[1]["id"]]
    restic("check", "--read-data")
    restic("restore", "latest", "--target", str(target))
    assert read(target / source.relative_to("/")) == read(source)
    # Every command removed its lock when it was done.
    bucket = restic.environment["RESTIC_REPOSITORY"].split("/")[3]
    page = gateway.s3().list_objects_v2(Bucket=bucket, Prefix="backups/", Delimiter="/")
    assert [entry["Prefix"].split("/")[1] for entry in page["CommonPrefixes"]] == ["data", "index", "keys", "snapshots"]
