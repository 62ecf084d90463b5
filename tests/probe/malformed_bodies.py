"""Bucket and key encodings, and XML bodies: validly signed, so that they reach whoever parses them."""

from __future__ import annotations

import hashlib
import random
from base64 import b64encode

from malformed_case import Case, Door, pick_bytes

NAMESPACE = b'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
BOMB = b'<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">%s]>' % b"".join(
    b'<!ENTITY a%d "%s">' % (level, b"&a%d;" % (level - 1) * 10 if level else b"&a;" * 10) for level in range(9)
)
EXTERNAL = b'<?xml version="1.0"?><!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/passwd">]>'

# Per kind of document: method, query, whether the object key is addressed, a well-formed document's root and inside.
DOCUMENTS = {
    "delete": (b"POST", b"delete=", False, b"Delete", b"<Object><Key>fuzz/none</Key></Object>"),
    "complete": (
        b"POST",
        b"uploadId=%s",
        True,
        b"CompleteMultipartUpload",
        b'<Part><PartNumber>1</PartNumber><ETag>"0123456789abcdef0123456789abcdef"</ETag></Part>',
    ),
    "tagging": (b"PUT", b"tagging=", True, b"Tagging", b"<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>"),
    "versioning": (b"PUT", b"versioning=", False, b"VersioningConfiguration", b"<Status>Suspended</Status>"),
}


def bad_escape(rng: random.Random, door: Door) -> Case:
    """Percent signs that escape nothing, and escapes that are not UTF-8."""
    key = rng.choice(
        [
            b"a%",
            b"a%zz",
            b"a%1",
            b"%u0041",
            b"%%41",
            b"a%2",
            b"%ff%fe",
            b"%c0%af",
            b"%ed%a0%80",
            b"%f8%88%80%80%80",
            b"%80",
        ]
    )
    body = b"x" if (method := rng.choice([b"GET", b"PUT", b"HEAD", b"DELETE"])) == b"PUT" else b""
    return Case("bad escape", door.signed(method, b"fuzz/" + key, body=body).raw(), harmless=method == b"DELETE")


def odd_key(rng: random.Random, door: Door) -> Case:
    """Keys that stores trip over. Where the store takes one, that is its right."""
    key = rng.choice(
        [
            b"..",
            b"../x",
            b"%2e%2e",
            b"%2e%2e%2fx",
            b"a/../../../x",
            b"./x",
            b"a//b",
            b"%00",
            b"a%00b",
            b"%0d%0aX: y",
            b"%5c",
            b"caf\xc3\xa9",
            b"\xff",
            b"%7f",
            b"a" * 1025,
            b"%F0%9F%92%A9" * 100,
            b"#",
            b"a;b",
            b"~",
            b"a%20",
            b"%25zz",
        ]
    )
    method = rng.choice([b"GET", b"PUT", b"HEAD", b"DELETE"])
    return Case("odd key", door.signed(method, key, body=b"x" if method == b"PUT" else b"").raw(), harmless=True)


def bad_bucket(rng: random.Random, door: Door) -> Case:
    name = rng.choice(
        [
            b"A",
            b"ab",
            b"UPPER",
            b"under_score",
            b"a..b",
            b".abc",
            b"abc.",
            b"-abc",
            b"a" * 64,
            b"192.168.1.1",
            b"%00abc",
            b"..",
            b"%2e%2e",
            b"a%2fb",
            b"%ff%ff%ff",
            b"x" * 5000,
            b"xn--abc",
            b"abc-s3alias",
            b"a b".replace(b" ", b"%20"),
        ]
    )
    method = rng.choice([b"GET", b"PUT", b"HEAD", b"DELETE"])
    request = door.request(method)
    request.path = b"/" + name + rng.choice([b"", b"/", b"/key"])
    return Case("bad bucket", door.signer.sign(request).raw())


def broken_document(rng: random.Random, door: Door) -> Case:
    """Not XML, not this XML, or XML that no careful parser takes."""
    kind = rng.choice(list(DOCUMENTS))
    root, inside = DOCUMENTS[kind][3:]
    whole = b"<%s %s>%s</%s>" % (root, NAMESPACE, inside, root)
    body = rng.choice(
        [
            b"",
            b" ",
            b"{}",
            b"\x00" * 100,
            pick_bytes(rng, 1, 500),
            whole[: rng.randrange(1, len(whole))],
            whole + whole,
            whole + b"<",
            whole.replace(root, b"Unknown"),
            b"<%s>" % root * rng.choice([3, 20_000]),
            b"<a>" * 5000 + b"</a>" * 5000,
            BOMB + whole.replace(b">" + inside[:1], b">&a8;" + inside[:1], 1),
            EXTERNAL + b"<%s>&x;%s</%s>" % (root, inside, root),
            b'<?xml version="1.0"?><!DOCTYPE b SYSTEM "http://127.0.0.1:1/x.dtd">' + whole,
            b'<?xml version="1.0" encoding="ebcdic-nope"?>' + whole,
            b'<?xml version="1.0" encoding="UTF-8"?>' + whole.decode().encode("utf-16"),
            whole.replace(inside, b"\xff\xfe\xc0" + inside),
            whole.replace(inside, inside + b"&undefined;"),
            whole.replace(inside, inside + b"&#0;"),
            whole.replace(inside, b"<A x='1' x='2'/>" + inside),
        ]
    )
    return _document(door, kind, body, f"{kind} document")


def huge_document(rng: random.Random, door: Door) -> Case:
    """More than S3 allows for any of these documents."""
    kind = rng.choice(list(DOCUMENTS))
    root, inside = DOCUMENTS[kind][3:]
    filler = b"<!-- %s -->" % (b"a" * rng.choice([5_000_000, 6_000_000]))
    return _document(door, kind, b"<%s>%s%s</%s>" % (root, filler, inside, root), f"huge {kind} document")


def forbidden_content(rng: random.Random, door: Door) -> Case:
    """Well-formed documents that break a rule of their operation."""
    tag = b"<Tag><Key>%s</Key><Value>%s</Value></Tag>"
    part = b"<Part><PartNumber>%s</PartNumber><ETag>x</ETag></Part>"
    kind, inside = rng.choice(
        [
            ("delete", b"<Object><Key>fuzz/none</Key></Object>" * 1001),
            ("delete", b""),
            ("complete", b""),
            ("complete", part % b"0"),
            ("complete", part % b"-1"),
            ("complete", part % b"10001"),
            ("complete", part % b"one"),
            ("complete", part % b"2" + part % b"1"),
            ("complete", part % b"99999999999999999999"),
            ("complete", b"<Part><PartNumber>1</PartNumber></Part>"),
            ("complete", b"<Part/>"),
            ("tagging", b"<TagSet>" + b"".join(tag % (b"k%d" % n, b"v") for n in range(11)) + b"</TagSet>"),
            ("tagging", b"<TagSet>" + tag % (b"k", b"v") * 2 + b"</TagSet>"),
            ("tagging", b"<TagSet>" + tag % (b"k" * 129, b"v") + b"</TagSet>"),
            ("tagging", b"<TagSet>" + tag % (b"k", b"v" * 257) + b"</TagSet>"),
            ("tagging", b"<TagSet>" + tag % (b"", b"v") + b"</TagSet>"),
            ("versioning", b"<Status>Maybe</Status>"),
            ("versioning", b"<Status></Status>"),
        ]
    )
    root = DOCUMENTS[kind][3]
    return _document(door, kind, b"<%s %s>%s</%s>" % (root, NAMESPACE, inside, root), f"forbidden {kind}")


def bucket_document(rng: random.Random, door: Door) -> Case:
    """CreateBucket with a body that cannot be read. The bucket must not come into being."""
    body = rng.choice(
        [
            b"{}",
            b"<CreateBucketConfiguration>",
            b"<Wrong/>",
            EXTERNAL
            + b"<CreateBucketConfiguration><LocationConstraint>&x;</LocationConstraint></CreateBucketConfiguration>",
            pick_bytes(rng, 1, 300),
            b"<a>" * 3000,
        ]
    )
    request = door.request(b"PUT", body=body)
    request.path = b"/fuzz-bucket-%d" % rng.randrange(10)
    return Case("create bucket document", door.signer.sign(request).raw())


def odd_parameters(rng: random.Random, door: Door) -> Case:
    """Query parameters and headers with values that mean nothing."""
    key = door.object_key.encode()
    method, name, query, extra = rng.choice(
        [
            (b"GET", b"", b"list-type=2&max-keys=-1", None),
            (b"GET", b"", b"list-type=2&max-keys=abc", None),
            (b"GET", b"", b"uploads=&max-uploads=x", None),
            (b"GET", key, b"partNumber=0", None),
            (b"GET", key, b"partNumber=x", None),
            (b"PUT", key, b"partNumber=0&uploadId=" + door.upload_id.encode(), None),
            (b"PUT", key, b"partNumber=10001&uploadId=" + door.upload_id.encode(), None),
            (b"PUT", key, b"partNumber=x&uploadId=" + door.upload_id.encode(), None),
            (b"PUT", key, b"partNumber=1&uploadId=nosuchupload", None),
            (b"DELETE", key, b"uploadId=nosuchupload", None),
            (b"GET", key, b"versionId=nosuchversion", None),
            (b"PUT", b"fuzz/copy", b"", (b"x-amz-copy-source", b"")),
            (b"PUT", b"fuzz/copy", b"", (b"x-amz-copy-source", b"nobucket")),
            (b"PUT", b"fuzz/copy", b"", (b"x-amz-copy-source", b"/" + door.bucket.encode() + b"/%zz")),
            (b"PUT", b"fuzz/copy", b"", (b"x-amz-copy-source", b"/another-bucket/key")),
            (b"PUT", b"fuzz/tags", b"", (b"x-amz-tagging", b"&".join(b"k%d=v" % number for number in range(11)))),
        ]
    )
    request = door.request(method, name, query)
    if extra:
        request.headers.append(extra)
    harmless = method == b"GET"  # a listing may take a default, and a bucket without versions has but one
    return Case("odd parameters", door.signer.sign(request).raw(), harmless=harmless)


def _document(door: Door, kind: str, body: bytes, family: str) -> Case:
    method, query, on_object, *_ = DOCUMENTS[kind]
    key = door.object_key.encode() if on_object else b""
    request = door.request(method, key, query % door.upload_id.encode() if b"%s" in query else query, body)
    request.headers.append((b"Content-MD5", b64encode(hashlib.md5(body, usedforsecurity=False).digest())))
    return Case(family, door.signer.sign(request).raw())


FAMILIES = (
    (bad_escape, 3),
    (odd_key, 2),
    (bad_bucket, 3),
    (broken_document, 6),
    (huge_document, 1),
    (forbidden_content, 3),
    (bucket_document, 1),
    (odd_parameters, 3),
)
