"""Listing names in S3's order, by pages of a store that has an order of its own.

S3 lists keys in the order of their bytes. A store that keeps objects in directories walks these instead: what is in
the folder `a/` comes right after `a`, before `a b`, `a-b` and `a.b`. Going on from the marker `a-b` it does not come
back to `a/`; going on from `a` it may not enter `a/`, and from `a/x` it may leave out `a-b`. Some stores keep the
versions of `a` in the directory `a.versions`, so that `a` comes after `a-b`; and some sort a page before they cut it.

Only what is certain in either order is taken from a page. In a page that is not truncated, everything is. In a
truncated page, let `last` be the name that the store came to last. All that it has not shown comes after `last` in its
own order, and so before a shown name in S3's order only in three cases:

- The folder `p/` was shown, and `last` is in it or is `p` and a character before the slash: names such as `p-x` may
  follow. The folder is put off until they have been told. A folder that `last` is in is put off only if a look shows
  that there are such names, and never if S3's order has entered it already.
- A versioned key that `last` continues may follow, in the place of its directory. It is asked for by itself.
- The page was sorted before it was cut. Then a folder that was to be put off may not have been shown at all.

The generators here yield what is to be asked and are sent the answer, so that callers with and without an event loop
go the same way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tidegate.core.errors import Unavailable
from tidegate.core.key_versions import VERSIONS_FOLDER, directory_order

SLASH = "/"
# After every name that goes on from here. Names that go on with even more of it are shown once more, and dropped.
PAST = "\U0010ffff" * 8
# `p` with this comes after what is in the folder `p/` in the store's order, and before `p` with any other character.
_PAST_FOLDER = "\x01"
# The last character before the slash.
_BEFORE_SLASH = "."
# A look whether there is anything needs no more entries.
_LOOK = 2
# Entries of a page of which mostly one is needed.
_FEW = 50


@dataclass(frozen=True, slots=True)
class StoreOrder:
    """What a listing of a bucket is like. `has_versions`: keys may stand where their directories of versions stand.
    `cuts_sorted`: a page is sorted before it is cut."""

    has_versions: bool
    cuts_sorted: bool


class PageQuery(NamedTuple):
    """A page of the store's listing. The answer is a `NamePage`."""

    prefix: str
    marker: str
    delimiter: str
    limit: int


class KeyQuery(NamedTuple):
    """One key by itself. The answer is its entry, or None where there is no such key."""

    key: str


class FolderQuery(NamedTuple):
    """Whether there is anything in these folders. The answer is a list of truths."""

    folders: Sequence[str]


class Found(NamedTuple):
    """The next name in S3's order, and its entry; a common prefix has none. There is no answer to it."""

    name: str
    entry: Any


@dataclass(frozen=True, slots=True)
class NamePage:
    """Keys with their entries in the store's order, and what a delimiter rolled up."""

    keys: Mapping[str, Any]
    prefixes: Sequence[str] = ()
    is_truncated: bool = False


Question = PageQuery | KeyQuery | FolderQuery | Found
Listing = Generator[Question, Any, None]


def list_in_order(
    order: StoreOrder,
    prefix: str,
    *,
    after: str = "",
    limit: int,
    rolled: bool = False,
    hidden: Iterable[str] | None = None,
) -> Listing:
    """The names that begin with `prefix` and come after `after`, each once; `rolled`: with folders as single names.

    `hidden` are the folders after `after` that a store does not enter which goes on from there, if they are known.
    """
    if after and not after.startswith(prefix):
        if after > prefix:
            return _nothing()
        after = ""
    if hidden is None:
        hidden = hidden_folders(prefix, after, rolled=rolled)
    return _Walk(order, prefix, after, max(limit, _LOOK), rolled, hidden).run()


def _nothing() -> Listing:
    yield from ()


def list_rolled_up(
    order: StoreOrder,
    prefix: str,
    delimiter: str,
    *,
    after: str = "",
    limit: int,
    shown: Callable[[Listing], Listing],
) -> Listing:
    """The same with a delimiter: names that have it after the prefix are one common prefix, which ends with it.

    Where `after` is within such names, their prefix is listed if more of them follow; `after` + `PAST` passes over all.
    `shown` leaves out of a listing what is not to be seen.
    """
    if delimiter != SLASH:
        yield from _list_rolled_by(order, prefix, delimiter, after, shown)
        return
    slash = after.find(SLASH, len(prefix))
    if after.startswith(prefix) and slash >= 0 and not after.endswith(PAST):
        folder = after[: slash + 1]
        if (yield from _has_any(shown(list_in_order(order, folder, after=after, limit=_FEW)))):
            yield Found(folder, None)
        after = folder + PAST
    yield from shown(list_in_order(order, prefix, after=after, limit=limit, rolled=True))


def _list_rolled_by(
    order: StoreOrder, prefix: str, delimiter: str, after: str, shown: Callable[[Listing], Listing]
) -> Listing:
    """For delimiters that no store has folders for: after each common prefix the listing begins anew behind it."""
    listing, answer = shown(list_in_order(order, prefix, after=after, limit=_FEW)), None
    while True:
        try:
            question = listing.send(answer)
        except StopIteration:
            return
        if isinstance(question, Found) and (end := question.name.find(delimiter, len(prefix))) >= 0:
            common = question.name[: end + len(delimiter)]
            yield Found(common, None)
            listing, answer = shown(list_in_order(order, prefix, after=common + PAST, limit=_FEW)), None
        else:
            answer = yield question


def _has_any(listing: Listing) -> Generator[Question, Any, bool]:
    answer = None
    while True:
        try:
            question = listing.send(answer)
        except StopIteration:
            return False
        if isinstance(question, Found):
            return True
        answer = yield question


def current_objects(listing: Listing) -> Listing:
    """Of a listing whose entries are versions, the newest first: keys whose newest version is an object, with that."""
    answer = None
    while True:
        try:
            question = listing.send(answer)
        except StopIteration:
            return
        if not isinstance(question, Found) or question.entry is None:
            answer = yield question
            continue
        answer = None
        if not question.entry[0].is_marker:
            yield Found(question.name, question.entry[0])


def hidden_folders(prefix: str, name: str, *, rolled: bool = False) -> list[str]:
    """The folders that may come after the name, and that a store does not enter which goes on from it."""
    folders = passed_folders(prefix, name, rolled=rolled)
    is_inside = rolled and SLASH in name[len(prefix) :]
    return folders if is_inside or not name or name.endswith((SLASH, PAST)) else [*folders, name + SLASH]


def passed_folders(prefix: str, name: str, *, rolled: bool = False) -> list[str]:
    """The folders that come after the name, and before it in the store's order: `p/` for `p-x`."""
    slash = name.find(SLASH, len(prefix)) if rolled else -1
    return [
        name[:place] + SLASH
        for place in range(max(len(prefix), 1), len(name) if slash < 0 else slash)
        if name[place] < SLASH and name[place - 1] != SLASH
    ]


def open_folders(prefix: str, name: str) -> list[str]:
    """The folders below the prefix that the name is in, the outermost first."""
    return [name[: place + 1] for place in range(len(prefix), len(name)) if name[place] == SLASH]


def late_keys(prefix: str, last: str) -> list[str]:
    """The keys that `last` continues and whose directories of versions come after it in the store's order."""
    return [
        last[:place]
        for place in range(max(len(prefix), 1), len(last))
        if last[place - 1] != SLASH and directory_order(last[place:]) < VERSIONS_FOLDER.encode()
    ]


def has_earlier_siblings(folder: str) -> Generator[Question, Any, bool]:
    """Whether there are names such as `p-x` beside the folder `p/`, which come before it in S3's order."""
    stem = folder.removesuffix(SLASH)
    page: NamePage = yield PageQuery(stem, stem + _PAST_FOLDER, "", _LOOK)
    others = [name for name in page.keys if name.startswith(stem) and name != stem]
    if not others:
        return page.is_truncated  # all that it shows is the key `p`: nothing is certain
    return any(name[len(stem)] < SLASH for name in others)


def certain_if_alone(prefix: str, after: str, names: Sequence[str], *, is_truncated: bool) -> list[str] | None:
    """Of a page of keys without versions: the folders that must have no earlier siblings for all but the last of its
    names to be the next ones in S3's order; None if they are not."""
    if not names:
        return None if is_truncated else []
    if names[0] <= after or not (names[0].startswith(prefix) and names[-1].startswith(prefix)):
        return None
    if any(name >= following for name, following in pairwise(names)):
        return None
    if not is_truncated:
        return []
    if len(names) < _LOOK:
        return None
    return [
        folder
        for folder in open_folders(prefix, names[-1])
        if names[-2].startswith(folder) and not after.startswith(folder)
    ]


def _place(name: str) -> tuple[bytes, str]:
    """In the store's order, in which a folder comes after a key of its name."""
    return directory_order(name), name


class _Walk:
    """`told` is how far S3's order has come, and `marker` how far the store's has. `folders` are put off, in their
    order; of the `entered` ones it is known that nothing beside them comes first."""

    def __init__(
        self, order: StoreOrder, prefix: str, after: str, limit: int, rolled: bool, hidden: Iterable[str]
    ) -> None:
        self._order = order
        self._prefix = prefix
        self._limit = limit
        self._rolled = rolled
        self._told = after
        self._marker = after
        self._folders = sorted(hidden)
        self._entered: set[str] = set()

    def run(self) -> Listing:
        delimiter = SLASH if self._rolled else ""
        while True:
            page: NamePage = yield PageQuery(self._prefix, self._marker, delimiter, self._limit)
            names: dict[str, Any] = {key: entry for key, entry in page.keys.items() if key.startswith(self._prefix)}
            names |= dict.fromkeys(folder for folder in page.prefixes if folder.startswith(self._prefix))
            if self._rolled and self._prefix in names:
                yield from self._check_own_folder(names)
            if not page.is_truncated:
                yield from self._tell(names, self._folders)
                return
            if not names:
                raise Unavailable(f"the store's listing of {self._prefix!r} does not go on, and does not end")
            last = max(names, key=_place)
            if last > self._told:
                yield from self._tell_part(names, last)
            else:
                yield from self._pass_siblings(names, last)

    def _check_own_folder(self, names: dict[str, Any]) -> Listing:
        """Asked for what is in a folder, a store may show the folder itself, though no such object was ever put."""
        entry = yield KeyQuery(self._prefix)
        if entry is None:
            del names[self._prefix]
        else:
            names[self._prefix] = entry

    # --- what a truncated page tells -------------------------------------------------------------

    def _tell_part(self, names: dict[str, Any], last: str) -> Listing:
        self._put_off_unfinished(names, last)
        for folder in open_folders(self._prefix, last):
            if self._told.startswith(folder) or folder in self._entered:
                continue
            stem = folder.removesuffix(SLASH)
            if self._rolled or (yield from has_earlier_siblings(folder)):
                yield from self._tell_before(names, last, stem, inclusive=True)
                self._put_off(folder)
                self._go_on(stem + _PAST_FOLDER)
                return
            self._entered.add(folder)
        yield from self._tell_before(names, last, last, inclusive=False)
        before = max((name for name in names if name != last), key=_place, default="")
        if before and _place(before) > _place(self._marker):
            if last.startswith(before + SLASH):
                self._put_off(before + SLASH)
            put_off = next((folder for folder in self._folders if before.startswith(folder)), "")
            # Some stores leave out what comes before the marker in S3's order, too.
            self._go_on(put_off.removesuffix(SLASH) + _PAST_FOLDER if put_off else before)
            return
        # The page shows nothing but versions of one key.
        entry = yield KeyQuery(last)
        yield from self._tell({last: entry} if entry is not None else {}, [])
        self._told = max(self._told, last)
        self._put_off(last + SLASH)
        self._go_on(last)

    def _pass_siblings(self, names: dict[str, Any], last: str) -> Listing:
        """The store has come to names that S3's order has passed: those beside the folder in which it is."""
        for folder in open_folders(self._prefix, self._told):
            stem = folder.removesuffix(SLASH)
            if last != stem and last.startswith(stem) and last[len(stem)] < SLASH:
                inside = {name: entry for name, entry in names.items() if name.startswith(folder)}
                yield from self._tell(inside, self._due_folders(folder + PAST))
                self._told = folder + PAST
                self._go_on(stem + _BEFORE_SLASH + PAST)
                return
        # Versioned keys that were told before, in the places of their directories.
        self._go_on(last + VERSIONS_FOLDER)

    def _put_off_unfinished(self, names: Iterable[str], last: str) -> None:
        """Folders beside which more names may follow that come before them in S3's order."""
        for folder in passed_folders(self._prefix, last, rolled=self._rolled):
            is_shown = any(name.startswith(folder) for name in names)
            if folder > self._told and (is_shown or self._order.cuts_sorted):
                self._put_off(folder)

    def _tell_before(self, names: dict[str, Any], last: str, bound: str, *, inclusive: bool) -> Listing:
        """All that comes before the bound, in which nothing is missing but late keys."""
        part = {name: entry for name, entry in names.items() if name < bound or (inclusive and name == bound)}
        if self._order.has_versions:
            for key in late_keys(self._prefix, last):
                if self._told < key and (key < bound or (inclusive and key == bound)):
                    part.pop(key, None)
                    entry = yield KeyQuery(key)
                    if entry is not None:
                        part[key] = entry
        yield from self._tell(part, self._due_folders(bound))

    # --- telling ---------------------------------------------------------------------------------

    def _tell(self, names: dict[str, Any], folders: Sequence[str]) -> Listing:
        """The names and the folders that were put off, in order; not what was told before, or is to be told later."""
        later = tuple(self._folders)
        due = {*folders, *(name for name in names if not name.startswith(later))}
        in_order = sorted(name for name in due if name > self._told)
        self._folders = [folder for folder in self._folders if folder not in folders]
        if self._rolled:
            in_order = yield from self._without_ghosts(in_order)
        put_off = frozenset(folders)
        for name in in_order:
            if name <= self._told:  # it is in a folder that was told as a whole just now
                continue
            if name in put_off and not self._rolled:
                yield from list_in_order(self._order, name, limit=self._limit)
                self._told = name + PAST
            else:
                yield Found(name, names.get(name))
                self._told = name + PAST if self._is_rolled_up(name) else name

    def _without_ghosts(self, names: list[str]) -> Generator[Question, Any, list[str]]:
        """Stores keep folders for a while after the last key in them was deleted."""
        folders = [name for name in names if self._is_rolled_up(name)]
        if not folders:
            return names
        answers: list[bool] = yield FolderQuery(folders)
        ghosts = {folder for folder, is_there in zip(folders, answers, strict=True) if not is_there}
        return [name for name in names if name not in ghosts]

    def _is_rolled_up(self, name: str) -> bool:
        return self._rolled and SLASH in name[len(self._prefix) :]

    # --- going on --------------------------------------------------------------------------------

    def _put_off(self, folder: str) -> None:
        if folder not in self._folders:
            insort(self._folders, folder)

    def _due_folders(self, bound: str) -> list[str]:
        return self._folders[: bisect_left(self._folders, bound)]

    def _go_on(self, marker: str) -> None:
        if self._marker and _place(marker) <= _place(self._marker):
            raise Unavailable(f"the store's listing of {self._prefix!r} does not go on from {self._marker!r}")
        self._marker = marker
