"""Requests that once meant one thing to the gateway and another to the store behind it."""

from __future__ import annotations

from typing import NamedTuple

from odd_signing import presign_v2, sign_headers
from odd_world import DOMAIN, Sender, Sent, World
from requests_on_the_wire import Request

_TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


class _Example(NamedTuple):
    """{mine} and {second} stand for buckets of the sender's own pool, {foreign} for one of another tenant."""

    name: str
    method: str
    target: str
    host: str = ""
    body: bytes = b""
    header: tuple[str, str] | None = None


_EXAMPLES = (
    _Example("tagging behind a semicolon", "PUT", "/{mine}/k?x;tagging", body=_TAGS),
    _Example("retention behind a semicolon", "PUT", "/{mine}/k?x;retention", body=b"<Retention/>"),
    _Example(
        "rename behind a semicolon",
        "PUT",
        "/{mine}/k?x;renameObject",
        header=("x-amz-rename-source", "/{mine}/other"),
    ),
    _Example("upload behind a semicolon", "POST", "/{mine}?delete;uploads"),
    _Example("delete of tags behind a semicolon", "DELETE", "/{mine}/k?x;tagging"),
    _Example("version behind a semicolon", "DELETE", "/{mine}/k?x;versionId=v1"),
    _Example("bucket's settings behind a semicolon", "PUT", "/{mine}/?x;policy", body=b"{}"),
    _Example("access list behind a semicolon", "GET", "/{mine}/k?x;acl"),
    _Example("line break in a setting's value", "DELETE", "/{mine}?tagging=%0A"),
    _Example("line break in a sub-resource's value", "PUT", "/{mine}/k?tagging=%0A", body=_TAGS),
    _Example("line break in an upload's id", "PUT", "/{mine}/k?partNumber=1&uploadId=%0A", body=b"part"),
    _Example("host name with a final dot", "PUT", "/{second}/k", host="{mine}.domain.", body=b"data"),
    _Example("host name with an empty port", "PUT", "/{second}/k", host="{mine}.domain:", body=b"data"),
    _Example("host name in capitals", "DELETE", "/{second}/k", host="{mine}.DOMAIN"),
    _Example("source with dots", "PUT", "/{mine}/k", header=("x-amz-copy-source", "/{mine}/../{foreign}/k")),
    _Example("encoded source", "PUT", "/{mine}/k", header=("x-amz-copy-source", "%2F{foreign}%2Fk")),
    _Example("method override", "GET", "/{mine}/k", header=("x-http-method-override", "DELETE")),
    _Example("header signature beside a query's", "GET", "/{mine}/k?X-Amz-Expires=5"),
)


def examples(world: World) -> list[Sent]:
    """Each signed in the headers, presigned with version 2, which signs less, and anonymous in a public bucket."""
    owner = next(sender for sender in world.senders if sender.reads and sender.writes)
    nobody = next(sender for sender in world.senders if sender.signer is None)
    first, second, *_ = world.of(world.own)
    public = next(name for name in world.of(world.own) if world.buckets[name].policy == "public")
    foreign = world.of(world.other)[0]
    own = {"mine": first, "second": second, "foreign": foreign}
    found: list[Sent] = []
    for way, sender, names in (
        ("headers", owner, own),
        ("presigned v2", owner, own),
        ("anonymous", nobody, own | {"mine": public}),
    ):
        for example in _EXAMPLES:
            request = _request(world, example, names)
            signed = _signed(way, sender, request, names["mine"] if example.host else "")
            seed = -1 - len(found)
            found.append(Sent(seed, sender, signed, example.body, [sender.name, way, example.name]))
    return found


def _request(world: World, example: _Example, names: dict[str, str]) -> Request:
    path, _, query = example.target.format(**names).partition("?")
    host = example.host.format(**names).replace("domain", DOMAIN).replace("DOMAIN", DOMAIN.upper())
    request = Request(example.method.encode(), path.encode(), query.encode(), body=example.body)
    request.headers = [(b"Host", host.encode() or world.authority)]
    if example.header is not None:
        request.headers.append((example.header[0].encode(), example.header[1].format(**names).encode()))
    if example.method in ("PUT", "POST"):
        request.headers.append((b"Content-Length", b"%d" % len(example.body)))
    return request


def _signed(way: str, sender: Sender, request: Request, virtual: str) -> Request:
    if sender.signer is None:
        return request
    if way == "headers":
        return sign_headers(sender.signer, request)
    return presign_v2(sender.signer, request, virtual.encode())
