"""A `Store` in memory, for tests that need thousands of buckets. It lists as S3 does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.errors import Conflict, NotFound, TidegateError
from tidegate.core.events import Pairs
from tidegate.core.identities import Identity, holds
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import ListedUpload, ListedVersion, UploadPage, VersionPage
from tidegate.core.xml import Deleted, DeleteEntry, DeleteFailure, DeleteResult
from tidegate.core.xml_writer import iso_time
from tidegate.ports import Look, StoredHead


@dataclass
class MemoryStore:
    """`versions` holds each key's versions, the newest first. `trouble` is raised by the next changes, one each,
    before or after they are made; `refused` are the keys of which deletes fail, with what code. `placed` are the
    requests to record where data lies, answered with `place_outcome`. `metadata` are those of keys."""

    state: Versioning = Versioning.OFF
    versions: dict[str, list[ListedVersion]] = field(default_factory=dict)
    uploads: list[ListedUpload] = field(default_factory=list)
    tag_sets: dict[tuple[str, str], Pairs] = field(default_factory=dict)
    locked: set[tuple[str, str]] = field(default_factory=set)
    trouble: list[tuple[str, TidegateError]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    placed: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)
    place_outcome: str = "placed"
    before_delete: Callable[[], None] = lambda: None
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    _number: int = 0

    def put(
        self, key: str, at: float, *, size: int = 1, version_id: str = "", is_marker: bool = False, etag: str = ""
    ) -> ListedVersion:
        self._number += 1
        if self.state is not Versioning.ENABLED:
            version_id = version_id or "null"
        version = ListedVersion(
            key=key,
            version_id=version_id or f"v{self._number}",
            is_latest=True,
            is_marker=is_marker,
            last_modified=at,
            etag="" if is_marker else etag or f"e{self._number}",
            size=0 if is_marker else size,
            storage_class="STANDARD",
            modified=iso_time(at),
        )
        older = [entry for entry in self.versions.get(key, []) if entry.version_id != version.version_id]
        self.versions[key] = [version, *(entry._replace(is_latest=False) for entry in older)]
        return version

    # --- the port --------------------------------------------------------------------------------

    def versioning(self, bucket: str) -> Versioning:
        return self.state

    def locks_objects(self, bucket: str) -> bool:
        return bool(self.locked)

    def list_versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str = "",
        limit: int = 1000,
    ) -> VersionPage:
        self.requests.append("list")
        entries: list[tuple[str, ListedVersion | None]] = []
        for key in sorted(key for key in self.versions if key.startswith(prefix)):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            common = key[: end + len(delimiter)] if end >= 0 else ""
            if not common:
                entries += [(key, version) for version in self._after(key, key_marker, version_id_marker)]
            elif common > key_marker and (common, None) not in entries:
                entries.append((common, None))
        page, is_truncated = entries[:limit], len(entries) > limit
        last = page[-1] if is_truncated else ("", None)
        return VersionPage(
            versions=tuple(version for _, version in page if version is not None),
            prefixes=tuple(name for name, version in page if version is None),
            is_truncated=is_truncated,
            next_key=last[0],
            next_version_id=last[1].version_id if last[1] is not None else "",
        )

    def _after(self, key: str, key_marker: str, version_id_marker: str) -> list[ListedVersion]:
        """All versions where the marked one is gone, as the gateway does."""
        if key > key_marker:
            return self.versions[key]
        if key != key_marker or not version_id_marker:
            return []
        ids = [entry.version_id for entry in self.versions[key]]
        return self.versions[key][ids.index(version_id_marker) + 1 if version_id_marker in ids else 0 :]

    def list_uploads(
        self, bucket: str, *, prefix: str = "", key_marker: str = "", upload_id_marker: str = "", limit: int = 1000
    ) -> UploadPage:
        self.requests.append("list uploads")
        found = [
            upload
            for upload in sorted(self.uploads, key=lambda upload: (upload.key, upload.upload_id))
            if upload.key.startswith(prefix) and (upload.key, upload.upload_id) > (key_marker, upload_id_marker)
        ]
        page = tuple(found[:limit])
        is_truncated = len(found) > limit
        last = page[-1] if is_truncated else ListedUpload("", "", 0)
        return UploadPage(page, is_truncated, last.key, last.upload_id)

    def tags(self, bucket: str, key: str, version_id: str = "") -> Pairs:
        self.requests.append("tags")
        if key not in self.versions:
            raise NotFound(key)
        return self.tag_sets.get((key, version_id or self.versions[key][0].version_id), ())

    def look(self, bucket: str, key: str, version_id: str = "") -> Look | None:
        found = self._find(key, version_id)
        if found is None or found.is_marker:
            return None
        return Look(found.etag, found.modified, found.size, legal_hold=(key, found.version_id) in self.locked)

    def head(self, bucket: str, key: str, version_id: str = "") -> StoredHead | None:
        self.requests.append("head")
        found = self._find(key, version_id) if key in self.versions else None
        if found is None or found.is_marker:
            return None
        return StoredHead({"etag": f'"{found.etag}"', **self.metadata.get(key, {})})

    def delete(self, bucket: str, entry: DeleteEntry, *, only_marker: bool = False) -> None:
        with_trouble = self._begin("delete")
        found = self._find(entry.key, entry.version_id)
        is_object = found is not None and not found.is_marker
        if self._is_promoted(entry) or (is_object if only_marker else not self._is_meant(entry)):
            raise Conflict(entry.key)
        self._remove(entry)
        with_trouble()

    def delete_many(self, bucket: str, entries: Sequence[DeleteEntry]) -> DeleteResult:
        with_trouble = self._begin(f"delete {len(entries)}")
        self.before_delete()
        deleted, failures = [], []
        for entry in entries:
            if entry.key in self.refused:
                failures.append(DeleteFailure(entry.key, entry.version_id, self.refused[entry.key], ""))
            elif not self._is_meant(entry):
                failures.append(DeleteFailure(entry.key, entry.version_id, "PreconditionFailed", ""))
            else:
                self._remove(entry)
                deleted.append(Deleted(entry.key, entry.version_id))
        with_trouble()
        return DeleteResult(tuple(deleted), tuple(failures))

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        with_trouble = self._begin("abort")
        left = [upload for upload in self.uploads if (upload.key, upload.upload_id) != (key, upload_id)]
        if len(left) == len(self.uploads):
            raise NotFound(upload_id)
        self.uploads = left
        with_trouble()

    def place(self, bucket: str, key: str, version_id: str, request: Mapping[str, object]) -> dict[str, Any]:
        with_trouble = self._begin("place")
        self.placed.append((key, version_id, dict(request)))
        with_trouble()
        return {"outcome": self.place_outcome, "reason": ""}

    def close(self) -> None:
        pass

    # --- parts -----------------------------------------------------------------------------------

    def _begin(self, request: str) -> Callable[[], None]:
        self.requests.append(request)
        when, error = self.trouble.pop(0) if self.trouble else ("", None)
        if when == "before" and error is not None:
            raise error

        def after() -> None:
            if error is not None:
                raise error

        return after

    def _find(self, key: str, version_id: str) -> ListedVersion | None:
        versions = self.versions.get(key, [])
        return next((entry for entry in versions if entry.version_id == (version_id or versions[0].version_id)), None)

    def _is_meant(self, entry: DeleteEntry) -> bool:
        if self._is_promoted(entry):
            return False
        if entry._replace(noncurrent=False) == DeleteEntry(entry.key, entry.version_id):
            return True
        found = self._find(entry.key, entry.version_id)
        if found is None or found.is_marker:
            return False
        return holds(entry, Identity(found.etag, found.size, found.last_modified))

    def _is_promoted(self, entry: DeleteEntry) -> bool:
        """Whether a version that is meant as a noncurrent one is current."""
        found = self._find(entry.key, entry.version_id)
        return entry.noncurrent and found is not None and found.is_latest

    def _remove(self, entry: DeleteEntry) -> None:
        if not entry.version_id and self.state is not Versioning.OFF:
            self.put(entry.key, 0.0, is_marker=True)
            return
        versions = self.versions.get(entry.key, [])
        doomed = entry.version_id or "null"
        left = [found for found in versions if found.version_id != doomed]
        self.versions[entry.key] = [left[0]._replace(is_latest=True), *left[1:]] if left else []
        if not left:
            self.versions.pop(entry.key)
