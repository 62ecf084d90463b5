"""Odd requests, validly signed more often than not: each follows from its seed and the world alone."""

from __future__ import annotations

import hashlib
import json
import random
from base64 import b64encode
from dataclasses import replace
from typing import NamedTuple
from xml.sax.saxutils import escape

from odd_forms import odd_form
from odd_headers import copy_source, odd_header
from odd_parts import KEYS, odd_host, odd_method, odd_path, odd_query, odd_spelling, repeated_query
from odd_signing import presign, presign_v2, sign_headers, stream_signed, stream_unsigned
from odd_world import DOMAIN, Sender, Sent, World
from requests_on_the_wire import Request, quoted
from s3_operations import KNOWN, LIST_OBJECTS_V2, Known

_NAMESPACE = b'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
_DOCUMENTS = {
    "PutObjectTagging": _TAGS,
    "PutBucket:tagging": _TAGS,
    "PutBucket:versioning": b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
    "PutBucket:cors": b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
    b"</CORSRule></CORSConfiguration>",
    "PutBucket:object-lock": b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
    b"</ObjectLockConfiguration>",
    "PutBucket:lifecycle": b"<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/>"
    b"<Expiration><Days>900</Days></Expiration></Rule></LifecycleConfiguration>",
    "PutBucket:ownershipControls": b"<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>"
    b"</Rule></OwnershipControls>",
    "PutBucketRequestPayment": b"<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
    "PutObjectRetention": b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate>"
    b"</Retention>",
    "PutObjectLegalHold": b"<LegalHold><Status>ON</Status></LegalHold>",
    "CompleteMultipartUpload": b'<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"x"</ETag></Part>'
    b"</CompleteMultipartUpload>",
}
# Weights of the operations to start from: those that do much come often, those that are not offered seldom.
_WEIGHTS = {
    "PutObject": 40,
    "GetObject": 16,
    "DeleteObject": 12,
    "HeadObject": 6,
    "DeleteObjects": 10,
    "PostObject": 10,
}
_SETTINGS = frozenset(("cors", "lifecycle", "object-lock", "policy", "tagging", "versioning"))
# What each policy opens, in S3's words: at the bucket, and at its objects.
_OPENED = {
    "download": (("ListBucket",), ("GetObject",)),
    "upload": (
        ("ListBucketMultipartUploads",),
        ("AbortMultipartUpload", "DeleteObject", "ListMultipartUploadParts", "PutObject"),
    ),
}
_DATA = frozenset(("PutObject", "UploadPart"))


_BENDS = {
    odd_query: 8,
    repeated_query: 2,
    odd_spelling: 3,
    odd_path: 5,
    odd_host: 5,
    odd_method: 2,
    odd_header: 6,
}


class _Base(NamedTuple):
    """A sensible request before it is bent."""

    known: Known
    request: Request
    payload: bytes
    form_key: str = ""


class Maker:
    """`without` are operations that no request starts from; bends may still lead there."""

    def __init__(self, world: World, *, without: frozenset[str] = frozenset()) -> None:
        self._world = world
        self._operations = [known for known in (*KNOWN, LIST_OBJECTS_V2) if known.name not in without]
        self._weights = [_weight(known) for known in self._operations]

    def make(self, seed: int) -> Sent:
        rng = random.Random(seed)
        sender = rng.choice(self._world.senders)
        base = self._base(rng, sender)
        recipe = [base.known.name]
        request = base.request
        how_often = rng.choices((0, 1, 2, 3), (3, 10, 4, 1))[0]
        for bend in rng.choices(list(_BENDS), list(_BENDS.values()), k=how_often):
            request = bend(rng, self._world, request)
            recipe.append(bend.__name__)
        way, signed = self._signed(rng, sender, request, base)
        return Sent(seed, sender, signed, base.payload, [sender.name, way, *recipe], base.form_key)

    def _base(self, rng: random.Random, sender: Sender) -> _Base:
        world = self._world
        known = rng.choices(self._operations, self._weights)[0]
        if sender.signer is None:
            names = world.open_buckets() if rng.random() < 0.9 else list(world.buckets)
        elif known.name in ("CreateBucket", "DeleteBucket") and rng.random() < 0.8:
            names = list(world.spare)
        else:
            names = world.of(sender.pool) if rng.random() < 0.9 else list(world.buckets)
        name = rng.choice(names)
        path = b"/" if known.scope == "service" else b"/" + name.encode()
        if known.scope == "object":
            path += b"/" + quoted(rng.choice(KEYS), b"/")
        headers = [(b"Host", world.authority)]
        if known.name == "PostObject":
            form = odd_form(rng, sender.signer)
            headers.append((b"Content-Type", form.content_type))
            return _Base(known, Request(b"POST", path, b"", headers, form.body), form.data, form.key)
        body = self._body(rng, known, name)
        if known.subresource == "acl" and known.method == "PUT":
            headers.append((b"x-amz-acl", rng.choice((b"private", b"private", b"public-read"))))
        if known.name == "PutObject" and rng.random() < 0.15:
            headers.append((b"x-amz-copy-source", copy_source(rng, world)))
            body = b""
        if known.name == "DeleteObjects":
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers.append((b"Content-MD5", b64encode(digest)))
        request = Request(known.method.encode(), path, self._query(rng, known), headers, body)
        return _Base(known, request, body)

    def _query(self, rng: random.Random, known: Known) -> bytes:
        parts = []
        if known.subresource == "uploadId":
            suffix = rng.choices((b"", b"%0A", b"%0Ax", b"%3B", b"%20"), (20, 1, 1, 1, 1))[0]
            parts.append(b"uploadId=" + quoted(rng.choice(self._world.upload_ids).encode()) + suffix)
            if known.name == "UploadPart":
                parts.append(b"partNumber=%d" % rng.randint(1, 3))
        elif known.subresource:
            value = rng.choices((b"", b"=", b"=%0A", b"=x%0Ay", b"=x"), (10, 10, 1, 1, 1))[0]
            parts.append(known.subresource.encode() + value)
        if known.name == "ListObjectsV2":
            parts.append(b"list-type=2")
        if known.parameters and rng.random() < 0.2:
            name = rng.choice(sorted(known.parameters - {"partNumber", "list-type"}) or ["versionId"])
            value = rng.choice((b"null", b"v1", b"1", b"a%2Fb", b"a;b", b"a%3Bb", b"x+y", b"", b"%C3%BC", b"a=b"))
            parts.append(name.encode() + b"=" + value)
        rng.shuffle(parts)
        return b"&".join(parts)

    def _body(self, rng: random.Random, known: Known, bucket: str) -> bytes:
        if known.name == "PutBucket:policy":
            return self._policy(rng, bucket)
        if known.name == "DeleteObjects":
            return _delete_document(rng)
        if known.name in _DOCUMENTS:
            return _DOCUMENTS[known.name]
        if known.name in _DATA:
            size = rng.choices((0, 10, 300, 70_000), (2, 10, 4, 0.3))[0]
            return rng.randbytes(size)
        return b""

    def _policy(self, rng: random.Random, name: str) -> bytes:
        """The policy that the bucket has in this world, which an earlier request may have deleted; or another bucket's,
        which must not be opened by it."""
        bucket = self._world.buckets[rng.choice((name, name, *self._world.buckets))]
        opened = [levels for policy, levels in _OPENED.items() if bucket.policy in (policy, "public")]
        arn = f"arn:aws:s3:::{bucket.name}"
        statements = [
            {"Effect": "Allow", "Principal": "*", "Action": [f"s3:{one}" for one in actions], "Resource": resource}
            for levels in opened
            for actions, resource in zip(levels, (arn, f"{arn}/*"), strict=True)
        ]
        return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()

    def _signed(self, rng: random.Random, sender: Sender, request: Request, base: _Base) -> tuple[str, Request]:
        """Also decides how the body is framed."""
        takes_body = bool(request.body) or request.method in (b"PUT", b"POST")
        if sender.signer is None:
            return "anonymous", _framed(rng, request, takes_body)
        if base.known.name == "PostObject" and rng.random() < 0.9:
            return "form", _framed(rng, request, takes_body)
        ways = ["headers"] * 6 + ["presigned"] * 2 + ["presigned v2"]
        if base.known.name in _DATA and request.body:
            ways += ["chunks signed", "chunks signed with trailer", "chunks unsigned", "unsigned payload"] * 2
        way = rng.choice(ways)
        if way.startswith("chunks signed"):
            return way, stream_signed(sender.signer, request, base.payload, trailer=way.endswith("trailer"))
        if way == "chunks unsigned":
            return way, stream_unsigned(sender.signer, request, base.payload)
        if way == "presigned":
            return way, _framed(rng, presign(sender.signer, request), takes_body)
        if way == "presigned v2":
            return way, _framed(rng, presign_v2(sender.signer, request, _virtual(request)), takes_body)
        unsigned = frozenset(name.lower() for name, _ in request.headers if rng.random() < 0.1) - {b"host"}
        digest = "UNSIGNED-PAYLOAD" if way == "unsigned payload" else ""
        return way, _framed(rng, sign_headers(sender.signer, request, digest, unsigned), takes_body)


def _weight(known: Known) -> float:
    is_setting = ":" in known.name
    return _WEIGHTS.get(known.name, 0.2 if is_setting and known.subresource not in _SETTINGS else 2)


def _virtual(request: Request) -> bytes:
    """The bucket that the Host header names, for version 2, which signs the one and not the other."""
    name = request.header(b"Host").partition(b":")[0].lower().removesuffix(b".")
    suffix = b"." + DOMAIN.encode()
    return name.removesuffix(suffix) if name.endswith(suffix) else b""


def _framed(rng: random.Random, request: Request, takes_body: bool) -> Request:
    if not takes_body:
        return request
    body = request.body
    if body and rng.random() < 0.1:
        at = rng.randrange(len(body) + 1)
        pieces = [piece for piece in (body[:at], body[at:]) if piece]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        return replace(request, headers=[*request.headers, (b"Transfer-Encoding", b"chunked")], body=framed)
    return replace(request, headers=[*request.headers, (b"Content-Length", b"%d" % len(body))])


def _delete_document(rng: random.Random) -> bytes:
    """Keys in the spellings that XML allows; now and then one that readers of XML disagree on."""
    entries = b"".join(_delete_entry(rng) for _ in range(rng.randint(1, 4)))
    quiet = rng.choice((b"", b"", b"<Quiet>true</Quiet>", b"<Quiet>false</Quiet>"))
    return b"<Delete %s>%s%s</Delete>" % (rng.choice((_NAMESPACE, b"")), quiet, entries)


def _delete_entry(rng: random.Random) -> bytes:
    plain = rng.choice(KEYS).decode()
    key = escape(plain).encode()
    version = rng.choice((b"", b"", b"", b"<VersionId>null</VersionId>", b"<VersionId>v1</VersionId>"))
    inside = rng.choice(
        (
            b"<Key>%s</Key>" % key,
            b"<Key>%s</Key>" % key,
            b"<Key>%s</Key>" % key,
            b"<Key><![CDATA[%s]]></Key>" % plain.encode(),
            b"<Key>%s</Key>" % "".join(f"&#{ord(one)};" for one in plain).encode(),
            b"<Key> %s </Key>" % key,
            b"<Key>%s<!-- x --></Key>" % key,
            b"<Key>%s<!-- x -->y</Key>" % key,
            b"<Key>%s</Key><Key>k2</Key>" % key,
            b"<key>k2</key><Key>%s</Key>" % key,
            b"<x:Key xmlns:x='urn:x'>k2</x:Key><Key>%s</Key>" % key,
            b"<Key>../%s</Key>" % key,
            b"<Key>/%s</Key>" % key,
            b"<Key>%s</Key><ETag>x</ETag>" % key,
            b"<Key>%s</Key><Size>5</Size>" % key,
            b"<Key></Key>",
        )
    )
    return b"<Object>%s%s</Object>" % (inside, version)
