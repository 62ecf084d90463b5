"""What a sync of all trees must do, whichever client makes it: bring both sides together, and then nothing more."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metadata_log import MetadataLog
from shell import Shell
from trees import Tree, forest, read, write
from ways import Way


@dataclass(frozen=True)
class SyncClient:
    """One client with its options. `deletes`: it removes what the source has not.

    `local` and `remote` say how its command line names a directory and a bucket; `{}` is the path or name. `actions`
    reads from its output what it did.
    """

    name: str
    program: str
    options: Callable[[Way], tuple[str, ...]]
    command: tuple[str, ...]
    deletes: bool
    environment: Callable[[Way], dict[str, str]] = lambda way: {}
    local: str = "{}"
    remote: str = "s3://{}"
    remote_source: str = ""
    actions: Callable[[str], list[str]] = str.splitlines

    def shell(self, way: Way, home: Path) -> Shell:
        return Shell(way, home, self.program, *self.options(way), **self.environment(way))

    def up(self, shell: Shell, directory: Path, bucket: str) -> list[str]:
        return self.actions(shell(*self.command, self.local.format(directory), self.remote.format(bucket)))

    def down(self, shell: Shell, bucket: str, directory: Path) -> list[str]:
        source = (self.remote_source or self.remote).format(bucket)
        return self.actions(shell(*self.command, source, self.local.format(directory)))


class Forest:
    """All trees, in a directory and in a bucket that syncs read from."""

    def __init__(self, way: Way, directory: Path) -> None:
        trees = forest()
        self.files = dict(_placed(trees, lambda tree: tree.files))
        self.stale = dict(_placed(trees, lambda tree: tree.stale))
        self.directory = directory
        self.bucket = "syncs-source"
        write(directory, self.files)
        way.s3().create_bucket(Bucket=self.bucket)
        put_all(way.s3(), self.bucket, self.files)


def _placed(trees: Mapping[str, Tree], which: Callable[[Tree], Mapping[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    return ((prefix + path, contents) for prefix, tree in trees.items() for path, contents in which(tree).items())


def put_all(client: Any, bucket: str, files: Mapping[str, bytes]) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda item: client.put_object(Bucket=bucket, Key=item[0], Body=item[1]), files.items()))


def check_up(client: SyncClient, way: Way, log: MetadataLog, forest: Forest, home: Path) -> None:
    """A sync to a bucket, which holds what is stale already if the client deletes."""
    s3, bucket, shell = way.s3(), f"syncs-{client.name}", client.shell(way, home)
    s3.create_bucket(Bucket=bucket)
    if client.deletes:
        put_all(s3, bucket, forest.stale)

    client.up(shell, forest.directory, bucket)
    held = listed(s3, bucket)
    _expect_none("keys differ", differing(etags(forest.files), {entry.key: entry.etag for entry in held}))

    log.news()
    _expect_none("actions of a second sync", client.up(shell, forest.directory, bucket))
    _expect_none("keys were changed", [event.key for event in log.news() if event.bucket == bucket])
    assert listed(s3, bucket) == held, "the listing is another one after a second sync"


def check_down(client: SyncClient, way: Way, log: MetadataLog, forest: Forest, home: Path) -> None:
    """A sync to a directory. It is empty, or holds what is stale if the client deletes."""
    shell, directory = client.shell(way, home), home / "down"
    directory.mkdir()
    if client.deletes:
        write(directory, forest.stale)

    log.news()
    client.down(shell, forest.bucket, directory)
    _expect_none("files differ", differing(forest.files, read(directory)))

    held = _stats(directory)
    _expect_none("actions of a second sync", client.down(shell, forest.bucket, directory))
    _expect_none("files were changed", differing(held, _stats(directory)))
    _expect_none("keys were changed", [event.key for event in log.news() if event.bucket == forest.bucket])


def _expect_none(what: str, found: list[str]) -> None:
    assert not found, f"{what}: {len(found)}, the first {found[:5]}"


@dataclass(frozen=True)
class Listed:
    key: str
    etag: str
    last_modified: Any


def listed(s3: Any, bucket: str, **parameters: Any) -> list[Listed]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **parameters)
    entries = (entry for page in pages for entry in page.get("Contents", []))
    return [Listed(entry["Key"], entry["ETag"].strip('"'), entry["LastModified"]) for entry in entries]


def etags(files: Mapping[str, bytes]) -> dict[str, str]:
    return {key: hashlib.md5(contents, usedforsecurity=False).hexdigest() for key, contents in files.items()}


def differing(wanted: Mapping[str, Any], held: Mapping[str, Any]) -> list[str]:
    """The names that only one side has, or that mean something else at the other."""
    return sorted(name for name in wanted.keys() | held.keys() if wanted.get(name) != held.get(name))


def _stats(directory: Path) -> dict[str, tuple[int, int]]:
    stats = {str(file): file.stat() for file in directory.rglob("*") if file.is_file()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}
