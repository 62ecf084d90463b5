"""What odd requests are made of: spellings of targets, queries and hosts that readers disagree on."""

from __future__ import annotations

import random
from dataclasses import replace

from odd_world import DIRECT_DOMAIN, DOMAIN, World
from requests_on_the_wire import Request, quoted
from s3_operations import SUBRESOURCES

KEYS = (
    *(b"k1", b"k2", b"dir/k3", b"dir/sub/k4", b"a b", b"a+b", b"a;b", b"a&b=c", b"a?b", b"a#b", b"a%b", b"%2F"),
    *("grüße".encode(), "🌊/x".encode(), "e\u0301".encode(), b"~", b"!*'()", b"tagging", b"a=b", b":", b"@", b","),
    *(b"$", b"a%2Fb", b"a\tb", b"a\r\nb", b"<a>&amp;", b"'\"", b"a.versions", b"null", b"%00", b"%25"),
    *(b"..k", b"k.", b".k/k", b"k" * 900, b"uploads", b"x" * 300 + b"/" + b"y" * 300),
)
SEPARATORS = (
    *(b"&", b"&", b"&", b";", b";", b"&&", b"&;", b";&", b"%26", b"%3B", b"?"),
    *(b"&=&", b"#", b"%00", b"%0a", b"+", b","),
)
# Parameters that make the operation another one, or speak of another version, part or upload.
_SWITCHES = (
    *(name.encode() for name in sorted(SUBRESOURCES)),
    *(b"uploadId=upload-1", b"partNumber=1", b"versionId=null", b"versionId=v2", b"list-type=2", b"uploads=1"),
    *(b"x-id=PutObject", b"x-id=DeleteObject", b"tagging=x", b"acl=public-read", b"delete=1", b"versions=false"),
    *(b"prefix=a", b"marker=b", b"max-keys=5", b"delimiter=/", b"start-after=x", b"continuation-token=t"),
    *(b"response-content-type=text/html", b"response-expires=x", b"fetch-owner=true", b"encoding-type=url"),
    *(b"X-Amz-Algorithm=AWS4-HMAC-SHA256", b"X-Amz-Expires=5", b"X-Amz-Security-Token=t", b"X-Amz-Acl=public-read"),
    *(b"x-amz-tagging=a%3Db", b"x-amz-copy-source=/x/y", b"x-amz-acl=public-read", b"Signature=x", b"Expires=1"),
    *(b"AWSAccessKeyId=k", b"method=DELETE", b"_method=DELETE", b"collection=x", b"ttl=1m", b"fsync=true", b"id=1"),
    *(b"tagging=%0A", b"uploadId=%0A", b"acl=%0Ax", b"delete=x%0Ay", b"uploads=%0D%0A", b"versions=%0a"),
    *(b"x", b"a=b", b"=", b"=tagging", b"tagging==", b"%", b"%zz", b"tagging%00", b"tagging%20", b"+tagging"),
)


def escaped_somewhere(rng: random.Random, text: bytes) -> bytes:
    """Some characters that need no escape get one, in capitals or not."""
    form = rng.choice((b"%%%02X", b"%%%02x"))
    return b"".join(form % byte if rng.random() < 0.3 and byte not in b"%=&;?/" else bytes([byte]) for byte in text)


def odd_query(rng: random.Random, world: World, request: Request) -> Request:
    """Puts another parameter before, behind or between those that are there."""
    extra = rng.choice(_SWITCHES)
    if b"upload-1" in extra:
        extra = extra.replace(b"upload-1", rng.choice(world.upload_ids).encode())
    kind = rng.randrange(5)
    if kind == 0:
        name, mark, value = extra.partition(b"=")
        extra = rng.choice((name.upper(), name.capitalize(), name.lower())) + mark + value
    elif kind == 1:
        name, mark, value = extra.partition(b"=")
        extra = escaped_somewhere(rng, name) + mark + value
    separator = rng.choice(SEPARATORS)
    if rng.random() < 0.35:
        extra = rng.choice((b"x", b"", b"x=y", b"versionId=null", b"list-type=2")) + separator + extra
    parts = [part for part in (request.query, extra) if part]
    if rng.random() < 0.5:
        parts.reverse()
    return replace(request, query=separator.join(parts))


def repeated_query(rng: random.Random, world: World, request: Request) -> Request:
    """The same parameters twice, the second time perhaps with another value or spelling."""
    if not request.query:
        return odd_query(rng, world, request)
    again = rng.choice((request.query, request.query.upper(), escaped_somewhere(rng, request.query)))
    again = again.replace(b"upload-1", b"upload-2").replace(b"partNumber=1", b"partNumber=2")
    return replace(request, query=request.query + rng.choice(SEPARATORS) + again)


def odd_spelling(rng: random.Random, world: World, request: Request) -> Request:
    """Another spelling of the same bytes: what two readers may decode differently."""
    if request.query and rng.random() < 0.5:
        return replace(request, query=escaped_somewhere(rng, request.query))
    return replace(request, path=b"/" + escaped_somewhere(rng, request.path[1:]))


def odd_path(rng: random.Random, world: World, request: Request) -> Request:
    path = request.path
    bucket, _, key = path[1:].partition(b"/")
    other = rng.choice(world.of(world.other)).encode()
    return replace(
        request,
        path=rng.choice(
            (
                b"/" + path,
                b"//" + path,
                b"/." + path,
                b"/x/.." + path,
                b"/" + bucket + b"//" + key,
                b"/" + bucket + b"/./" + key,
                b"/" + bucket + b"/../" + other + b"/" + key,
                b"/" + bucket + b"/%2e%2e/" + other + b"/" + key,
                b"/" + bucket + b"/..%2f" + other + b"%2F" + key,
                b"/" + bucket + b"/%252e%252e%252f" + other + b"/" + key,
                b"/" + bucket + b"/..%5c" + other + b"/" + key,
                b"/" + bucket + b"/%c0%ae%c0%ae/" + other + b"/" + key,
                b"/" + bucket + b"%2F" + key,
                b"/" + bucket + b"%2f" + key,
                b"/" + bucket + b"%252F" + key,
                b"/" + bucket + b";/" + key,
                b"/" + bucket + b"%00/" + key,
                b"/" + bucket + b"./" + key,
                b"/" + bucket.upper() + b"/" + key,
                b"/%20" + bucket + b"/" + key,
                path + b"/",
                path + b"//",
                path + b"/.",
                path + b"/..",
                path + b"%2F..",
                path + b"/../..",
                path + b";tagging",
                path + b";x=y",
                path + b"%3Ftagging",
                path + b"%3ftagging=",
                path + b"%23x",
                path + b"#x",
                path + b"%00",
                path + b"%0d%0aX-Amz-Acl:%20public-read",
                path + b"%20HTTP/1.1%0d%0a",
                path + b"%E2%80%A8",
                path + b"%ff",
                path + b"\xc3\xbc",
                path + b"\xff",
                path + b"%ef%bc%8f" + other,
                path + b"%uff0e",
                path + b"%2525",
                path + b"+" + key,
                path + b"x" * rng.choice((200, 1025, 4000)),
                path + b"/.uploads/x",
                path + b".versions/x",
                b"http://" + world.authority + path,
                b"http://" + other + b"." + DOMAIN.encode() + path,
                path[1:] or b"*",
                b"*",
                path.replace(b"/", b"\\"),
                b"/" + bucket + b"/" + quoted(quoted(key)),
                b"/.well-known/" + bucket,
                b"/metrics",
                b"/buckets/" + bucket + b"/" + key,
            )
        ),
    )


def odd_host(rng: random.Random, world: World, request: Request) -> Request:
    names = [name.encode() for name in (*world.buckets, *world.spare)]
    bucket, domain = rng.choice(names), DOMAIN.encode()
    direct = rng.choice((*world.direct_names, "nobody")).encode() + b"." + DIRECT_DOMAIN.encode()
    port = world.authority.rpartition(b":")[2]
    host = rng.choice(
        (
            bucket + b"." + domain,
            bucket + b"." + domain,
            bucket + b"." + domain + b".",
            bucket + b"." + domain + b"..",
            bucket + b".." + domain,
            b"." + bucket + b"." + domain,
            b"." + domain,
            bucket + b"." + domain + b":" + port,
            bucket + b"." + domain + b":" + port + b".",
            bucket + b"." + domain + b".:" + port,
            bucket + b"." + domain + b":",
            bucket + b"." + domain + b":x",
            bucket.upper() + b"." + domain.upper(),
            bucket + b"." + domain.upper(),
            bucket + b"." + domain + b"@" + world.authority,
            rng.choice(names) + b"." + bucket + b"." + domain,
            bucket + b"." + domain + b"." + domain,
            bucket + b"%2e" + domain,
            bucket + b"/." + domain,
            bucket + b"\\." + domain,
            bucket + b";." + domain,
            bucket,
            domain,
            domain + b".",
            domain.upper() + b":" + port,
            direct,
            direct + b".",
            direct.upper(),
            direct + b":" + port,
            bucket + b"." + direct,
            b"127.0.0.1",
            b"[::1]:" + port,
            b"localhost",
            b"",
            b"x" * 300 + b"." + domain,
        )
    )
    odd = request.with_header(b"Host", host)
    if rng.random() < 0.6 and host.lower().partition(b".")[2].startswith(domain):
        # In virtual-hosted style the path is the key alone.
        odd = replace(odd, path=b"/" + request.path[1:].partition(b"/")[2])
    return odd


def odd_method(rng: random.Random, world: World, request: Request) -> Request:
    method = rng.choice((b"GET", b"PUT", b"POST", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"COPY", b"MOVE", b"put"))
    return replace(request, method=method)
