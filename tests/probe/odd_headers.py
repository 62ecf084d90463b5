"""Headers of odd requests: they change an operation, name others' objects, or speak to something on the way."""

from __future__ import annotations

import random
from dataclasses import replace

from odd_parts import KEYS, escaped_somewhere
from odd_world import DOMAIN, World
from requests_on_the_wire import Request, quoted


def odd_header(rng: random.Random, world: World, request: Request) -> Request:
    bucket = rng.choice([*world.buckets]).encode()
    key = quoted(rng.choice(KEYS), b"/")
    pair = rng.choice(
        (
            (b"x-amz-copy-source", copy_source(rng, world)),
            (b"x-amz-copy-source", copy_source(rng, world)),
            (b"x-amz-copy-source-range", b"bytes=0-1"),
            (b"x-amz-rename-source", b"/" + bucket + b"/" + key),
            (b"x-amz-bypass-governance-retention", b"true"),
            (b"x-amz-acl", b"public-read"),
            (b"x-amz-acl", b"private"),
            (b"x-amz-grant-full-control", b"id=x"),
            (b"x-amz-tagging", rng.choice((b"a=b", b"a=b;c=d", b"a=%62", b"a=b&a=c", b"a%3Db=c"))),
            (b"x-amz-tagging-directive", b"REPLACE"),
            (b"x-amz-metadata-directive", b"REPLACE"),
            (b"x-amz-storage-class", rng.choice((b"STANDARD", b"GLACIER", b"x y"))),
            (b"x-amz-object-lock-mode", b"GOVERNANCE"),
            (b"x-amz-object-lock-retain-until-date", b"2030-01-01T00:00:00Z"),
            (b"x-amz-object-lock-legal-hold", b"ON"),
            (b"x-amz-bucket-object-lock-enabled", b"true"),
            (b"x-amz-mfa", b"1 2"),
            (b"x-amz-meta-a", rng.choice((b"b", b"  b  c", b"\xc3\xbc", b"a,b", b"x" * 2000))),
            (b"x-amz-meta-", b"empty name"),
            (b"x-amz-unknown", b"1"),
            (b"x-amz-version-id", b"v9"),
            (b"x-amz-expected-bucket-owner", b"123456789012"),
            (b"x-amz-security-token", b"t"),
            (b"x-amz-website-redirect-location", b"/x"),
            (b"x-amz-server-side-encryption", b"AES256"),
            (b"x-amz-write-offset-bytes", b"0"),
            (b"x-amz-if-match-size", b"5"),
            (b"x-amz-if-match-delete-marker", b"true"),
            (b"x-amz-decoded-content-length", b"3"),
            (b"x-amz-trailer", b"x-amz-checksum-crc32"),
            (b"x-amz-object-attributes", b"ETag"),
            (b"x-http-method-override", b"DELETE"),
            (b"x-http-method", b"DELETE"),
            (b"x-method-override", b"PUT"),
            (b"x-original-url", b"/" + bucket + b"/" + key),
            (b"x-rewrite-url", b"/" + bucket + b"/" + key),
            (b"x-forwarded-host", bucket + b"." + DOMAIN.encode()),
            (b"x-forwarded-prefix", b"/" + bucket),
            (b"x-forwarded-for", b"127.0.0.1"),
            (b"forwarded", b"host=" + bucket),
            (b"seaweed-osprefix", b"x"),
            (b"x-seaweedfs-header", b"1"),
            (b"x-minio-source-etag", b"1"),
            (b"cookie", b"a=b"),
            (b"referer", b"http://x/?tagging"),
            (b"te", b"trailers"),
            (b"connection", rng.choice((b"keep-alive, x-amz-tagging", b"x-amz-copy-source", b"keep-alive"))),
            (b"upgrade", b"h2c"),
            (b"trailer", b"x-amz-acl"),
            (b"if-match", b'"x"'),
            (b"if-none-match", b"*"),
            (b"range", b"bytes=0-3"),
            (b"content-encoding", rng.choice((b"gzip", b"aws-chunked", b"aws-chunked,gzip"))),
            (b"content-type", rng.choice((b"multipart/form-data; boundary=x", b"text/plain", b"application/xml"))),
            (b"content-disposition", b'attachment; filename="x"'),
            (b"expires", b"0"),
            (b"X_Amz_Acl", b"public-read"),
            (b"origin", b"http://example.com"),
        )
    )
    headers = [*request.headers, pair]
    kind = rng.randrange(12)
    if kind == 0:
        headers.append((pair[0].upper(), rng.choice((pair[1], b"other"))))
    elif kind == 1:
        headers[-1] = (pair[0], pair[1] + b"\r\n folded")
    elif kind == 2:
        headers[-1] = (pair[0].title(), b"  " + pair[1] + b"\t")
    return replace(request, headers=headers)


def copy_source(rng: random.Random, world: World) -> bytes:
    """All spellings of a source, in the senders' own buckets and in others'."""
    bucket = rng.choice([*world.buckets]).encode()
    other = rng.choice(world.of(world.other)).encode()
    plain = rng.choice(KEYS)
    key = quoted(plain, b"/")
    return rng.choice(
        (
            b"/" + bucket + b"/" + key,
            b"/" + bucket + b"/" + key,
            bucket + b"/" + key,
            bucket + b"%2F" + key,
            b"%2F" + bucket + b"%2f" + key,
            b"//" + bucket + b"/" + key,
            b"/" + bucket + b"//" + key,
            b"/" + bucket + b"/../" + other + b"/" + key,
            b"/" + bucket + b"/%2e%2e/" + other + b"/" + key,
            b"/" + bucket + b"%2F..%2F" + other + b"/" + key,
            escaped_somewhere(rng, b"/" + bucket + b"/" + key),
            b"/" + bucket + b"/" + key + b"?versionId=v1",
            b"/" + bucket + b"/" + key + b"?versionId=v1&versionId=v2",
            b"/" + bucket + b"/" + key + b"?versionId=v1;x",
            b"/" + bucket + b"/" + key + b"?x=y",
            b"/" + bucket + b"/" + key + b"%3FversionId=v1",
            b"/" + bucket + b"/" + key + b"?versionId=%76%31",
            b"/" + bucket + b"/" + plain.replace(b"%", b"%25"),
            b"/" + bucket + b"/" + key.replace(b"%20", b"+"),
            b"http://" + world.authority + b"/" + bucket + b"/" + key,
            b"arn:aws:s3:::" + bucket + b"/" + key,
            b"/" + bucket + b"/" + key + b", /" + other + b"/" + key,
            b" /" + bucket + b"/" + key,
        )
    )
