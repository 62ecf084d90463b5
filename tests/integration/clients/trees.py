"""Small trees of files whose names lie around `/`, where the order of keys and the order of directories differ.

`app-old/x` comes before `app/x` in S3's order, which is that of the keys' bytes, and after it in a walk through sorted
directories. A client that compares two listings step by step takes such a difference for objects that are missing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COUNT = 50
FEWEST, MOST = 5, 30
_DEEPEST = 3
_STEMS = ["app", "b", "Zoo", "ünï", "日本", "🌊", "_"]
# Bytes below `/`, the first ones above it, and more that a URL or a document writes in another way.
_ENDINGS = ["", "-old", ".yaml", " b", "!", ",x", "+y", "%2F", "'q", "#1", "0", ":c", ";", "=&", "~", "é", "🦀", "Ω.md"]
# Older than any object, so that no client takes a file for newer than the object that was made of it.
_MODIFIED = 1_700_000_000


@dataclass(frozen=True)
class Tree:
    """Files by path. Those that are `stale` are only at the side that a sync writes to, and are to be deleted there."""

    files: Mapping[str, bytes]
    stale: Mapping[str, bytes]


def tree(seed: int) -> Tree:
    rng = random.Random(seed)
    count = FEWEST + seed if seed < 10 else rng.randint(22, MOST)  # together more than one page of a listing
    stems = rng.sample(_STEMS, 2)
    found: dict[str, bytes] = {}
    directories = {"", f"{stems[0]}/", f"{stems[0]}/{stems[1]}/"}
    while len(found) < count:
        _add(rng, stems, found, directories)
    stale = rng.sample(sorted(found), 1 + len(found) // 20)
    return Tree({path: found[path] for path in found if path not in stale}, {path: found[path] for path in stale})


def _add(rng: random.Random, stems: list[str], found: dict[str, bytes], directories: set[str]) -> None:
    """One more file or directory in one of the directories, under a name that is not taken there."""
    directory = rng.choice(sorted(directories))
    path = directory + rng.choice(stems) + rng.choice(_ENDINGS)
    if path in found or f"{path}/" in directories:
        return
    if directory.count("/") < _DEEPEST and rng.random() < 0.4:
        directories.add(f"{path}/")
        path += "/" + rng.choice(stems) + rng.choice(_ENDINGS)
    found[path] = b"" if rng.random() < 0.15 else rng.randbytes(rng.randint(1, 200))


def forest() -> dict[str, Tree]:
    """All trees, by the prefix under which each lies."""
    return {f"tree-{seed:02}/": tree(seed) for seed in range(COUNT)}


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    for path, contents in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
        os.utime(file, (_MODIFIED, _MODIFIED))


def read(directory: Path) -> dict[str, bytes]:
    files = (file for file in directory.rglob("*") if file.is_file())
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}
