"""A store in memory that lists as one does that keeps objects in directories, for the tests of listings in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.core.key_versions import VERSIONS_FOLDER
from tidegate.core.ordered_listing import FolderQuery, Found, KeyQuery, Listing, NamePage, PageQuery, StoreOrder

PLAIN = StoreOrder(has_versions=False, cuts_sorted=False)


def position(name: str) -> bytes:
    return name.encode().replace(b"/", b"\0")


@dataclass
class DirectoryStore:
    """`versioned` keys stand where their directories of versions stand. `ghosts` are folders without keys.

    A listing that is sorted before it is cut goes by keys, too: it leaves out what comes before the marker in S3's
    order. The other one does not enter a folder of the marker's name.
    """

    keys: set[str]
    versioned: set[str] = field(default_factory=set)
    ghosts: set[str] = field(default_factory=set)
    order: StoreOrder = PLAIN
    asked: list[object] = field(default_factory=list)

    def answer(self, question: object) -> object:
        self.asked.append(question)
        if isinstance(question, KeyQuery):
            return question.key if question.key in self.keys else None
        if isinstance(question, FolderQuery):
            return [any(key.startswith(folder) for key in self.keys) for folder in question.folders]
        assert isinstance(question, PageQuery)
        return self.page(question)

    def page(self, query: PageQuery) -> NamePage:
        marker = position(query.marker)
        shown: list[str] = []
        for place, name in self._walked(query):
            is_wanted = name.startswith(query.prefix) and place > marker and name != query.marker
            if self.order.cuts_sorted:
                is_left_out = name < query.marker
            else:
                is_left_out = bool(query.marker) and place.startswith(marker + b"\0")
            if is_wanted and not is_left_out and name not in shown:
                shown.append(name)
        is_truncated = len(shown) > query.limit
        if self.order.cuts_sorted:
            shown = sorted(shown[: query.limit + 1])
        shown = shown[: query.limit]
        prefixes = [name for name in shown if query.delimiter and name.endswith("/") and name != query.prefix]
        return NamePage({name: name for name in shown if name not in prefixes}, prefixes, is_truncated)

    def _walked(self, query: PageQuery) -> Iterator[tuple[bytes, str]]:
        """Places and names in the order of directories, rolled up if that is asked for."""
        places = {(self._place(key), key) for key in self.keys}
        if not query.delimiter:
            return iter(sorted(places))
        rolled: set[tuple[bytes, str]] = set()
        for place, name in [*places, *((position(ghost), ghost) for ghost in self.ghosts)]:
            end = name.find("/", len(query.prefix))
            is_below = name.startswith(query.prefix) and end >= 0
            if is_below:
                rolled.add((position(name[:end]), name[: end + 1]))
            elif name in self.keys or name == query.prefix:
                rolled.add((place, name))
        return iter(sorted(rolled))

    def _place(self, key: str) -> bytes:
        return position(key.removesuffix("/") + VERSIONS_FOLDER if key in self.versioned else key.removesuffix("/"))


def names(store: DirectoryStore, listing: Listing, most: int | None = None) -> list[str]:
    found: list[str] = []
    answer: object = None
    while most is None or len(found) < most:
        try:
            question = listing.send(answer)
        except StopIteration:
            break
        if isinstance(question, Found):
            found.append(question.name)
            answer = None
        else:
            answer = store.answer(question)
    return found


def rolled_up(keys: Iterable[str], prefix: str, after: str) -> list[str]:
    """What S3 answers with the delimiter `/`."""
    found: dict[str, None] = {}
    for key in sorted(keys):
        if key.startswith(prefix) and key > after:
            end = key.find("/", len(prefix))
            found[key if end < 0 else key[: end + 1]] = None
    return list(found)
