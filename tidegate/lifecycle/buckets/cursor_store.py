"""The cursors of buckets in the tables: one entry per bucket, for all of its shards."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.cursors import CURSORS, Cursor, cursors_from_json, cursors_to_json, set_back
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

    def set_back(self, oldest: Mapping[str, int]) -> None:
        """To before these events, by bucket uid, which are about to be landed. Most are newer than any cursor."""
        for uid, oldest_ns in oldest.items():
            known = self.load(uid)
            moved = set_back(known, oldest_ns)
            if moved != known:
                logger.info("bucket %s: events came late, and what is due is looked for again from their time on", uid)
                self.save(uid, moved)
