"""Reading all entries of the tables that begin with a prefix, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.ports import Tables

_PAGE = 1000


def every(tables: Tables, prefix: str) -> Iterator[tuple[str, str]]:
    """Keys and values, in the order of the keys. A page that is not full is the last one."""
    after: str | None = None
    while True:
        page = tables.scan(prefix, after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1][0]
