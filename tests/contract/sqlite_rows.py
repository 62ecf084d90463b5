"""What a SQLite file holds, read behind its adapter's back."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
