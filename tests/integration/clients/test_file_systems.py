"""pyarrow's and fsspec's file systems: directories made of keys, renamed, walked and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import s3fs
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from ways import MIB, Way

FILES = {"app/x": b"1", "app-old/y": b"22", "app.yaml": b"333", "app b/deep/z": b"4444", "app!": b"", "ü/🌊": b"6"}


@pytest.fixture
def bucket(gateway: Way, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("file-systems")
    gateway.s3().create_bucket(Bucket=name)
    return name


@pytest.fixture
def arrow(gateway: Way) -> S3FileSystem:
    key = gateway.key
    return S3FileSystem(
        access_key=key.access_key,
        secret_key=key.secret_key,
        region="us-east-1",
        scheme="http",
        endpoint_override=gateway.authority,
    )


def test_pyarrow_writes_lists_and_reads_files(arrow: S3FileSystem, bucket: str) -> None:
    _write(arrow, f"{bucket}/top", FILES)
    found = arrow.get_file_info(FileSelector(f"{bucket}/top", recursive=True))
    assert {info.path.removeprefix(f"{bucket}/top/") for info in found if info.is_file} == set(FILES)
    directories = {info.path.removeprefix(f"{bucket}/top/") for info in found if info.type is FileType.Directory}
    assert directories == {"app", "app-old", "app b", "app b/deep", "ü"}
    for name, contents in FILES.items():
        with arrow.open_input_file(f"{bucket}/top/{name}") as stream:
            assert stream.read() == contents


def test_pyarrow_deletes_directories_for_good(arrow: S3FileSystem, bucket: str) -> None:
    arrow.create_dir(f"{bucket}/made/deep", recursive=True)
    assert arrow.get_file_info(f"{bucket}/made/deep").type is FileType.Directory
    _write(arrow, f"{bucket}/top", FILES)
    arrow.delete_dir(f"{bucket}/top")
    arrow.delete_dir(f"{bucket}/made")
    for gone in ("top", "top/app", "top/app b/deep", "made", "made/deep"):
        assert arrow.get_file_info(f"{bucket}/{gone}").type is FileType.NotFound
    assert arrow.get_file_info(FileSelector(bucket, recursive=True)) == []


def test_pyarrow_moves_files(arrow: S3FileSystem, bucket: str) -> None:
    _write(arrow, f"{bucket}/top", FILES)
    for name in FILES:
        arrow.move(f"{bucket}/top/{name}", f"{bucket}/{name}.moved")
        assert arrow.get_file_info(f"{bucket}/top/{name}").type is FileType.NotFound
        with arrow.open_input_file(f"{bucket}/{name}.moved") as stream:
            assert stream.read() == FILES[name]


def test_pyarrow_writes_a_dataset_over_another(arrow: S3FileSystem, bucket: str) -> None:
    parts = ["app", "app-old", "app.yaml", "app b"]
    for count in (4, 2):
        table = pa.table({"part": parts[:count] * 3, "number": list(range(3 * count))})
        ds.write_dataset(
            table,
            f"{bucket}/set",
            format="parquet",
            partitioning=["part"],
            partitioning_flavor="hive",
            existing_data_behavior="delete_matching",
            filesystem=arrow,
        )
    partitioning = ds.partitioning(pa.schema([("part", pa.string())]), flavor="hive")
    rows = ds.dataset(f"{bucket}/set", filesystem=arrow, partitioning=partitioning).to_table().to_pylist()
    numbers = {part: sorted(row["number"] for row in rows if row["part"] == part) for part in parts}
    assert numbers == {"app": [0, 2, 4], "app-old": [1, 3, 5], "app.yaml": [2, 6, 10], "app b": [3, 7, 11]}


def test_pyarrow_writes_and_reads_a_large_file_in_parts(arrow: S3FileSystem, bucket: str) -> None:
    contents = bytes(range(256)) * (24 * MIB // 256)
    with arrow.open_output_stream(f"{bucket}/large") as stream:
        stream.write(contents)
    with arrow.open_input_file(f"{bucket}/large") as file:
        assert file.size() == len(contents)
        file.seek(10 * MIB + 3)
        assert file.read(1000) == contents[10 * MIB + 3 :][:1000]
        file.seek(0)
        assert file.read() == contents


def _write(arrow: S3FileSystem, directory: str, files: dict[str, bytes]) -> None:
    for name, contents in files.items():
        with arrow.open_output_stream(f"{directory}/{name}") as stream:
            stream.write(contents)


@pytest.fixture
def fs(gateway: Way) -> s3fs.S3FileSystem:
    key = gateway.key
    # Nothing is remembered: every question is asked anew.
    return s3fs.S3FileSystem(
        key=key.access_key,
        secret=key.secret_key,
        client_kwargs={"endpoint_url": gateway.url},
        config_kwargs={"s3": {"addressing_style": "path"}, "retries": {"total_max_attempts": 1}},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def test_s3fs_walks_finds_and_globs(fs: s3fs.S3FileSystem, bucket: str) -> None:
    fs.pipe({f"{bucket}/top/{name}": contents for name, contents in FILES.items()})
    assert _walked(fs, f"{bucket}/top") == [
        ("", ["app", "app b", "app-old", "ü"], ["app!", "app.yaml"]),
        ("/app", [], ["x"]),
        ("/app b", ["deep"], []),
        ("/app b/deep", [], ["z"]),
        ("/app-old", [], ["y"]),
        ("/ü", [], ["🌊"]),
    ]
    assert fs.find(f"{bucket}/top") == sorted(f"{bucket}/top/{name}" for name in FILES)
    assert sorted(fs.glob(f"{bucket}/top/app*")) == sorted(
        f"{bucket}/top/{name}" for name in ("app", "app b", "app-old", "app!", "app.yaml")
    )
    assert sorted(fs.glob(f"{bucket}/top/app*/*")) == sorted(
        f"{bucket}/top/{name}" for name in ("app/x", "app-old/y", "app b/deep")
    )
    assert sorted(fs.glob(f"{bucket}/**/z")) == [f"{bucket}/top/app b/deep/z"]
    assert fs.du(f"{bucket}/top") == sum(map(len, FILES.values()))


def test_s3fs_sees_nothing_of_what_was_removed(fs: s3fs.S3FileSystem, bucket: str) -> None:
    fs.pipe({f"{bucket}/top/{name}": contents for name, contents in FILES.items()})
    fs.pipe(f"{bucket}/beside/kept", b"x")
    fs.rm(f"{bucket}/top/app/x")
    assert not fs.exists(f"{bucket}/top/app/x")
    assert not fs.exists(f"{bucket}/top/app")
    assert sorted(fs.ls(f"{bucket}/top", detail=False)) == sorted(
        f"{bucket}/top/{name}" for name in ("app b", "app-old", "app!", "app.yaml", "ü")
    )
    fs.rm(f"{bucket}/top", recursive=True)
    for gone in ("top", "top/app b", "top/app b/deep", "top/app!"):
        assert not fs.exists(f"{bucket}/{gone}")
        assert not fs.isdir(f"{bucket}/{gone}")
    assert fs.ls(bucket, detail=False) == [f"{bucket}/beside"]
    assert _walked(fs, bucket) == [("", ["beside"], []), ("/beside", [], ["kept"])]


def test_s3fs_renames_files_and_directories(fs: s3fs.S3FileSystem, bucket: str) -> None:
    fs.pipe({f"{bucket}/top/{name}": contents for name, contents in FILES.items()})
    fs.mv(f"{bucket}/top/app.yaml", f"{bucket}/top/app.yml")
    assert not fs.exists(f"{bucket}/top/app.yaml")
    assert fs.cat_file(f"{bucket}/top/app.yml") == FILES["app.yaml"]
    # Its `mv` of a directory would ask for an object of the directory's name, which S3 has not.
    fs.copy(f"{bucket}/top", f"{bucket}/moved", recursive=True)
    fs.rm(f"{bucket}/top", recursive=True)
    assert not fs.exists(f"{bucket}/top")
    moved = {name.replace(".yaml", ".yml"): contents for name, contents in FILES.items()}
    found = {path.removeprefix(f"{bucket}/moved/"): fs.cat_file(path) for path in fs.find(f"{bucket}/moved")}
    assert found == moved
    assert fs.ls(bucket, detail=False) == [f"{bucket}/moved"]


def test_s3fs_makes_and_removes_buckets_and_sees_markers_of_directories(
    fs: s3fs.S3FileSystem, gateway: Way, fresh_name: Callable[[str], str]
) -> None:
    bucket = fresh_name("s3fs-made")
    fs.mkdir(bucket)
    assert fs.isdir(bucket)
    fs.touch(f"{bucket}/marked/")
    assert fs.isdir(f"{bucket}/marked")
    # Its `rm` would take the slash away and delete another key.
    gateway.s3().delete_object(Bucket=bucket, Key="marked/")
    assert not fs.exists(f"{bucket}/marked")
    fs.rmdir(bucket)
    assert not fs.exists(bucket)


def _walked(fs: s3fs.S3FileSystem, directory: str) -> list[tuple[str, list[str], list[str]]]:
    walk: Any = fs.walk(directory)
    return sorted((root.removeprefix(directory), sorted(dirs), sorted(files)) for root, dirs, files in walk)
