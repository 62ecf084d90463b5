"""The cursors of buckets in the tables: one entry per bucket, for all of its shards."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.cursors import CURSORS, Cursor, cursors_from_json, cursors_to_json
from tidegate.ports import Tables

logger = logging.getLogger(__name__)


class CursorStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def load(self, bucket_uid: str) -> dict[int, Cursor]:
        """By shard. Without its cursors a bucket starts cold, which is slow and always right."""
        text = self._tables.get(CURSORS + bucket_uid)
        if text is None:
            return {}
        try:
            return cursors_from_json(text)
        except InvalidInput as error:
            logger.error("bucket %s is walked as if for the first time: %s", bucket_uid, error)
            return {}

    def save(self, bucket_uid: str, cursors: Mapping[int, Cursor]) -> None:
        self._tables.put(CURSORS + bucket_uid, cursors_to_json(cursors.values()))
