"""The lifecycle sub-resource of buckets, which the gateway answers itself."""

from __future__ import annotations

import hashlib
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing

import pytest
from metadata_log import settings_of
from places import Place
from raw_http import Answer, request
from replayed import all_events, direct_client
from stored_locations import store_location_of

from tidegate.assembly import open_tables
from tidegate.core.events import Event, EventKind

BUCKET = "ruled"
MINIMUM = "x-amz-transition-default-minimum-object-size"

EXPIRE = "<Expiration><Days>1</Days></Expiration>"
ABORT = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
CLEAN_UP = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
TAG = "<Tag><Key>a</Key><Value>1</Value></Tag>"


def rule(actions: str = EXPIRE, *, where: str = "<Filter/>", status: str = "Enabled", id: str = "r") -> str:
    return f"<Rule><ID>{id}</ID>{where}<Status>{status}</Status>{actions}</Rule>"


def document(*rules: str) -> bytes:
    inner = "\n  ".join(rules)
    namespace = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    return f'<?xml version="1.0"?>\n<LifecycleConfiguration {namespace}>{inner}</LifecycleConfiguration>\n'.encode()


def move(when: str, to: str = "GLACIER") -> str:
    return f"<Transition>{when}<StorageClass>{to}</StorageClass></Transition>"


def noncurrent(fields: str) -> str:
    return f"<NoncurrentVersionExpiration>{fields}</NoncurrentVersionExpiration>"


def filtered(inner: str) -> str:
    return f"<Filter>{inner}</Filter>"


DAYS, DATE = "<Days>30</Days>", "<Date>2040-01-01T00:00:00Z</Date>"

# Every cause that S3 tells apart, with its code; status 400.
REFUSED = {
    "InvalidArgument": {
        "a rule id longer than 255": document(rule(id="i" * 256)),
        "a rule id repeated": document(rule(id="same"), rule(id="same")),
        "zero days": document(rule(EXPIRE.replace(">1<", ">0<"))),
        "negative days": document(rule(EXPIRE.replace(">1<", ">-1<"))),
        "zero noncurrent days": document(rule(noncurrent("<NoncurrentDays>0</NoncurrentDays>"))),
        "zero days after initiation": document(rule(ABORT.replace(">7<", ">0<"))),
        "a date that is not midnight": document(rule("<Expiration><Date>2040-01-01T12:00:00Z</Date></Expiration>")),
        "a date at midnight elsewhere": document(
            rule("<Expiration><Date>2040-01-01T00:00:00+02:00</Date></Expiration>")
        ),
    },
    "MalformedXML": {
        "a bad status": document(rule(status="enabled")),
        "neither prefix nor filter": document(rule(where="")),
        "an expiration without a form": document(rule("<Expiration/>")),
        "an expiration with two forms": document(rule(f"<Expiration>{DAYS}{DATE}</Expiration>")),
        "no noncurrent days": document(rule(noncurrent("<NewerNoncurrentVersions>3</NewerNoncurrentVersions>"))),
        "an unknown storage class": document(rule(move(DAYS, "LUKEWARM"))),
        "no rule": document(),
        "not XML": b"{}",
        "broken off": document(rule())[:-30],
        "another document": b"<Tagging><TagSet/></Tagging>",
        "an entity": b'<!DOCTYPE x [<!ENTITY e "r">]>' + document(rule(id="&e;")).partition(b"\n")[2],
    },
    "InvalidRequest": {
        "no action": document(rule("")),
        "a tag key repeated": document(rule(where=filtered(f"<And>{TAG}{TAG}</And>"))),
        "marker clean-up with tags": document(rule(CLEAN_UP, where=filtered(TAG))),
        "upload abort with tags": document(rule(ABORT, where=filtered(TAG))),
        "upload abort with sizes": document(
            rule(ABORT, where=filtered("<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan>"))
        ),
        "an impossible size range": document(
            rule(
                where=filtered(
                    "<And><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan>"
                    "<ObjectSizeLessThan>9</ObjectSizeLessThan></And>"
                )
            )
        ),
        "a class repeated": document(rule(move(DAYS) + move("<Days>60</Days>"))),
        "date mixed with days": document(rule(move(DAYS) + f"<Expiration>{DATE}</Expiration>")),
        "more than 1000 rules": document(*(rule(id=f"{number}") for number in range(1001))),
    },
}
CASES = [pytest.param(code, body, id=what) for code, causes in REFUSED.items() for what, body in causes.items()]


@pytest.fixture(scope="module")
def ruled(place: Place) -> str:
    place.s3.create_bucket(Bucket=BUCKET)
    store_location_of(place.service, "cold", "GLACIER")
    return BUCKET


@pytest.fixture
def bucket(place: Place, ruled: str) -> Iterator[str]:
    """The bucket, without rules."""
    assert lifecycle(place, "DELETE").status == 204
    yield ruled
    assert lifecycle(place, "DELETE").status == 204


def lifecycle(place: Place, method: str, body: bytes = b"", bucket: str = BUCKET, **options) -> Answer:
    return place.ask(method, f"/{bucket}?lifecycle=", body, **options)


def put(place: Place, body: bytes, **headers: str) -> Answer:
    return lifecycle(place, "PUT", body, headers={name.replace("_", "-"): value for name, value in headers.items()})


# --- the round trip ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        document(rule()),
        document(rule(where="<Prefix>old/</Prefix>"), rule(ABORT, id="second é &amp; \U0001f600", status="Disabled")),
        document(rule(where=filtered(f"<And><Prefix> a&#10;b </Prefix>{TAG}</And>") + "<!-- a remark -->")),
        document(*(rule(id=f"{number}") for number in range(1000))),
        document(rule(where=filtered(f"<Prefix>side by side</Prefix>{TAG}"))),
    ],
    ids=["plain", "old form and odd id", "white space and remark", "1000 rules", "tolerated"],
)
def test_what_was_put_is_got_byte_for_byte(place: Place, bucket: str, body: bytes) -> None:
    answer = put(place, body)
    assert (answer.status, answer.body) == (200, b"")
    got = lifecycle(place, "GET")
    assert (got.status, got.body, got.headers["content-type"]) == (200, body, "application/xml")


def test_rules_without_an_id_are_given_one_that_stays(place: Place, bucket: str) -> None:
    assert put(place, document(rule(id=""), rule(id="named"))).status == 200
    first = lifecycle(place, "GET").body
    ids = re.findall(rb"<ID>(.+?)</ID>", first)
    assert len(ids) == 2 and ids[1] == b"named" and ids[0] != b"named"
    assert lifecycle(place, "GET").body == first


def test_a_transition_names_a_class_that_a_location_serves(place: Place, bucket: str) -> None:
    assert put(place, document(rule(move(DAYS)))).status == 200
    refused = put(place, document(rule(move(DAYS, "STANDARD_IA"))))
    assert (refused.status, refused.code) == (400, "MalformedXML")
    assert b"one that a location serves: " in refused.body and b"GLACIER" in refused.body


def test_the_minimum_size_of_transitions_is_kept(place: Place, bucket: str) -> None:
    assert put(place, document(rule())).headers[MINIMUM] == "all_storage_classes_128K"
    answer = put(place, document(rule()), **{MINIMUM: "varies_by_storage_class"})
    assert answer.headers[MINIMUM] == lifecycle(place, "GET").headers[MINIMUM] == "varies_by_storage_class"
    answer = put(place, document(rule()), **{MINIMUM: "64K"})
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_boto3_reads_what_it_wrote(place: Place, bucket: str) -> None:
    rules = [{"ID": "b", "Filter": {"Prefix": "x/"}, "Status": "Enabled", "Expiration": {"Days": 3}}]
    place.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    assert place.s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    place.s3.delete_bucket_lifecycle(Bucket=bucket)
    with pytest.raises(place.s3.exceptions.ClientError, match="NoSuchLifecycleConfiguration"):
        place.s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_without_rules_get_finds_none_and_delete_is_content(place: Place, bucket: str) -> None:
    answer = lifecycle(place, "GET")
    assert (answer.status, answer.code) == (404, "NoSuchLifecycleConfiguration")
    assert b"<BucketName>ruled</BucketName>" in answer.body
    assert [lifecycle(place, "DELETE").status for _ in range(2)] == [204, 204]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "body"), CASES)
def test_a_malformed_configuration_is_refused_and_the_old_one_stays(
    place: Place, bucket: str, code: str, body: bytes
) -> None:
    kept = document(rule(id="kept"))
    assert put(place, kept).status == 200
    answer = put(place, body)
    assert (answer.status, answer.code) == (400, code)
    assert lifecycle(place, "GET").body == kept


def test_a_body_that_is_not_what_its_head_says_is_refused(place: Place, bucket: str) -> None:
    body = document(rule())
    wrong = b64encode(hashlib.md5(b"other", usedforsecurity=False).digest()).decode()
    assert put(place, body, **{"Content-MD5": wrong}).code == "BadDigest"
    assert lifecycle(place, "PUT", body, payload="0" * 64).status == 400
    assert put(place, b"").code in ("MissingRequestBodyError", "MalformedXML")
    assert lifecycle(place, "GET").status == 404


def test_a_bucket_that_is_not_there_has_no_rules(place: Place) -> None:
    for method, body in (("GET", b""), ("PUT", document(rule())), ("DELETE", b"")):
        answer = lifecycle(place, method, body, bucket="no-such-bucket-here")
        assert (answer.status, answer.code) == (404, "NoSuchBucket")


# --- who may -------------------------------------------------------------------------------------


def test_keys_may_do_what_their_policy_says_and_nobody_without_a_key(place: Place, bucket: str) -> None:
    body = document(rule())
    assert put(place, body).status == 200
    reader = place.service.create_key(place.key.pool, "--policy", "readonly")
    writer = place.service.create_key(place.key.pool, "--policy", "writeonly")
    place.service.cli("bucket", "policy", bucket, "public")

    def ask(key, method: str) -> int:
        with place.wire() as wire:
            sent = body if method == "PUT" else b""
            return wire.ask(request(place.url, key, method, f"/{bucket}?lifecycle=", sent)).status

    assert [ask(reader, method) for method in ("GET", "PUT", "DELETE")] == [200, 403, 403]
    assert [ask(writer, method) for method in ("GET", "PUT", "DELETE")] == [403, 200, 204]
    assert put(place, body).status == 200
    assert [ask(None, method) for method in ("GET", "PUT", "DELETE")] == [403, 403, 403]
    assert lifecycle(place, "GET").body == body
    place.service.cli("bucket", "policy", bucket, "none")


# --- the backend and the log ---------------------------------------------------------------------


def test_the_pool_is_not_woken(place: Place) -> None:
    key = place.service.create_pool("ruled-asleep")
    place.service.cli("bucket", "create", "ruled-asleep", "--pool", key.pool)
    with place.wire() as wire:
        for method, body, status in (("GET", b"", 404), ("PUT", document(rule()), 200), ("GET", b"", 200)):
            assert wire.ask(request(place.url, key, method, "/ruled-asleep?lifecycle=", body)).status == status
        assert wire.ask(request(place.url, key, "DELETE", "/ruled-asleep?lifecycle=")).status == 204
    with closing(open_tables(settings_of(place.service), place.service.data)) as tables:
        assert tables.get("ep:ruled-asleep") is None and tables.get("ma:ruled-asleep") is None


def test_the_backend_never_sees_them(place: Place, bucket: str) -> None:
    assert put(place, document(rule())).status == 200
    direct = direct_client(place.service, place.key)
    with pytest.raises(direct.exceptions.ClientError, match="NoSuchLifecycleConfiguration"):
        direct.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_a_bucket_made_anew_has_no_rules(place: Place) -> None:
    name = "ruled-anew"
    for _ in range(2):
        place.s3.create_bucket(Bucket=name)
        assert lifecycle(place, "GET", bucket=name).code == "NoSuchLifecycleConfiguration"
        assert lifecycle(place, "PUT", document(rule()), bucket=name).status == 200
        place.s3.delete_bucket(Bucket=name)


def test_every_change_is_in_the_log_with_the_rules_digest(place: Place, bucket: str) -> None:
    def changes() -> list[Event]:
        since = [event for event in all_events(place.service) if event.ts_ns > start and event.bucket == bucket]
        assert {event.operation for event in since} <= {EventKind.BUCKET_ATTRIBUTES}
        return since

    start = time.time_ns()
    for body in (document(rule(id="one")), document(rule(id="another name")), document(rule(ABORT))):
        assert put(place, body).status == 200
    assert put(place, b"<broken").status == 400
    assert lifecycle(place, "DELETE").status == 204
    assert lifecycle(place, "DELETE").status == 204
    digests = [dict(event.attributes)["lifecycle"] for event in changes()]
    assert len(digests) == 4, "neither a refusal nor a second delete changes anything"
    assert digests[0] == digests[1] != digests[2] and digests[3] == ""
    assert all(event.bucket_uid and event.key == "" for event in changes())
