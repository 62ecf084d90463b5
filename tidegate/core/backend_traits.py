"""Which keys and buckets a backend keeps under their own names, and other things that only some can do.

A store that maps keys to directories gives some keys another name or hides them: `a//b` becomes `a/b`, and deleting
the one deletes the other. Such a key is refused at the door, since the log and the listing would disagree.
"""

from __future__ import annotations

from tidegate.core.xml_writer import can_hold

# What SeaweedFS keeps beside the objects: versions of KEY in KEY.versions/, parts of uploads in .uploads/.
_VERSIONS_SUFFIX = ".versions/"
_UPLOADS = ".uploads"
# Paths at which SeaweedFS tells whether it is alive, in place of the listing of a bucket of that name.
_SEAWEEDFS_PATHS = frozenset({"healthz", "readyz", "status"})


def key_problem(backend: str, key: str) -> str:
    """Why the backend cannot hold an object of this name; "" when it can."""
    if "." in key and not {".", ".."}.isdisjoint(key.split("/")):
        return "a segment of the key is . or .."
    if backend == "seaweedfs":
        return _seaweedfs_problem(key)
    return ""


def _seaweedfs_problem(key: str) -> str:
    if "\\" in key:
        return "the key has a backslash, which this pool's store takes for a slash"
    if not can_hold(key):
        return "the key has a character that XML 1.0 cannot hold, which this pool's store lists as another one"
    if "//" in key or key.startswith("/"):
        return "the key has an empty segment, which this pool's store leaves out"
    if "." in key:
        if _UPLOADS in key and _UPLOADS in key.split("/"):
            return "the key has the segment .uploads, which this pool's store keeps for itself"
        if _VERSIONS_SUFFIX in key:
            return "a folder's name in the key ends in .versions, which this pool's store keeps for itself"
    return ""


def prefix_problem(backend: str, prefix: str) -> str:
    """Why no object's name can begin with this; "" when one can."""
    folders, slash, _ = prefix.rpartition("/")
    return key_problem(backend, f"{folders}{slash}x") if slash or "\\" in prefix else ""


def bucket_problem(backend: str, name: str) -> str:
    """Why the backend cannot have a bucket of this name; "" when it can."""
    if backend == "seaweedfs" and name in _SEAWEEDFS_PATHS:
        return f"this pool's store keeps the name {name} for itself"
    return ""


def body_problem(backend: str, key: str, size: int) -> str:
    """Why an object of this name cannot have that much data; "" when it can."""
    if backend == "seaweedfs" and size and key.endswith("/"):
        return "the key ends in a slash: this pool's store takes it for a folder and would drop the data"
    return ""


def merges_folders(backend: str) -> bool:
    """Whether a key and the same key with a slash are one thing, so that putting `a/` would replace `a`."""
    return backend == "seaweedfs"


def keeps_null_markers(backend: str) -> bool:
    """Whether a delete marker of the null version cannot be removed: the store says it did, and keeps it."""
    return backend == "seaweedfs"


def has_encryption_keys(backend: str) -> bool:
    """Whether the store can encrypt objects with keys that are not the client's. Without a key service SeaweedFS fails,
    keeps what nobody can read, or keeps the data as it is."""
    return backend != "seaweedfs"
