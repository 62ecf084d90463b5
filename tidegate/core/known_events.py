"""What the metadata log has about one key, or about a bucket itself, beside which a store's listing is held."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.events import NULL_VERSION, Event, EventKind, Pairs

_OF_VERSIONS = (EventKind.PUT, EventKind.DELETE_MARKER, EventKind.DELETE)
_NS = 1_000_000_000


class KnownEvents:
    """Built from the events in the order of their times."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._versions: dict[str, Event] = {}
        self._tags: dict[str, Pairs] = {}
        self._uploads: dict[str, bool] = {}
        self._current: str | None = None
        self.attributes: dict[str, str] = {}
        for event in sorted(events, key=lambda event: event.ts_ns):
            self._add(event)

    def _add(self, event: Event) -> None:
        version_id = event.version_id or NULL_VERSION
        if event.operation in _OF_VERSIONS:
            self._versions[version_id] = event
            self._tags.pop(version_id, None)
        if event.operation is EventKind.PUT:
            self._tags[version_id] = event.tags
        if event.operation in (EventKind.PUT, EventKind.DELETE_MARKER):
            self._current = version_id
        elif event.operation is EventKind.DELETE and version_id == self._current:
            self._current = None
        elif event.operation is EventKind.TAGGING:
            tagged = event.version_id or self._current
            if tagged is None:  # a current version of which nothing is known here: any may have got them
                self._tags.clear()
            else:
                self._tags[tagged] = event.tags
        if event.upload_id:
            self._uploads[event.upload_id] = event.operation is EventKind.UPLOAD_STARTED
        self.attributes.update(event.attributes)

    def may_have(self, version_id: str) -> bool:
        """Whether the last that is known of the version is that it was made. A named version is never made twice."""
        last = self._versions.get(version_id or NULL_VERSION)
        return last is not None and last.operation is not EventKind.DELETE

    def has_null_version(self, operation: EventKind, etag: str, modified: float) -> bool:
        """Whether the null version, which is made again and again, is known as the store shows it. `modified` is the
        store's time, without what is below a second."""
        last = self._versions.get(NULL_VERSION)
        if last is None or last.operation is not operation or last.ts_ns < modified * _NS:
            return False
        return operation is EventKind.DELETE_MARKER or last.etag == etag

    def has_deletion(self, version_id: str) -> bool:
        last = self._versions.get(version_id or NULL_VERSION)
        return last is not None and last.operation is EventKind.DELETE

    def has_tags(self, version_id: str, tags: Pairs) -> bool:
        known = self._tags.get(version_id or NULL_VERSION)
        return known is not None and sorted(known) == sorted(tags)

    def has_upload(self, upload_id: str, *, is_open: bool) -> bool:
        return self._uploads.get(upload_id) is is_open
