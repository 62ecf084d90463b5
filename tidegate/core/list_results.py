"""The documents that answer listings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from tidegate.core.list_requests import ListRequest
from tidegate.core.listings import ListedUpload, ListedVersion
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element, escape

# As S3 encodes names: a slash stays a slash.
_SAFE = "/-_.~*!'()"


class ListResult:
    """A document that is written element by element; names are encoded if the client asks for it."""

    def __init__(self, root: str, bucket: tuple[str, str], request: ListRequest) -> None:
        self._root = root
        self._request = request
        self._parts: list[bytes] = [f'{DECLARATION}<{root} xmlns="{NAMESPACE}">{element(*bucket)}'.encode()]
        self.name("Prefix", request.prefix)
        if request.delimiter:
            self.name("Delimiter", request.delimiter)
        if request.is_encoded:
            self.text("EncodingType", "url")

    def text(self, name: str, value: object) -> None:
        self._parts.append(element(name, str(value)).encode())

    def name(self, name: str, value: str) -> None:
        """A key, a prefix or a marker."""
        self.text(name, self.shown(value))

    def shown(self, name: str) -> str:
        return quote(name, safe=_SAFE) if self._request.is_encoded else name

    def truncated(self, is_truncated: bool) -> None:
        self.text("IsTruncated", "true" if is_truncated else "false")

    def objects(self, entries: Iterable[bytes | ListedVersion], owner: str) -> None:
        """As the store wrote them, or from current versions. No `owner`: none is shown of those."""
        holder = _user("Owner", owner) if owner else ""
        self._parts.extend(entry if isinstance(entry, bytes) else self._object(entry, holder) for entry in entries)

    def prefixes(self, prefixes: Iterable[str]) -> None:
        for prefix in prefixes:
            self._parts.append(f"<CommonPrefixes>{element('Prefix', self.shown(prefix))}</CommonPrefixes>".encode())

    def versions(self, versions: Sequence[ListedVersion], owner: str) -> None:
        holder = _user("Owner", owner)
        self._parts.extend(self._version(version, holder) for version in versions)

    def uploads(self, uploads: Sequence[ListedUpload], owner: str) -> None:
        self._parts.extend(self._upload(upload, owner) for upload in uploads)

    def document(self) -> bytes:
        return b"".join([*self._parts, f"</{self._root}>".encode()])

    def _object(self, version: ListedVersion, holder: str) -> bytes:
        return f"<Contents>{self._key(version)}{_data(version)}{holder}</Contents>".encode()

    def _version(self, version: ListedVersion, holder: str) -> bytes:
        kind = "DeleteMarker" if version.is_marker else "Version"
        data = element("LastModified", version.modified) if version.is_marker else _data(version)
        latest = "true" if version.is_latest else "false"
        return (
            f"<{kind}>{self._key(version)}<VersionId>{escape(version.version_id)}</VersionId>"
            f"<IsLatest>{latest}</IsLatest>{data}{holder}</{kind}>"
        ).encode()

    def _key(self, version: ListedVersion) -> str:
        return f"<Key>{escape(self.shown(version.key))}</Key>"

    def _upload(self, upload: ListedUpload, owner: str) -> bytes:
        parts = [
            element("Key", self.shown(upload.key)),
            element("UploadId", upload.upload_id),
            _user("Initiator", owner),
            _user("Owner", owner),
            element("StorageClass", "STANDARD"),
            element("Initiated", upload.started),
        ]
        return f"<Upload>{''.join(parts)}</Upload>".encode()


def _data(version: ListedVersion) -> str:
    return (
        f"<LastModified>{escape(version.modified)}</LastModified><ETag>&quot;{escape(version.etag)}&quot;</ETag>"
        f"<Size>{version.size}</Size><StorageClass>{escape(version.storage_class or 'STANDARD')}</StorageClass>"
    )


def _user(name: str, owner: str) -> str:
    return f"<{name}>{element('ID', owner)}{element('DisplayName', owner)}</{name}>"
