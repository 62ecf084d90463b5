"""What a kind of backend can and cannot do: one frozen value for each kind, looked up once per pool.

A store that maps keys to directories gives some keys another name or hides them: `a//b` becomes `a/b`, and deleting
the one deletes the other. Such a key is refused at the door, since the log and the listing would disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.xml_writer import can_hold

# What SeaweedFS keeps beside the objects: versions of KEY in KEY.versions/, parts of uploads in .uploads/.
_VERSIONS_SUFFIX = ".versions/"
_UPLOADS = ".uploads"


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """The defaults describe a store that holds every key under its own name and does all that S3 asks of it.

    `keys_are_paths`: the store keeps objects in directories as SeaweedFS does, so that some keys change their names,
    and a key and the same key with a slash are one thing: putting `a/` would replace `a`.
    `own_buckets` are the names that the store answers in place of a bucket.
    `keeps_null_markers`: a delete marker of the null version cannot be removed; the store says it did, and keeps it.
    `has_encryption_keys`: the store can encrypt objects with keys that are not the client's. Without a key service
    SeaweedFS fails, keeps what nobody can read, or keeps the data as it is.
    """

    keys_are_paths: bool = False
    own_buckets: frozenset[str] = frozenset()
    keeps_null_markers: bool = False
    has_encryption_keys: bool = True

    def key_problem(self, key: str) -> str:
        """Why the backend cannot hold an object of this name; "" when it can."""
        if "." in key and not {".", ".."}.isdisjoint(key.split("/")):
            return "a segment of the key is . or .."
        return _path_problem(key) if self.keys_are_paths else ""

    def prefix_problem(self, prefix: str) -> str:
        """Why no object's name can begin with this; "" when one can."""
        folders, slash, _ = prefix.rpartition("/")
        return self.key_problem(f"{folders}{slash}x") if slash or "\\" in prefix else ""

    def bucket_problem(self, name: str) -> str:
        """Why the backend cannot have a bucket of this name; "" when it can."""
        return f"this pool's store keeps the name {name} for itself" if name in self.own_buckets else ""

    def body_problem(self, key: str, size: int) -> str:
        """Why an object of this name cannot have that much data; "" when it can."""
        if self.keys_are_paths and size and key.endswith("/"):
            return "the key ends in a slash: this pool's store takes it for a folder and would drop the data"
        return ""


_ORDINARY = BackendTraits()
_KNOWN = {
    "seaweedfs": BackendTraits(
        keys_are_paths=True,
        # SeaweedFS tells at these paths whether it is alive, in place of the listing of a bucket of that name.
        own_buckets=frozenset({"healthz", "readyz", "status"}),
        keeps_null_markers=True,
        has_encryption_keys=False,
    ),
}


def traits_of(backend: str) -> BackendTraits:
    """The traits of a kind of backend, by the name that pools have it under."""
    return _KNOWN.get(backend, _ORDINARY)


def _path_problem(key: str) -> str:
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
