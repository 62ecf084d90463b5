"""Pages of other origins: a bucket's CORS rules, preflights, and the headers on every reply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from forms import form_body, post_head, signed_fields
from metadata_log import settings_of
from places import Place
from raw_http import Answer, presigned, request
from replayed import all_events, direct_client

from tidegate.assembly import open_tables
from tidegate.core.cors import CORS
from tidegate.core.records import Bucket
from tidegate.pools.catalogue import ENDPOINT

BUCKET = "cors-bucket"
HERE, THERE = "https://app.example.com", "https://there.test"
OPEN = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]}
NAMED = {
    "ID": "named",
    "AllowedOrigins": ["https://*.example.com"],
    "AllowedMethods": ["GET", "PUT", "POST", "DELETE", "HEAD"],
    "AllowedHeaders": ["Content-*", "x-amz-meta-a"],
    "ExposeHeaders": ["ETag"],
    "MaxAgeSeconds": 300,
}


@pytest.fixture(scope="module")
def ruled(place: Place) -> str:
    place.s3.create_bucket(Bucket=BUCKET)
    place.s3.put_object(Bucket=BUCKET, Key="present", Body=b"present")
    return BUCKET


@pytest.fixture
def bucket(place: Place, ruled: str) -> Iterator[str]:
    put(place, NAMED)
    yield ruled
    place.s3.delete_bucket_cors(Bucket=ruled)


def put(place: Place, *rules: dict, bucket: str = BUCKET) -> None:
    place.s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": list(rules)})


def preflight(place: Place, target: str, origin: str = HERE, method: str = "PUT", headers: str = "") -> Answer:
    lines = [f"OPTIONS {target} HTTP/1.1", "Host: localhost"]
    lines += [f"Origin: {origin}"] if origin else []
    lines += [f"Access-Control-Request-Method: {method}"] if method else []
    lines += [f"Access-Control-Request-Headers: {headers}"] if headers else []
    with place.wire() as wire:
        return wire.ask("\r\n".join([*lines, "", ""]).encode())


def cors_of(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


def test_rules_are_read_as_they_were_written(place: Place, bucket: str) -> None:
    put(place, NAMED, OPEN)
    assert place.s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [NAMED, OPEN]
    place.s3.delete_bucket_cors(Bucket=bucket)
    place.s3.delete_bucket_cors(Bucket=bucket)
    answer = place.ask("GET", f"/{bucket}?cors=")
    assert (answer.status, answer.code) == (404, "NoSuchCORSConfiguration")
    assert b"<BucketName>cors-bucket</BucketName>" in answer.body


def test_a_configuration_that_cannot_be_is_refused_and_the_old_one_stays(place: Place, bucket: str) -> None:
    for code, body in (
        ("MalformedXML", b"<CORSConfiguration/>"),
        ("MalformedXML", b"{}"),
        (
            "InvalidRequest",
            b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PATCH</AllowedMethod>"
            b"</CORSRule></CORSConfiguration>",
        ),
    ):
        answer = place.ask("PUT", f"/{bucket}?cors=", body)
        assert (answer.status, answer.code) == (400, code)
    assert place.s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [NAMED]


def test_changes_of_the_rules_are_logged_and_the_store_knows_nothing_of_them(place: Place, bucket: str) -> None:
    place.s3.delete_bucket_cors(Bucket=bucket)
    found = [dict(event.attributes) for event in all_events(place.service) if event.bucket == bucket]
    digests = [attributes["cors"] for attributes in found if "cors" in attributes]
    assert len(digests[-2]) == 64 and digests[-1] == ""
    store = direct_client(place.service, place.key)
    put(place, NAMED)
    with pytest.raises(store.exceptions.ClientError, match="NoSuchCORSConfiguration"):
        store.get_bucket_cors(Bucket=bucket)


def test_only_keys_see_and_change_the_rules(place: Place, bucket: str) -> None:
    reader = place.service.create_key(place.key.pool, "--policy", "readonly")
    rival = place.service.create_pool("cors-rival")
    for key, get, change in ((reader, 200, 403), (rival, 403, 403), (None, 403, 403)):
        for method, status in (("GET", get), ("DELETE", change)):
            with place.wire() as wire:
                assert wire.ask(request(place.url, key, method, f"/{bucket}?cors=")).status == status
    assert place.s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [NAMED]


def test_rules_go_with_their_bucket(place: Place) -> None:
    place.s3.create_bucket(Bucket="cors-short")
    put(place, NAMED, bucket="cors-short")
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        uid = Bucket.from_json(tables.get(Bucket.PREFIX + "cors-short") or "").uid
        assert tables.get(CORS + uid) is not None
        place.s3.delete_bucket(Bucket="cors-short")
        assert tables.get(CORS + uid) is None
    place.s3.create_bucket(Bucket="cors-short")
    assert preflight(place, "/cors-short/k").status == 403
    assert place.ask("GET", "/cors-short?cors=").code == "NoSuchCORSConfiguration"


def test_a_preflight_is_answered_from_the_rules(place: Place, bucket: str) -> None:
    answer = preflight(place, f"/{bucket}/any//key", headers="Content-Type, X-Amz-Meta-A")
    assert (answer.status, answer.body) == (200, b"")
    assert cors_of(answer) == {
        "access-control-allow-origin": HERE,
        "access-control-allow-methods": "GET, PUT, POST, DELETE, HEAD",
        "access-control-allow-headers": "content-type, x-amz-meta-a",
        "access-control-expose-headers": "ETag",
        "access-control-max-age": "300",
        "access-control-allow-credentials": "true",
    }
    assert answer.headers["vary"] == "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
    for options in ({"origin": THERE}, {"method": "PATCH"}, {"headers": "x-amz-meta-b"}):
        refused = preflight(place, f"/{bucket}/key", **options)
        assert (refused.status, refused.code, cors_of(refused)) == (403, "AccessForbidden", {})
        assert b"CORSResponse: This CORS request is not allowed. " in refused.body
    for options in ({"origin": ""}, {"method": ""}):
        assert preflight(place, f"/{bucket}/key", **options).status == 400
    assert preflight(place, "/no-such-bucket-here/key").code == "NoSuchBucket"


def test_the_signature_of_a_presigned_url_is_none_of_the_preflights_business(place: Place, bucket: str) -> None:
    target = presigned(place.url, place.key, "PUT", f"/{bucket}/key").split(b" ")[1].decode()
    assert preflight(place, target).status == 200
    assert preflight(place, target.replace("X-Amz-Signature=", "X-Amz-Signature=0")).status == 200
    assert preflight(place, f"/{bucket}/key?AWSAccessKeyId=x&Signature=y&Expires=1").status == 200


def test_every_gateway_knows_new_rules_with_the_next_request(place: Place, bucket: str) -> None:
    for number in range(20):
        put(place, OPEN if number % 2 else NAMED)
        assert preflight(place, f"/{bucket}/key", THERE, "GET").status == (200 if number % 2 else 403)


def test_preflights_wake_no_pool(place: Place) -> None:
    key = place.service.create_pool("cors-asleep")
    place.service.cli("bucket", "create", "cors-asleep-bucket", "--pool", "cors-asleep")
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        with place.wire() as wire:
            body = (
                b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
                b"</CORSRule></CORSConfiguration>"
            )
            assert wire.ask(request(place.url, key, "PUT", "/cors-asleep-bucket?cors=", body)).status == 200
        assert preflight(place, "/cors-asleep-bucket/k", method="GET").status == 200
        assert tables.get(ENDPOINT + "cors-asleep") is None


# --- replies to the requests themselves ------------------------------------------------------------


def asked(place: Place, method: str, target: str, body: bytes = b"", origin: str = HERE) -> Answer:
    return place.ask(method, target, body, headers={"Origin": origin})


def test_every_reply_of_store_and_gateway_tells_the_browser(place: Place, bucket: str) -> None:
    answers = {
        "stored": asked(place, "PUT", f"/{bucket}/k", b"x"),
        "shown": asked(place, "GET", f"/{bucket}/k"),
        "head": asked(place, "HEAD", f"/{bucket}/k"),
        "part": place.ask("GET", f"/{bucket}/k", headers={"Origin": HERE, "Range": "bytes=0-0"}),
        "unchanged": place.ask("GET", f"/{bucket}/k", headers={"Origin": HERE, "If-None-Match": "*"}),
        "none": asked(place, "GET", f"/{bucket}/none"),
        "listed": asked(place, "GET", f"/{bucket}"),
        "rules": asked(place, "GET", f"/{bucket}?cors="),
        "deleted": asked(place, "DELETE", f"/{bucket}/k"),
        "unknown": asked(place, "PUT", f"/{bucket}?website=", b"<x/>"),
        "malformed": asked(place, "PUT", f"/{bucket}/k?tagging=", b"<x"),
    }
    assert {name: answer.status for name, answer in answers.items()} == {
        **{"stored": 200, "shown": 200, "head": 200, "part": 206, "unchanged": 304, "none": 404, "listed": 200},
        **{"rules": 200, "deleted": 204, "unknown": 501, "malformed": 400},
    }
    for name, answer in answers.items():
        assert cors_of(answer).get("access-control-allow-origin") == HERE, name
        assert cors_of(answer)["access-control-expose-headers"] == "ETag"
        assert "Origin" in answer.headers["vary"]


def test_refusals_can_be_read_by_the_page(place: Place, bucket: str) -> None:
    anonymous = place.anonymous("GET", f"/{bucket}/present", headers={"Origin": HERE})
    with place.wire() as wire:
        forged = place.request("GET", f"/{bucket}/present", headers={"Origin": HERE})
        wrong = wire.ask(forged.replace(b"Signature=", b"Signature=0")[:-4] + b"\r\n\r\n")
    for answer in (anonymous, wrong):
        assert answer.status in (400, 403)
        assert cors_of(answer)["access-control-allow-origin"] == HERE
    # Also where a reply is the first thing that a gateway does for the bucket.
    body = form_body(signed_fields(place.key, bucket, {"key": "k"}) | {"x-amz-signature": "0" * 64}, b"x")
    with place.wire() as wire:
        answer = wire.ask(post_head(wire.authority, f"/{bucket}", len(body), f"Origin: {HERE}") + body)
    assert (answer.code, cors_of(answer)["access-control-allow-origin"]) == ("SignatureDoesNotMatch", HERE)


def test_others_are_told_nothing(place: Place, bucket: str) -> None:
    for answer in (
        asked(place, "GET", f"/{bucket}/present", origin=THERE),
        place.ask("GET", f"/{bucket}/present"),
        asked(place, "GET", f"/{place.bucket}/none"),
        asked(place, "GET", "/"),
    ):
        assert cors_of(answer) == {}
    put(place, OPEN)
    answer = asked(place, "GET", f"/{bucket}/present", origin=THERE)
    assert cors_of(answer) == {"access-control-allow-origin": "*", "access-control-allow-methods": "GET"}
    assert cors_of(asked(place, "PUT", f"/{bucket}/k", b"x")) == {}


def test_a_large_object_still_comes_whole(place: Place, bucket: str) -> None:
    data = bytes(range(256)) * 8192
    place.s3.put_object(Bucket=bucket, Key="large", Body=data)
    answer = asked(place, "GET", f"/{bucket}/large")
    assert answer.body == data and cors_of(answer)["access-control-allow-origin"] == HERE
