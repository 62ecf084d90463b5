"""ListObjects, ListObjectsV2, ListObjectVersions and ListMultipartUploads, answered as S3 does: names in the order of
their bytes, every page full, each entry once, and pages that go on where the last one ended, whatever order the store
has. A page that is right as the store gave it costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidegate.core.list_requests import ListRequest, Position, list_request, marked, position_of, token
from tidegate.core.list_results import ListResult
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.core.object_pages import ObjectPage
from tidegate.core.ordered_listing import (
    SLASH,
    Found,
    Listing,
    PageQuery,
    certain_if_alone,
    hidden_folders,
    list_in_order,
    list_rolled_up,
)
from tidegate.core.s3errors import S3Error
from tidegate.gateway.changes.bucket_states import learn_versioning
from tidegate.gateway.operations.list_pages import Moved, ObjectPages, StorePages, VersionPages, as_names, object_pages
from tidegate.gateway.operations.open_uploads import open_uploads
from tidegate.gateway.requests.forwarding import read_bucket

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_XML = {"Content-Type": "application/xml"}

Entry = TypeVar("Entry")


async def list_objects(exchange: Exchange, admission: Admission) -> None:
    request = list_request(admission.parameters, "max-keys")
    marker = admission.parameters.get("marker", "")
    result = _result(exchange, "ListBucketResult", request)
    page = await _objects(exchange, request, marked(request, marker), with_owner=True)
    result.name("Marker", marker)
    if page.following is not None and request.delimiter:
        result.name("NextMarker", page.following.name)
    _answer(exchange, result, request, page, with_owner=True)


async def list_objects_v2(exchange: Exchange, admission: Admission) -> None:
    given = admission.parameters
    request = list_request(given, "max-keys")
    result = _result(exchange, "ListBucketResult", request)
    if "continuation-token" in given:
        start = position_of(given["continuation-token"])
        result.text("ContinuationToken", given["continuation-token"])
    else:
        start = marked(request, given.get("start-after", ""))
    if "start-after" in given:
        result.name("StartAfter", given["start-after"])
    with_owner = given.get("fetch-owner") == "true"
    page = await _objects(exchange, request, start, with_owner=with_owner)
    result.text("KeyCount", page.size)
    if page.following is not None:
        result.text("NextContinuationToken", token(page.following))
    _answer(exchange, result, request, page, with_owner=with_owner)


async def list_object_versions(exchange: Exchange, admission: Admission) -> None:
    given = admission.parameters
    request = list_request(given, "max-keys")
    result = _result(exchange, "ListVersionsResult", request)
    key_marker, version_marker = given.get("key-marker", ""), given.get("version-id-marker", "")
    if version_marker and not key_marker:
        raise S3Error("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
    result.name("KeyMarker", key_marker)
    result.text("VersionIdMarker", version_marker)
    result.text("MaxKeys", request.limit)
    entries: list[tuple[str, ListedVersion | None]] = []
    if request.limit and not _holds_nothing(admission, request.prefix):
        pages = VersionPages(exchange)
        if version_marker and _is_listed_alone(request, key_marker):
            entries += [(key_marker, version) for version in await _rest_of(pages, key_marker, version_marker)]
        start = marked(request, key_marker)
        listing = _listing(pages, request, start, request.limit + 2)
        for found in await pages.collect(listing, request.limit + 1 - len(entries)):
            entries += [(found.name, version) for version in found.entry or (None,)]
    shown = _ended(result, request, entries, "NextVersionIdMarker", lambda version: version.version_id)
    result.versions([version for _, version in shown if version is not None], admission.pool.pool.owner)
    result.prefixes(name for name, version in shown if version is None)
    exchange.answer(200, _XML, result.document())


async def list_multipart_uploads(exchange: Exchange, admission: Admission) -> None:
    given = admission.parameters
    request = list_request(given, "max-uploads")
    result = ListResult("ListMultipartUploadsResult", ("Bucket", admission.bucket_name), request)
    key_marker, upload_marker = given.get("key-marker", ""), given.get("upload-id-marker", "")
    result.name("KeyMarker", key_marker)
    result.text("UploadIdMarker", upload_marker)
    result.text("MaxUploads", request.limit)
    is_empty = not request.limit or _holds_nothing(admission, request.prefix)
    uploads = [] if is_empty else await open_uploads(partial(read_bucket, exchange), request.prefix)
    entries = _rolled_up(request, _after(uploads, marked(request, key_marker), upload_marker))
    shown = _ended(result, request, entries, "NextUploadIdMarker", lambda upload: upload.upload_id)
    result.uploads([upload for _, upload in shown if upload is not None], admission.pool.pool.owner)
    result.prefixes(name for name, upload in shown if upload is None)
    exchange.answer(200, _XML, result.document())


# --- objects -----------------------------------------------------------------------------------------------------


class _ObjectPage(NamedTuple):
    """Entries, perhaps as one piece of text, and common prefixes; how many both are together; and where the next page
    begins, if there is one."""

    size: int = 0
    entries: Sequence[bytes | ListedVersion] = ()
    prefixes: Sequence[str] = ()
    following: Position | None = None


async def _objects(exchange: Exchange, request: ListRequest, start: Position, *, with_owner: bool) -> _ObjectPage:
    if not request.limit or _holds_nothing(exchange.admitted, request.prefix):
        return _ObjectPage()
    await learn_versioning(exchange)
    pages = object_pages(exchange, is_encoded=request.is_encoded, with_owner=with_owner)
    if isinstance(pages, ObjectPages) and not request.delimiter:
        return await _keys(pages, request, start)
    listing = _listing(pages, request, start, request.limit + 2)
    return _cut(request, await pages.collect(listing, request.limit + 1))


async def _keys(pages: ObjectPages, request: ListRequest, start: Position) -> _ObjectPage:
    prefix, after, hidden = request.prefix, start.after, []
    if not after.startswith(prefix):
        if after > prefix:
            return _ObjectPage()
        after = ""
    elif not start.is_clean:
        candidates = hidden_folders(prefix, after)
        answers = await pages.have_any(candidates)
        hidden = [folder for folder, is_there in zip(candidates, answers, strict=True) if is_there]
    query = PageQuery(prefix, after, "", request.limit + 1)
    page = await pages.object_page(query)
    moved = await pages.moved(page)
    if not hidden and await _is_certain(pages, query, page):
        return _as_it_came(page, moved)
    listing = list_in_order(pages.order, prefix, after=after, limit=query.limit, hidden=hidden)
    return _cut(request, await pages.collect(listing, query.limit, (query, as_names(page, moved))))


async def _is_certain(pages: ObjectPages, query: PageQuery, page: ObjectPage) -> bool:
    """Whether the page is right as it came."""
    alone = certain_if_alone(query.prefix, query.marker, page.keys, is_truncated=page.is_truncated)
    return alone is not None and not (alone and await pages.have_earlier_siblings(alone))


def _as_it_came(page: ObjectPage, moved: Moved) -> _ObjectPage:
    """Of a truncated page the last entry only tells that more follows."""
    count = len(page.keys) - page.is_truncated
    entries: Sequence[bytes | ListedVersion] = [page.text_without_last() if page.is_truncated else page.text]
    if moved:
        entries = [moved.get(key, entry) for key, entry in page.entries.items()][:count]
    if not page.is_truncated:
        return _ObjectPage(count, entries)
    last, following = page.keys[-2:]
    position = Position(last, is_clean=not following.startswith(last + SLASH))
    return _ObjectPage(count, entries, following=position)


def _cut(request: ListRequest, found: list[Found]) -> _ObjectPage:
    """Of one name more than is wanted, if there is one."""
    names = found[: request.limit]
    return _ObjectPage(
        len(names),
        [each.entry for each in names if each.entry is not None],
        [each.name for each in names if each.entry is None],
        Position(names[-1].name, names[-1].entry is None) if len(found) > len(names) else None,
    )


def _answer(
    exchange: Exchange, result: ListResult, request: ListRequest, page: _ObjectPage, *, with_owner: bool
) -> None:
    result.text("MaxKeys", request.limit)
    result.truncated(page.following is not None)
    result.objects(page.entries, exchange.admitted.pool.pool.owner if with_owner else "")
    result.prefixes(page.prefixes)
    exchange.answer(200, _XML, result.document())


# --- versions and uploads ----------------------------------------------------------------------------------------


def _ended(
    result: ListResult,
    request: ListRequest,
    entries: list[tuple[str, Entry | None]],
    marker: str,
    id_of: Callable[[Entry], str],
) -> list[tuple[str, Entry | None]]:
    """What of the entries is in the page. Tells where the next one begins, if there is one; prefixes have no entry."""
    shown = entries[: request.limit]
    result.truncated(len(entries) > len(shown))
    if len(entries) > len(shown):
        name, entry = shown[-1]
        result.name("NextKeyMarker", name)
        result.text(marker, id_of(entry) if entry is not None else "")
    return shown


def _is_listed_alone(request: ListRequest, key: str) -> bool:
    """Whether the key is listed, and not rolled up with others."""
    is_rolled_up = request.delimiter and request.delimiter in key[len(request.prefix) :]
    return key.startswith(request.prefix) and not is_rolled_up


async def _rest_of(pages: VersionPages, key: str, version_id: str) -> Sequence[ListedVersion]:
    """The versions after the marked one; all if that is gone, since none may be lost."""
    versions = await pages.entry(key) or []
    places = {version.version_id: place for place, version in enumerate(versions)}
    return versions[places.get(version_id, -1) + 1 :]


def _after(uploads: Sequence[ListedUpload], start: Position, upload_marker: str) -> list[ListedUpload]:
    following = [upload for upload in uploads if upload.key > start.after]
    if not upload_marker or start.is_prefix:
        return following
    of_key = [upload for upload in uploads if upload.key == start.name]
    places = {upload.upload_id: place for place, upload in enumerate(of_key)}
    return of_key[places.get(upload_marker, -1) + 1 :] + following


def _rolled_up(request: ListRequest, uploads: Sequence[ListedUpload]) -> list[tuple[str, ListedUpload | None]]:
    entries: list[tuple[str, ListedUpload | None]] = []
    for upload in uploads:
        end = upload.key.find(request.delimiter, len(request.prefix)) if request.delimiter else -1
        entry = (upload.key, upload) if end < 0 else (upload.key[: end + len(request.delimiter)], None)
        if entry[1] is not None or not entries or entries[-1] != entry:
            entries.append(entry)
    return entries


# --- all of them -------------------------------------------------------------------------------------------------


def _result(exchange: Exchange, root: str, request: ListRequest) -> ListResult:
    return ListResult(root, ("Name", exchange.admitted.bucket_name), request)


def _listing(pages: StorePages, request: ListRequest, start: Position, limit: int) -> Listing:
    if request.delimiter:
        return list_rolled_up(
            pages.order, request.prefix, request.delimiter, after=start.after, limit=limit, shown=pages.shown
        )
    return pages.shown(list_in_order(pages.order, request.prefix, after=start.after, limit=limit))


def _holds_nothing(admission: Admission, prefix: str) -> bool:
    """Stores read prefixes that no key can have as other ones."""
    return bool(admission.pool.traits.prefix_problem(prefix))
