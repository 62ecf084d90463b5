"""Uploads by form, with odd fields: their policies are signed, so that what stands in them counts."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import time
from base64 import b64encode
from typing import NamedTuple

from odd_parts import KEYS
from odd_signing import LIFE_SECONDS
from requests_on_the_wire import Signer, timestamp

_BOUNDARIES = (b"----WebKitFormBoundaryabcdefgh", b"b", b"=_'x", b"a:b/c?d")
_FILENAMES = ("data.bin", "dir/data.bin", "C:\\dir\\data.bin", "../up", "a;b", "")
# What must not come to be a header of the store's request, and a few fields that may.
_FIELDS = (
    ("x-amz-copy-source", "/other/key"),
    ("x-amz-tagging", "a=b"),
    ("X-Amz-Meta-Odd", "a  b"),
    ("x-amz-meta-a\r\nx-amz-acl", "v"),
    ("x-amz-meta-b", "line\r\nx-amz-copy-source: /other/key"),
    ("content-type", "text/plain"),
    ("Content-Length", "5"),
    ("Transfer-Encoding", "chunked"),
    ("host", "elsewhere"),
    ("authorization", "AWS4-HMAC-SHA256 x"),
    ("if-match", '"x"'),
    ("acl", "private"),
    ("x-amz-acl", "public-read"),
    ("x-amz-grant-read", "id=x"),
    ("x-amz-storage-class", "STANDARD_IA"),
    ("tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
    ("success_action_status", "201"),
    ("success_action_redirect", "http://elsewhere/x?y=z"),
    ("bucket", "lane0-foreign"),
    ("uploadId", "upload-1"),
    ("versionId", "v1"),
    ("x-amz-bypass-governance-retention", "true"),
    ("x-amz-website-redirect-location", "/x"),
)


class Form(NamedTuple):
    """`key` and `data` are what the form means to put."""

    content_type: bytes
    body: bytes
    key: str
    data: bytes


def odd_form(rng: random.Random, signer: Signer | None) -> Form:
    boundary = rng.choice(_BOUNDARIES)
    filename = rng.choice(_FILENAMES)
    data = rng.choice((b"", b"data", b"\r\n--" + boundary + b"x", rng.randbytes(300), rng.randbytes(70_000)))
    key = rng.choice(KEYS).decode()
    if rng.random() < 0.2:
        key += "-${filename}"
    fields = [("key", key), *rng.sample(_FIELDS, rng.choices((0, 1, 2, 3), (4, 4, 2, 1))[0])]
    meant = key.replace("${filename}", filename.replace("\\", "/").rpartition("/")[2])
    if signer is not None:
        fields += _signed(rng, signer, fields)
    rng.shuffle(fields)
    if rng.random() < 0.05:
        fields.append(("KEY", "another"))
    parts = [(f'name="{name}"', value.encode()) for name, value in fields]
    parts.append((f'name="file"; filename="{filename}"', data))
    if rng.random() < 0.1:
        parts.append(('name="key"', b"behind the file"))
    body = b"".join(
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (boundary, what.encode(), value)
        for what, value in parts
    )
    quotes = b'"' if rng.random() < 0.5 or boundary != _BOUNDARIES[0] else b""
    kind = b"multipart/form-data; boundary=" + quotes + boundary + quotes
    return Form(kind, body + b"--" + boundary + b"--\r\n", meant, data)


def _signed(rng: random.Random, signer: Signer, fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The policy allows any bucket, and every field now and then with any value."""
    stamp = timestamp()
    added = [
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", f"{signer.access_key}/{signer.scope(stamp[:8])}"),
        ("x-amz-date", stamp),
    ]
    is_old = rng.random() < 0.3
    covered = fields if is_old else [*fields, *added]
    conditions: list[object] = [
        {name: value} if "${" not in value and rng.random() < 0.5 else ["starts-with", f"${name}", ""]
        for name, value in covered
        if name != "bucket"
    ]
    conditions.append(["starts-with", "$bucket", ""])
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFE_SECONDS))
    policy = b64encode(json.dumps({"expiration": expires, "conditions": conditions}).encode()).decode()
    if is_old:
        digest = hmac.digest(signer.secret_key.encode(), policy.encode(), hashlib.sha1)
        return [("AWSAccessKeyId", signer.access_key), ("policy", policy), ("signature", b64encode(digest).decode())]
    return [*added, ("policy", policy), ("x-amz-signature", signer.sign_text(stamp[:8], policy))]
