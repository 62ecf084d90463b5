"""Malformed heads and message framing: request lines, headers, lengths, chunked coding, truncation, pipelining."""

from __future__ import annotations

import random
from dataclasses import replace

from malformed_case import Case, Door, pick_bytes
from requests_on_the_wire import Request

CONTROL = bytes(byte for byte in range(0x20) if byte not in b"\t\r\n") + b"\x7f"


def request_line(rng: random.Random, door: Door) -> Case:
    tail = door.honest().raw().split(b"\r\n", 1)[1]
    path = door.honest().target
    line = rng.choice(
        [
            b"",
            b" ",
            b"GET",
            b"GET " + path,
            b"GET  HTTP/1.1",
            path + b" HTTP/1.1",
            b"GET " + path + b" HTTP/1.1 more",
            b"GET " + path + b" HTTP/" + rng.choice([b"1.2", b"2.0", b"3", b"11", b"1.1.1", b"1,1", b"x.y", b""]),
            b"GET " + path + b" http/1.1",
            b"GET " + path + b" FTP/1.1",
            b"GET\t" + path + b"\tHTTP/1.1",
            b" GET " + path + b" HTTP/1.1",
            b"GET " + path + b"\x00 HTTP/1.1",
            b"GET " + path + bytes([rng.choice(CONTROL)]) + b" HTTP/1.1",
            b"GET " + path + b" with spaces HTTP/1.1",
            b"GET " + path.lstrip(b"/") + b" HTTP/1.1",
            b"GET * HTTP/1.1",
            b"GET ? HTTP/1.1",
            b"GET # HTTP/1.1",
            b"GE(T " + path + b" HTTP/1.1",
            b"G\xcbT " + path + b" HTTP/1.1",
            b"A" * rng.randint(20, 2000) + b" " + path + b" HTTP/1.1",
            rng.choice([b"get", b"Get", b"TRACE", b"BREW", b"PATCH", b"PROPFIND"]) + b" " + path + b" HTTP/1.1",
            b"CONNECT 127.0.0.1:22 HTTP/1.1",
            b"PRI * HTTP/2.0",
            b"GET http:// HTTP/1.1",
            b"GET ftp://127.0.0.1/x HTTP/1.1",
        ]
    )
    return Case("request line", line + b"\r\n" + tail, half_close=True)


def not_http(rng: random.Random, door: Door) -> Case:
    raw = rng.choice(
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(9),
            b"*1\r\n$4\r\nPING\r\n",
            b"\r\n" * rng.randint(1, 40),
            b"\x00" * rng.randint(1, 4000),
            b"\n",
            pick_bytes(rng, 1, 4000),
            pick_bytes(rng, 1, 200) + b"\r\n\r\n",
            b"GET",
        ]
    )
    return Case("not http", raw, half_close=True)


def header(rng: random.Random, door: Door) -> Case:
    control = bytes([rng.choice(CONTROL)])
    line = rng.choice(
        [
            b"no colon at all",
            b": no name",
            b"X-Space : before the colon",
            b"X-Sp ace: in the name",
            b"X-\xc3\xa9: name outside ascii",
            b"X-" + control + b": control in the name",
            b"X-Control: a" + control + b"b",
            b"X-Nul: a\x00b",
            b"X-Bare: a\rb",
            b"X-Fold: one\r\n two",
            b"X-Fold: one\r\n\ttwo",
            b"X-Paren(): x",
            b'X-Quote": x',
            b"\x00",
        ]
    )
    head, _, _ = door.honest().raw().partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    lines.insert(rng.randint(1, len(lines)), line)
    return Case("header", b"\r\n".join(lines) + b"\r\n\r\n", must_close=True, behind=door.honest().raw())


def leading_space(rng: random.Random, door: Door) -> Case:
    """White space between the request line and the first header."""
    raw = door.honest().raw().replace(b"\r\n", b"\r\n" + rng.choice([b" ", b"\t"]), 1)
    return Case("leading space", raw, must_close=True)


def huge_head(rng: random.Random, door: Door) -> Case:
    size = door.head_limit + rng.randint(1, 2 * door.head_limit)
    request = door.honest()
    kind = rng.randrange(5)
    if kind == 0:
        request = replace(request, query=b"x=" + b"a" * size)
    elif kind == 1:
        request.headers.append((b"X-Long", b"a" * size))
    elif kind == 2:
        request.headers.extend((b"X-%d" % number, b"a") for number in range(size // 6))
    elif kind == 3:
        request.headers.append((b"X-" + b"N" * size, b"a"))
    else:
        return Case("huge head", request.raw()[:-2] + b"X-Endless: " + b"a" * size, must_close=True)
    return Case("huge head", request.raw(), must_close=True)


def host(rng: random.Random, door: Door) -> Case:
    """The signature is made for the honest host; nothing else may reach the object."""
    request = door.honest()
    good = request.header(b"Host")
    kind = rng.randrange(4)
    if kind == 0:
        request = request.without_header(b"Host")
    elif kind == 1:
        request.headers.insert(0, (b"Host", rng.choice([good, b"elsewhere", b""])))
    else:
        bad = [b"", b"a b", b"user@" + good, b"[::1", good + b":80:80", b"x" * 5000, b"\xff\xfe", b"..", b"a,b", b"-"]
        request = request.with_header(b"Host", rng.choice(bad))
    return Case("host", request.raw(), half_close=True)


def content_length(rng: random.Random, door: Door) -> Case:
    body = b"x" * rng.randint(1, 64)
    request = door.signed(b"PUT", b"fuzz/length", body=body)
    size = b"%d" % len(body)
    value = rng.choice(
        [
            b"-1",
            b"+" + size,
            b"0x10",
            b"1e3",
            b"",
            b"abc",
            size + b"," + size,
            size + b" " + size,
            b"9" * 25,
            b"1.0",
            b"\xb2",
            b"18446744073709551617",
            size + b";",
            size + b"\x00",
            b"-0",
            b"- 1",
            b"0" * 5000 + b"x",
        ]
    )
    if rng.random() < 0.4:
        extra = rng.choice([b"0", b"%d" % (len(body) + 1), value])
        request.headers.insert(rng.randrange(len(request.headers)), (b"Content-Length", extra))
    else:
        request = request.with_header(b"Content-Length", value)
    return Case("content length", request.raw(), must_close=True, behind=door.honest().raw(), half_close=True)


def length_and_chunked(rng: random.Random, door: Door) -> Case:
    """The classic of smuggling: two framings in one head."""
    behind = door.honest().raw()
    body = rng.choice([b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"])
    request = door.signer.sign(door.request(b"PUT", b"fuzz/smuggle"), digest="UNSIGNED-PAYLOAD")
    request = request.with_header(b"Content-Length", rng.choice([b"0", b"3", b"%d" % len(body), b"5"]))
    request.headers.insert(rng.randrange(len(request.headers)), (b"Transfer-Encoding", b"chunked"))
    return Case("length and chunked", replace(request, body=body).raw(), must_close=True, behind=behind)


def transfer_encoding(rng: random.Random, door: Door) -> Case:
    value = rng.choice(
        [
            b"identity",
            b"gzip",
            b"gzip, chunked",
            b"chunked, identity",
            b"chunked, chunked",
            b"xchunked",
            b"chunked,",
            b"chunk",
            b"chunked\x0b",
            b"chunked;q=1",
            b"",
            b'"chunked"',
            b"deflate",
        ]
    )
    request = _chunked(door, b"5\r\nhello\r\n0\r\n\r\n", value)
    if rng.random() < 0.2:
        request.headers.append((b"Transfer-Encoding", b"chunked"))
    return Case("transfer encoding", request.raw(), must_close=True, behind=door.honest().raw(), half_close=True)


def chunk_framing(rng: random.Random, door: Door) -> Case:
    body = rng.choice(
        [
            b"zz\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"5 5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello\r\n0\r\n\r\n",
            b"f" * rng.randint(16, 400) + b"\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloworld\r\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhelloXX0\r\n\r\n",
            b"5\rhello\r\n0\r\n\r\n",
            b"5\x00\r\nhello\r\n0\r\n\r\n",
            b"5;" + b"e" * 100_000 + b"\r\nhello\r\n0\r\n\r\n",
            b"5;a\rb\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
            b"5\r\nhello\r\n0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
            b"0" * 100_000,
            pick_bytes(rng, 1, 100),
        ]
    )
    return Case("chunk framing", _chunked(door, body).raw(), must_close=True, half_close=True)


def truncated(rng: random.Random, door: Door) -> Case:
    body = rng.randbytes(rng.choice([10, 5000, 200_000]))
    request = door.signed(b"PUT", b"fuzz/truncated", body=body)
    raw = request.raw()
    if rng.random() < 0.3:
        raw = _chunked(door, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)).raw()
    cut = rng.choice([rng.randrange(1, 300), len(raw) - rng.randint(1, len(body)), len(raw) - 1])
    return Case("truncated", raw[:cut], half_close=True)


def pipelined_garbage(rng: random.Random, door: Door) -> Case:
    garbage = rng.choice(
        [pick_bytes(rng, 1, 300) + b"\r\n\r\n", b"GET\r\n\r\n", b"\x00\r\n\r\n", b"/ HTTP/1.1\r\n\r\n"]
    )
    return Case("pipelined garbage", door.honest().raw() + garbage, first_may_pass=True, half_close=True)


def bent_byte(rng: random.Random, door: Door) -> Case:
    """One byte of a fully signed head becomes another. White space and mere changes of case are left alone:
    those are the changes that mean nothing."""
    raw = bytearray(door.honest().raw())
    while True:
        at = rng.randrange(len(raw))
        new = rng.randrange(256)
        if raw[at] in b" \r\n" or new in b" \t\r\n" or bytes([new]).lower() == bytes(raw[at : at + 1]).lower():
            continue
        if raw[at - 7 : at] == b"HTTP/1." and new in b"01":
            continue
        raw[at] = new
        return Case("bent byte", bytes(raw), half_close=True)


def _chunked(door: Door, body: bytes, coding: bytes = b"chunked") -> Request:
    request = door.signer.sign(door.request(b"PUT", b"fuzz/chunked"), digest="UNSIGNED-PAYLOAD")
    request = request.without_header(b"Content-Length")
    request.headers.append((b"Transfer-Encoding", coding))
    return replace(request, body=body)


FAMILIES = (
    (request_line, 3),
    (not_http, 2),
    (header, 3),
    (leading_space, 1),
    (huge_head, 1),
    (host, 2),
    (content_length, 3),
    (length_and_chunked, 2),
    (transfer_encoding, 2),
    (chunk_framing, 3),
    (truncated, 2),
    (pipelined_garbage, 1),
    (bent_byte, 3),
)
