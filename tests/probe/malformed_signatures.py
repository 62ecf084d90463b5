"""Requests whose form is right and whose signature, date, scope or payload proof is not."""

from __future__ import annotations

import hashlib
import random
import time
import zlib
from base64 import b64encode
from dataclasses import replace

from malformed_case import Case, Door, pick_bytes
from requests_on_the_wire import EMPTY_DIGEST, Request, timestamp

PRESIGNED_PARAMETERS = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
)


def wrong_key(rng: random.Random, door: Door) -> Case:
    bad_name = rng.choice(["", "NOSUCHKEY", "a" * 500, "ключ", "../..", "%00", door.signer.access_key.lower() + "x"])
    signer = rng.choice(
        [
            replace(door.signer, secret_key="wrong"),
            replace(door.signer, secret_key=""),
            replace(door.signer, access_key=bad_name),
            replace(door.signer, service=rng.choice(["ec2", "", "S3"])),
            replace(door.signer, terminator=rng.choice(["aws4", "", "aws5_request"])),
        ]
    )
    return Case("wrong key", signer.sign(door.request(b"GET", door.object_key.encode())).raw())


def authorization(rng: random.Random, door: Door) -> Case:
    """Bends the Authorization header of a signed request."""
    request = door.honest()
    good = request.header(b"Authorization")
    scheme, _, rest = good.partition(b" ")
    credential, headers, signature = rest.split(b", ")
    scope = b"/".join(credential.split(b"/")[1:])
    bad = rng.choice(
        [
            b"",
            scheme,
            scheme + b" ",
            scheme + b" " + b", ".join(rng.sample([credential, headers, signature], rng.randint(0, 2))),
            good + b", Signature=" + b"0" * 64,
            good.replace(b"AWS4-HMAC-SHA256", rng.choice([b"AWS4-ECDSA-P256-SHA256", b"AWS4", b"HMAC", b"Basic"])),
            good.replace(
                signature, b"Signature=" + rng.choice([b"", b"0" * 64, b"z" * 64, signature[10:-1], b"\xff" * 32])
            ),
            good.replace(headers, b"SignedHeaders=" + rng.choice([b"", b"host", b";;;", b"x-amz-date", b"a" * 9000])),
            good.replace(scope, rng.choice([b"", b"////", b"20200101/us-east-1/s3/aws4_request", b"x"])),
            good.replace(b"us-east-1", rng.choice([b"eu-west-1", b"", b"us-east-1/x"])),
            b"AWS " + door.signer.access_key.encode() + b":c2lnbmF0dXJl",
            b"Bearer " + b"t" * 40,
            b"Basic dXNlcjpwYXNz",
            pick_bytes(rng, 1, 200).translate(None, b"\r\n\x00"),
            good[: rng.randrange(len(good))],
        ]
    )
    return Case("authorization", request.with_header(b"Authorization", bad).raw(), half_close=True)


def two_signatures(rng: random.Random, door: Door) -> Case:
    key = door.object_key.encode()
    if rng.random() < 0.5:
        request = door.honest()
        return Case("two signatures", replace(request, headers=[*request.headers, request.headers[-1]]).raw())
    presigned = door.signer.presign(door.request(b"GET", key))
    request = door.honest()
    return Case("two signatures", replace(request, query=presigned.query).raw())


def date(rng: random.Random, door: Door) -> Case:
    request = door.request(b"GET", door.object_key.encode())
    kind = rng.randrange(4)
    if kind == 0:
        at = time.time() + rng.choice([-1, 1]) * rng.choice([1200, 86400, 10**8])
        return Case("date", door.signer.sign(request, at=at).raw())
    if kind == 1:
        stamp = rng.choice(["20261345T996699Z", "yesterday", "20260101", "99999999T999999Z", "2026-01-01T00:00:00Z"])
        return Case("date", door.signer.sign(request, stamp=stamp, day=timestamp()[:8]).raw())
    if kind == 2:
        day = rng.choice(["20200101", "20991231", "today", "2026115"])
        return Case("date", door.signer.sign(request, day=day).raw())
    return Case("date", door.signer.sign(request).without_header(b"x-amz-date").raw())


def signed_headers(rng: random.Random, door: Door) -> Case:
    """Headers that should be signed and are not, or are signed and changed, doubled or missing."""
    key = door.object_key.encode()
    kind = rng.randrange(5)
    if kind == 0:
        return Case("signed headers", door.signer.sign(door.request(b"GET", key), unsigned=(b"host",)).raw())
    request = door.request(b"PUT", b"fuzz/headers", body=b"x")
    request.headers.append((b"x-amz-meta-a", b"b"))
    if kind == 1:
        return Case("signed headers", door.signer.sign(request, unsigned=(b"x-amz-meta-a",)).raw())
    request = door.signer.sign(request)
    if kind == 2:
        request = request.with_header(b"x-amz-meta-a", b"c")
    elif kind == 3:
        request.headers.append((b"x-amz-meta-a", b"b"))
    else:
        request = request.without_header(b"x-amz-meta-a")
    return Case("signed headers", request.raw())


def injected_header(rng: random.Random, door: Door) -> Case:
    """An x-amz header that changes what the request does, put in after the signature was made."""
    name, value = rng.choice(
        [
            (b"x-amz-copy-source", b"/" + door.bucket.encode() + b"/" + door.object_key.encode()),
            (b"x-amz-acl", b"public-read"),
            (b"x-amz-tagging", b"a=b"),
            (b"x-amz-storage-class", b"GLACIER"),
        ]
    )
    if rng.random() < 0.5:
        request = door.signed(b"PUT", b"fuzz/injected")
    else:
        request = door.signer.presign(door.request(b"PUT", b"fuzz/injected"))
    request.headers.append((name, value))
    return Case("injected header", request.raw())


def payload_digest(rng: random.Random, door: Door) -> Case:
    body = rng.randbytes(rng.choice([1, 100, 70_000]))
    request = door.request(b"PUT", b"fuzz/digest", body=body)
    digest = rng.choice([EMPTY_DIGEST, "0" * 64, "", "xyz", "UNSIGNED", "STREAMING-NONSENSE", "f" * 65])
    return Case("payload digest", door.signer.sign(request, digest=digest).raw(), half_close=True)


def content_md5(rng: random.Random, door: Door) -> Case:
    body = rng.randbytes(100)
    request = door.request(b"PUT", b"fuzz/md5", body=body)
    bad = rng.choice([b"", b"not base64", b"AAAA", b64encode(hashlib.md5(b"other", usedforsecurity=False).digest())])
    request.headers.append((b"Content-MD5", bad))
    return Case("content md5", door.signer.sign(request).raw(), harmless=not bad)


def presigned(rng: random.Random, door: Door) -> Case:
    request = door.request(b"GET", door.object_key.encode())
    signer = door.signer
    kind = rng.randrange(7)
    if kind == 0:
        bad = signer.presign(request, expires=rng.choice(["-1", "604801", "9" * 30, "abc", "", "1.5", "0x10", "٣"]))
    elif kind == 1:
        bad = signer.presign(request, drop=rng.choice(PRESIGNED_PARAMETERS))
    elif kind == 2:
        bad = signer.presign(request, at=time.time() - 10_000)
    elif kind == 3:
        bad = signer.presign(request, at=time.time() + 10_000)
    elif kind == 4:
        bad = replace(signer.presign(request), method=rng.choice([b"PUT", b"DELETE", b"POST"]))
        bad.headers.append((b"Content-Length", b"0"))
    elif kind == 5:
        bad = signer.presign(request)
        bad = replace(
            bad, query=bad.query + rng.choice([b"&versionId=null", b"&X-Amz-Expires=9999", b"&a", b"&=", b"&%zz"])
        )
    else:
        bad = signer.presign(request)
        at = rng.randrange(len(bad.query))
        bad = replace(bad, query=bad.query[:at] + b"!" + bad.query[at + 1 :])
    return Case("presigned", bad.raw(), half_close=True)


def signed_chunks(rng: random.Random, door: Door) -> Case:
    """STREAMING-AWS4-HMAC-SHA256-PAYLOAD with one thing wrong."""
    data = rng.randbytes(rng.choice([10, 1000, 66_000]))
    request, frames = _streamed(door, data)
    kind = rng.randrange(8)
    if kind == 0:
        frames[0] = frames[0].replace(b"chunk-signature=", b"chunk-signature=0", 1)[:-1]
    elif kind == 1:
        frames[0] = frames[0].replace(b";chunk-signature=", b";signature=", 1)
    elif kind == 2:
        frames[-1] = frames[-1].replace(frames[-1][-70:-4], b"0" * 66)
    elif kind == 3:
        frames.pop()
    elif kind == 4:
        frames[0] = bytes(byte ^ 1 if at == len(frames[0]) - 3 else byte for at, byte in enumerate(frames[0]))
    elif kind == 5:
        size = frames[0].partition(b";")[0]
        frames[0] = rng.choice([b"zz", b"-1", b"f" * 40, b"0x1", b""]) + frames[0][len(size) :]
    elif kind == 6:
        frames.append(pick_bytes(rng, 1, 100))
    else:
        bad = rng.choice([b"0", b"%d" % (len(data) + 1), b"-1", b"abc", b""])
        request = _streaming_request(door, bad)
        frames = _signed_frames(door, request, data)
    return Case("signed chunks", _framed(request, frames), half_close=True)


def unsigned_trailer(rng: random.Random, door: Door) -> Case:
    """STREAMING-UNSIGNED-PAYLOAD-TRAILER, as today's clients send it, with one thing wrong."""
    data = rng.randbytes(rng.choice([10, 1000, 66_000]))
    checksum = b64encode(zlib.crc32(data).to_bytes(4, "big"))
    body = rng.choice(
        [
            b"%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n" % (len(data), data),
            b"%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:not base64\r\n\r\n" % (len(data), data),
            b"%x\r\n%s\r\n" % (len(data), data),
            b"%x\r\n%s0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (len(data), data, checksum),
            b"zz\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (data, checksum),
            b"%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n" % (len(data) + 7, data, checksum),
            data,
        ]
    )
    request = Request(b"PUT", b"/" + door.bucket.encode() + b"/fuzz/trailer")
    request.headers = [
        (b"Host", door.authority),
        (b"Content-Length", b"%d" % len(body)),
        (b"Content-Encoding", b"aws-chunked"),
        (b"x-amz-decoded-content-length", b"%d" % len(data)),
        (b"x-amz-trailer", b"x-amz-checksum-crc32"),
    ]
    signed = door.signer.sign(request, digest="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    return Case("unsigned trailer", replace(signed, body=body).raw(), half_close=True)


def _streaming_request(door: Door, decoded_length: bytes) -> Request:
    request = Request(b"PUT", b"/" + door.bucket.encode() + b"/fuzz/streamed")
    request.headers = [
        (b"Host", door.authority),
        (b"Content-Encoding", b"aws-chunked"),
        (b"x-amz-decoded-content-length", decoded_length),
    ]
    return door.signer.sign(request, digest="STREAMING-AWS4-HMAC-SHA256-PAYLOAD")


def _streamed(door: Door, data: bytes) -> tuple[Request, list[bytes]]:
    request = _streaming_request(door, b"%d" % len(data))
    return request, _signed_frames(door, request, data)


def _signed_frames(door: Door, request: Request, data: bytes) -> list[bytes]:
    stamp = request.header(b"x-amz-date").decode()
    previous = request.header(b"Authorization").rpartition(b"=")[2].decode()
    frames = []
    for chunk in (data, b""):
        previous = door.signer.chunk_signature(stamp, previous, chunk)
        frames.append(b"%x;chunk-signature=%s\r\n%s\r\n" % (len(chunk), previous.encode(), chunk))
    return frames


def _framed(request: Request, frames: list[bytes]) -> bytes:
    body = b"".join(frames)
    return replace(request, headers=[*request.headers, (b"Content-Length", b"%d" % len(body))], body=body).raw()


FAMILIES = (
    (wrong_key, 2),
    (authorization, 4),
    (two_signatures, 1),
    (date, 3),
    (signed_headers, 2),
    (injected_header, 2),
    (payload_digest, 2),
    (content_md5, 1),
    (presigned, 4),
    (signed_chunks, 4),
    (unsigned_trailer, 2),
)
