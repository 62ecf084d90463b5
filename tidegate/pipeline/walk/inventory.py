"""S3 inventory reports in place of listings: finding a report by its manifest, and whether it can be used.

A report is a snapshot that S3 writes once a day or a week: `manifest.json` names files of rows, in CSV or Parquet, with
their checksums. It lies in a bucket that the walker's key may read, or in a directory.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

from tidegate.core.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate.core.lifecycle.due import SECOND_NS
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.ports import Store

CSV, PARQUET = "CSV", "Parquet"
VERSION_COLUMNS = ("versionid", "islatest", "isdeletemarker")
_NEEDED = {
    "key": "Key",
    "size": "Size",
    "lastmodifieddate": "LastModifiedDate",
    "etag": "ETag",
    "storageclass": "StorageClass",
}
_S3 = "s3://"
# The folder of a report is named for the time at which it was begun.
_STAMP = "%Y-%m-%dT%H-%MZ"
_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
_HOUR_NS = 3600 * SECOND_NS
# S3 does not promise that a report has what was written or deleted right before it was begun.
_SCAN_NS = _HOUR_NS
_LARGEST_MANIFEST = 8 * 1024 * 1024
_CHUNK = 8 * 1024 * 1024
_PARQUET_COLUMN = re.compile(r"\b(?:required|optional)\s+\w+\s+(\w+)")


@dataclass(frozen=True, slots=True)
class ReportFile:
    key: str
    size: int
    md5: str


@dataclass(frozen=True, slots=True)
class Report:
    """`columns` are the names in the order of the file, as `plain_name` writes them. `has_versions` is false for a
    report of current versions only."""

    address: str
    bucket: str
    created_ns: int
    form: str
    columns: tuple[str, ...]
    files: tuple[ReportFile, ...]

    @property
    def has_versions(self) -> bool:
        return all(name in self.columns for name in VERSION_COLUMNS)


@dataclass(frozen=True, slots=True)
class Choice:
    """The report to read, "" if the bucket is to be listed; and why a report that was named is not read. What happened
    before `until_ns` is in the report."""

    address: str = ""
    until_ns: int = 0
    problem: str = ""


def choose(
    inventories: Mapping[str, str],
    bucket: str,
    store: Callable[[], Store],
    *,
    max_age_hours: float,
    now_ns: int,
    log_horizon_ns: int,
) -> Choice:
    """For a bucket, of the reports that the settings name. Whatever is wrong with one, listing is right.

    The log must tell what happened since the report: it is complete from its horizon on.
    """
    address = inventories.get(bucket, "")
    if not address:
        return Choice()
    try:
        opened_store = store()
        address = _newest(address, opened_store, now_ns - round(max_age_hours * _HOUR_NS))
        report = open_report(address, opened_store)
        check(report, bucket, opened_store)
    except TidegateError as error:
        return Choice(problem=str(error))
    until_ns = report.created_ns - _SCAN_NS
    age_hours = (now_ns - report.created_ns) / _HOUR_NS
    if not 0 <= age_hours <= max_age_hours:
        when = f"is {age_hours:.0f} hours old" if age_hours > 0 else "comes from the future"
        return Choice(problem=f"the inventory report {address} {when}; at most {max_age_hours:g} hours are allowed")
    if until_ns < log_horizon_ns:
        return Choice(problem=f"the log does not reach back to an hour before the inventory report {address}")
    return Choice(address, until_ns)


def _newest(address: str, store: Store, oldest_ns: int) -> str:
    """The manifest of the newest report, where the address is that of the folder in which S3 makes one for each."""
    if not address.endswith("/"):
        return address
    if address.startswith(_S3):
        bucket, _, prefix = address.removeprefix(_S3).partition("/")
        oldest = datetime.fromtimestamp(oldest_ns // SECOND_NS, UTC).strftime(_STAMP)
        page = store.list_versions(bucket, prefix=prefix, delimiter="/", key_marker=prefix + oldest)
        names = [folder.removeprefix(prefix).rstrip("/") for folder in page.prefixes]
    else:
        try:
            names = [entry.name for entry in Path(address).iterdir()]
        except OSError as error:
            raise Unavailable(f"the inventory reports in {address} cannot be read: {error.strerror}") from None
    dated = [name for name in names if _DATED.fullmatch(name)]
    if not dated:
        raise NotFound(f"there is no folder with a new enough inventory report in {address}")
    return f"{address}{max(dated)}/manifest.json"


def open_report(address: str, store: Store) -> Report:
    try:
        values = json.loads(_manifest(address, store))
        form = values["fileFormat"]
        if form not in (CSV, PARQUET):
            raise InvalidInput(
                f"the inventory report {address} has the format {form}: have it written as CSV or Parquet"
            )
        return Report(
            address=address,
            bucket=values["sourceBucket"],
            created_ns=int(values["creationTimestamp"]) * 1_000_000,
            form=form,
            columns=_columns(form, values["fileSchema"]),
            files=tuple(_file(entry) for entry in values["files"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{address} is not the manifest of an S3 inventory report: {error!r}") from None


def check(report: Report, bucket: str, store: Store) -> None:
    """Raises unless the report is one of the bucket and says everything that decisions need."""
    if report.bucket != bucket:
        raise InvalidInput(
            f"the inventory report {report.address} is one of the bucket {report.bucket}, not of {bucket}"
        )
    missing = [shown for name, shown in _NEEDED.items() if name not in report.columns]
    if missing:
        raise InvalidInput(
            f"the inventory report {report.address} lacks {', '.join(missing)}: add these fields to its configuration"
        )
    if not report.has_versions and store.versioning(bucket) is not Versioning.OFF:
        raise InvalidInput(
            f"the inventory report {report.address} has current versions only, and bucket {bucket} has others, too: "
            "have all versions included"
        )


def plain_name(column: str) -> str:
    """CSV has `VersionId` where Parquet has `version_id`."""
    return column.strip().replace("_", "").lower()


def _columns(form: str, schema: str) -> tuple[str, ...]:
    names = schema.split(",") if form == CSV else _PARQUET_COLUMN.findall(schema)
    return tuple(plain_name(name) for name in names)


def _file(entry: Mapping[str, Any]) -> ReportFile:
    if not {"..", "/"}.isdisjoint(PurePosixPath(entry["key"]).parts):
        raise ValueError(f"{entry['key']!r} is not the name of a file")
    return ReportFile(entry["key"], int(entry["size"]), entry["MD5checksum"].lower())


# --- reading files -------------------------------------------------------------------------------


def _manifest(address: str, store: Store) -> bytes:
    if address.startswith(_S3):
        bucket, _, key = address.removeprefix(_S3).partition("/")
        return store.read(bucket, key, start=0, length=_LARGEST_MANIFEST)
    try:
        return Path(address).read_bytes()
    except OSError as error:
        raise Unavailable(f"the inventory report {address} cannot be read: {error.strerror}") from None


@contextmanager
def opened(report: Report, file: ReportFile, store: Store) -> Iterator[IO[bytes]]:
    """The file's bytes, on this machine, when they have been found to be those that the manifest means."""
    try:
        with tempfile.TemporaryFile() if _is_remote(report) else _local(report, file).open("rb") as content:
            if _is_remote(report):
                _download(report, file, store, content)
            found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            if found != file.md5:
                raise InvalidInput(f"the inventory file {file.key} has not the checksum that its manifest says")
            content.seek(0)
            yield content
    except OSError as error:
        raise Unavailable(f"the inventory file {file.key} cannot be read: {error}") from None


def _is_remote(report: Report) -> bool:
    return report.address.startswith(_S3)


def _download(report: Report, file: ReportFile, store: Store, into: IO[bytes]) -> None:
    bucket = report.address.removeprefix(_S3).partition("/")[0]
    for start in range(0, file.size, _CHUNK):
        into.write(store.read(bucket, file.key, start=start, length=min(_CHUNK, file.size - start)))
    into.seek(0)


def _local(report: Report, file: ReportFile) -> Path:
    """Files are named by their place in a bucket, of which some folder around the manifest is a copy; or they lie
    beside the manifest."""
    manifest = Path(report.address).resolve()
    beside = manifest.parent / PurePosixPath(file.key).name
    for place in (beside, *(folder / file.key for folder in manifest.parents)):
        if place.is_file():
            return place
    raise Unavailable(f"the inventory file {file.key} is not beside {manifest}, nor below a folder around it")
