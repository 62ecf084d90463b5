"""Who gets in, where to, and what is there: keys, policies, presigned links, names of hosts and of buckets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from urllib.parse import quote, urlsplit

import pytest
from places import Place
from raw_http import Answer, Wire, presigned, request, request_head, until
from running_service import PoolKey, RunningService


@pytest.fixture(scope="module")
def neighbour(service: RunningService) -> Place:
    """Another pool of the same service."""
    return Place(service, "neighbour", "neighbour-bucket")


def ask_as(place: Place, key: PoolKey | None, method: str, path: str, body: bytes = b"", **options) -> Answer:
    with place.wire() as wire:
        return wire.ask(request(place.url, key, method, path, body, **options), to_head=method == "HEAD")


# --- keys ----------------------------------------------------------------------------------------


def test_an_unknown_key_is_refused_even_at_a_public_bucket(place: Place) -> None:
    place.service.run_cli("bucket", "create", "public-to-all", "--pool", place.key.pool, "--policy", "public")
    assert place.anonymous("GET", "/public-to-all").status == 200
    answer = ask_as(place, PoolKey("", "UNKNOWNKEY0000000000", "s"), "GET", "/public-to-all")
    assert (answer.status, answer.code) == (403, "InvalidAccessKeyId")


def test_a_wrong_secret_is_refused(place: Place) -> None:
    answer = ask_as(place, PoolKey("", place.key.access_key, "wrong"), "GET", place.path())
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


def test_a_request_signed_long_ago_is_refused(place: Place) -> None:
    head = place.request("GET", place.path())
    stamp = re.search(rb"X-Amz-Date: (\w+)", head)
    assert stamp is not None
    old = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - 3600)).encode()
    # The scope's day may change with the stamp; the time is looked at before the signature.
    aged = head.replace(stamp[1], old).replace(stamp[1][:8] + b"/", old[:8] + b"/")
    with place.wire() as wire:
        assert wire.ask(aged).code == "RequestTimeTooSkewed"


def test_a_deleted_key_is_refused_at_once(place: Place) -> None:
    key = place.service.create_key(place.key.pool)
    with place.wire() as wire:
        assert wire.ask(request(place.url, key, "GET", place.path())).status == 200
        place.service.run_cli("key", "delete", key.access_key, "--yes")
        assert wire.ask(request(place.url, key, "GET", place.path())).code == "InvalidAccessKeyId"


def test_a_key_ends_at_its_expiry(place: Place) -> None:
    with place.service.api() as api:
        made = api.post(f"/api/v1/pools/{place.key.pool}/keys", json={"expires_at": time.time() + 15}).json()
    key = PoolKey(place.key.pool, made["access_key"], made["secret_key"])
    assert ask_as(place, key, "GET", place.path()).status == 200
    until(lambda: ask_as(place, key, "GET", place.path()).code == "InvalidAccessKeyId")


def test_the_bucket_of_another_pool_is_out_of_reach(place: Place, neighbour: Place) -> None:
    for method, key in (("GET", ""), ("GET", "k"), ("PUT", "k"), ("DELETE", "k"), ("HEAD", "k")):
        answer = ask_as(place, place.key, method, neighbour.path(key), b"x" if method == "PUT" else b"")
        assert answer.status == 403, method


def test_a_bucket_that_does_not_exist_is_not_found_and_no_pool_is_asked(place: Place) -> None:
    answer = place.ask("GET", "/no-such-bucket-anywhere")
    assert (answer.status, answer.code) == (404, "NoSuchBucket")
    assert place.anonymous("GET", "/no-such-bucket-anywhere/k").status == 404


def test_a_copy_from_another_pools_bucket_is_refused(place: Place, neighbour: Place) -> None:
    neighbour.s3.put_object(Bucket=neighbour.bucket, Key="secret", Body=b"secret")
    key = place.fresh()
    answer = place.ask("PUT", place.path(key), headers={"x-amz-copy-source": f"/{neighbour.bucket}/secret"})
    assert (answer.status, answer.code) == (403, "AccessDenied")
    upload = place.s3.create_multipart_upload(Bucket=place.bucket, Key=key)["UploadId"]
    part = place.ask(
        "PUT",
        place.path(key, f"partNumber=1&uploadId={upload}"),
        headers={"x-amz-copy-source": f"{neighbour.bucket}/secret"},
    )
    assert part.code == "AccessDenied"
    assert place.stored(key) is None


# --- without a key -------------------------------------------------------------------------------


def test_the_policy_of_a_bucket_decides_about_requests_without_a_key(place: Place) -> None:
    allowed = {"none": (403, 403), "download": (200, 403), "upload": (403, 200), "public": (200, 200)}
    place.s3.create_bucket(Bucket="changing-policy")
    place.s3.put_object(Bucket="changing-policy", Key="k", Body=b"v")
    for policy, (read, write) in allowed.items():
        done = place.service.run_cli("bucket", "policy", "changing-policy", policy)
        assert done.returncode == 0, done.stderr
        assert place.anonymous("GET", "/changing-policy/k").status == read, policy
        assert place.anonymous("PUT", "/changing-policy/new", b"v").status == write, policy


def test_without_a_key_nobody_lists_or_makes_buckets(place: Place) -> None:
    assert place.anonymous("GET", "/").code == "AccessDenied"
    assert place.anonymous("PUT", "/a-bucket-of-nobody").code == "AccessDenied"


# --- presigned -----------------------------------------------------------------------------------


def test_presigned_links_work_until_they_expire(place: Place) -> None:
    key = place.fresh()
    with place.wire() as wire:
        put = presigned(place.url, place.key, "PUT", place.path(key))
        assert wire.ask(put + b"Content-Length: 6\r\n\r\nsigned").status == 200
        assert wire.ask(presigned(place.url, place.key, "GET", place.path(key)) + b"\r\n").body == b"signed"
        short = presigned(place.url, place.key, "GET", place.path(key), seconds=1) + b"\r\n"
        time.sleep(2)
        answer = wire.ask(short)
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert b"expired" in answer.body


def test_a_presigned_link_is_for_its_method_and_object_only(place: Place) -> None:
    key = place.fresh()
    link = presigned(place.url, place.key, "GET", place.path(key))
    with place.wire() as wire:
        assert wire.ask(link.replace(b"GET", b"DELETE", 1) + b"\r\n").code == "SignatureDoesNotMatch"
        assert wire.ask(link.replace(key.encode(), b"other") + b"\r\n").code == "SignatureDoesNotMatch"
        assert wire.ask(link.replace(b"Expires=60", b"Expires=999") + b"\r\n").code == "SignatureDoesNotMatch"


def version_two(place: Place, method: str, key: str, expires: int) -> bytes:
    text = f"{method}\n\n\n{expires}\n{place.path(key)}"
    digest = hmac.new(place.key.secret_key.encode(), text.encode(), hashlib.sha1).digest()
    signature = quote(base64.b64encode(digest).decode(), safe="")
    query = f"AWSAccessKeyId={place.key.access_key}&Signature={signature}&Expires={expires}"
    return f"{method} {place.path(key, query)} HTTP/1.1\r\nHost: {urlsplit(place.url).netloc}\r\n".encode()


def test_presigned_links_of_version_two_work_until_they_expire(place: Place) -> None:
    key, later = place.fresh(), int(time.time()) + 60
    with place.wire() as wire:
        put = version_two(place, "PUT", key, later) + b"Content-Length: 3\r\n\r\ntwo"
        assert wire.ask(put).status == 200
        assert wire.ask(version_two(place, "GET", key, later) + b"\r\n").body == b"two"
        assert wire.ask(version_two(place, "GET", key, later - 120) + b"\r\n").code == "AccessDenied"
        forged = version_two(place, "GET", key, later).replace(b"Signature=", b"Signature=A")
        assert wire.ask(forged + b"\r\n").code == "SignatureDoesNotMatch"


# --- buckets -------------------------------------------------------------------------------------


def test_bucket_names_are_one_namespace_and_listings_show_ones_own(place: Place, neighbour: Place) -> None:
    place.s3.create_bucket(Bucket="one-namespace")
    assert place.ask("PUT", "/one-namespace").code == "BucketAlreadyOwnedByYou"
    assert neighbour.ask("PUT", "/one-namespace").code == "BucketAlreadyExists"
    mine = {bucket["Name"] for bucket in place.s3.list_buckets()["Buckets"]}
    theirs = {bucket["Name"] for bucket in neighbour.s3.list_buckets()["Buckets"]}
    assert {place.bucket, "one-namespace"} <= mine
    assert neighbour.bucket in theirs and not mine & theirs
    assert neighbour.ask("DELETE", "/one-namespace").status == 403
    assert place.ask("DELETE", "/one-namespace").status == 204
    assert neighbour.ask("PUT", "/one-namespace").status == 200


def test_a_bucket_with_contents_is_not_deleted(place: Place) -> None:
    place.s3.create_bucket(Bucket="full-bucket")
    place.s3.put_object(Bucket="full-bucket", Key="k", Body=b"v")
    answer = place.ask("DELETE", "/full-bucket")
    assert (answer.status, answer.code) == (409, "BucketNotEmpty")
    assert place.ask("GET", "/full-bucket/k").body == b"v"


@pytest.mark.parametrize("name", ["ab", "Upper", "under_score", "1.2.3.4", "a" * 64, "end-"])
def test_a_bad_bucket_name_is_refused(place: Place, name: str) -> None:
    answer = place.ask("PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName")


# --- host names ----------------------------------------------------------------------------------


def test_virtual_hosted_style_names_the_bucket_in_the_host(place: Place) -> None:
    port = urlsplit(place.url).port
    host = f"{place.bucket}.localhost:{port}"
    key = place.fresh("a%20key%2Bwith/all")
    with place.wire() as wire:
        assert wire.ask(place.request("PUT", f"/{key}", b"virtual", host=host)).status == 200
        assert wire.ask(place.request("GET", f"/{key}", host=host)).body == b"virtual"
        assert wire.ask(place.request("GET", f"/{place.bucket}/{key}", host=f"localhost:{port}")).body == b"virtual"
        assert wire.ask(place.request("GET", "/?list-type=2", host=host)).status == 200
        assert wire.ask(place.request("GET", "/x", host=f"no-such-bucket.localhost:{port}")).code == "NoSuchBucket"


def test_a_direct_host_name_leads_to_its_pool_only(tight: Place) -> None:
    service = tight.service
    other = Place(service, "not-direct", "not-direct-bucket")
    host = "straight.direct.test"
    tight.s3.put_object(Bucket=tight.bucket, Key="k", Body=b"direct")
    service.run_cli("bucket", "policy", tight.bucket, "download")
    service.run_cli("bucket", "policy", other.bucket, "download")
    assert tight.ask("GET", tight.path("k"), host=host).body == b"direct"
    assert tight.anonymous("GET", tight.path("k"), host=host + ":80").body == b"direct"
    assert tight.anonymous("GET", other.path(), host=host).code == "NoSuchBucket"
    assert ask_as(tight, other.key, "GET", other.path(), host=host).code == "AccessDenied"
    assert tight.anonymous("GET", tight.path("k"), host="nobody.direct.test").code == "NoSuchBucket"
    service.run_cli("bucket", "policy", tight.bucket, "none")


# --- trusted hosts -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.33", "127.0.0.35"])
def test_a_trusted_host_is_served(tight: Place, source: str) -> None:
    with tight.wire(source=source) as wire:
        assert wire.ask(tight.request("GET", tight.path())).status == 200


@pytest.mark.parametrize("source", ["127.0.0.2", "127.0.0.31", "127.0.0.36"])
def test_any_other_host_is_cut_off_before_it_says_anything(tight: Place, source: str) -> None:
    with tight.wire(source=source) as wire:
        assert wire.closed


def test_trusted_hosts_mean_the_same_over_a_socket_for_both_families(make_service) -> None:
    """On a socket for IPv6 and IPv4, an IPv4 client comes with a mapped address."""
    service = make_service(gateway__host="::", gateway__processes=1, gateway__trusted_hosts='["::1", "127.0.0.1"]')
    port = urlsplit(service.s3_url).port
    for address in ("[::1]", "127.0.0.1"):
        with Wire(f"http://{address}:{port}") as wire:
            assert wire.ask(request_head(f"http://{address}:{port}", None, "GET", "/")).code == "AccessDenied"
    with Wire(f"http://127.0.0.1:{port}", source="127.0.0.2") as wire:
        assert wire.closed


# --- what a refusal looks like -------------------------------------------------------------------


def test_errors_are_xml_with_a_request_id_that_is_in_the_header_too(place: Place) -> None:
    seen = set()
    for _ in range(3):
        answer = place.ask("GET", "/no-such-bucket-anywhere/%3C%26%22key")
        assert answer.headers["content-type"] == "application/xml"
        found = re.search(rb"<RequestId>(\w+)</RequestId>", answer.body)
        assert found is not None and found[1].decode() == answer.headers["x-amz-request-id"]
        assert b"<Resource>/no-such-bucket-anywhere/%3C%26%22key</Resource>" in answer.body
        seen.add(found[1])
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("method", "query", "code"),
    [
        ("GET", "website=", "NoSuchWebsiteConfiguration"),
        ("PUT", "website=", "NotImplemented"),
        ("GET", "policy=", "NoSuchBucketPolicy"),
        ("PATCH", "", "MethodNotAllowed"),
        ("POST", "", "PreconditionFailed"),
        ("GET", "tagging=&versions=", "InvalidRequest"),
    ],
)
def test_what_is_not_offered_is_refused_by_the_gateway_itself(place: Place, method: str, query: str, code: str) -> None:
    answer = place.ask(method, f"{place.path()}?{query}" if query else place.path())
    assert answer.code == code
    assert answer.headers["server"] == "Tidegate"


def test_an_address_that_is_no_host_of_ours_is_path_style(place: Place) -> None:
    assert place.ask("GET", place.path(), host="gateway.example:1234").status == 200
