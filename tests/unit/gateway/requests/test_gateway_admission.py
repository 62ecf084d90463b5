"""Who is let through: each rule on its own, with real records and real signatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop
from gateway_records import Records

from tidegate.core.s3errors import S3Error
from tidegate.gateway.requests.admission import Admission, admit


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    made = Records(tmp_path_factory.mktemp("admission"))
    made.add_pool("physics", direct="lab")
    made.add_pool("biology")
    made.add_pool("asleep", awake=False)
    made.add_pool("offline")
    made.registry.update_pool("offline", online=False)
    made.add_key("reader", "physics", policy="readonly")
    made.add_key("writer", "physics", policy="writeonly")
    made.add_key("brief", "physics", expires_at=made.now + 10)
    for policy in ("upload", "download", "public"):
        made.registry.create_bucket(f"physics-{policy}", "physics", now=made.now, policy=policy)
    yield made
    made.close()


def let_in(records: Records, method: str, target: str, key=None, **options) -> Admission:
    now = options.pop("now", None)
    return uvloop.run(records.admitted(records.head(method, target, key, **options), now))


def refused(records: Records, method: str, target: str, key=None, **options) -> str:
    with pytest.raises(S3Error) as error:
        let_in(records, method, target, key, **options)
    return error.value.code


def test_an_admission_says_all_that_the_exchange_needs(records: Records) -> None:
    admission = let_in(records, "PUT", "/physics-bucket/a%20b/c?x-id=PutObject", "physics")
    assert (admission.operation.name, admission.bucket_name, admission.object_key) == (
        "PutObject",
        "physics-bucket",
        "a b/c",
    )
    assert admission.key is not None and admission.bucket is not None
    assert admission.pool.pool.name == admission.bucket.pool == "physics"


def test_a_request_for_the_service_goes_to_the_keys_pool(records: Records) -> None:
    for method, target in (("GET", "/"), ("PUT", "/new-bucket")):
        admission = let_in(records, method, target, "biology")
        assert (admission.bucket, admission.pool.pool.name) == (None, "biology")


@pytest.mark.parametrize(("key", "code"), [(("NOBODY", "s"), "InvalidAccessKeyId"), (None, "AccessDenied")])
def test_without_a_known_key_the_service_is_closed(records: Records, key: object, code: str) -> None:
    assert refused(records, "GET", "/", key) == code
    assert refused(records, "PUT", "/new-bucket", key) == code


def test_a_bad_key_is_refused_even_where_none_is_needed(records: Records) -> None:
    assert let_in(records, "GET", "/physics-public/k").key is None
    assert refused(records, "GET", "/physics-public/k", ("NOBODY", "s")) == "InvalidAccessKeyId"
    wrong = (records.keys["physics"][0], "wrong secret")
    assert refused(records, "GET", "/physics-public/k", wrong) == "SignatureDoesNotMatch"


def test_a_key_is_good_until_the_moment_it_expires(records: Records) -> None:
    assert let_in(records, "GET", "/physics-bucket", "brief", now=records.now + 9.999).key is not None
    assert refused(records, "GET", "/physics-bucket", "brief", now=records.now + 10) == "InvalidAccessKeyId"


@pytest.mark.parametrize(("late", "fine"), [(900, True), (901, False), (-900, True), (-901, False)])
def test_the_clocks_may_differ_by_so_much(records: Records, late: int, fine: bool) -> None:
    at = int(records.now) + late
    if fine:
        assert let_in(records, "GET", "/physics-bucket", "physics", now=at)
    else:
        assert refused(records, "GET", "/physics-bucket", "physics", now=at) == "RequestTimeTooSkewed"


@pytest.mark.parametrize(
    ("key", "method", "fine"),
    [
        ("reader", "GET", True),
        ("reader", "PUT", False),
        ("reader", "DELETE", False),
        ("writer", "GET", False),
        ("writer", "PUT", True),
        ("writer", "DELETE", True),
        ("physics", "GET", True),
        ("physics", "PUT", True),
    ],
)
def test_the_policy_of_a_key_decides_for_its_bearer(records: Records, key: str, method: str, fine: bool) -> None:
    for bucket in ("physics-bucket", "physics-public", "physics-upload"):
        if fine:
            assert let_in(records, method, f"/{bucket}/k", key).key is not None
        else:
            assert refused(records, method, f"/{bucket}/k", key) == "AccessDenied"


@pytest.mark.parametrize(
    ("bucket", "read", "write"),
    [
        ("physics-bucket", False, False),
        ("physics-upload", False, True),
        ("physics-download", True, False),
        ("physics-public", True, True),
    ],
)
def test_the_policy_of_a_bucket_decides_for_everybody_else(
    records: Records, bucket: str, read: bool, write: bool
) -> None:
    for method, fine in (("GET", read), ("PUT", write)):
        if fine:
            assert let_in(records, method, f"/{bucket}/k").key is None
        else:
            assert refused(records, method, f"/{bucket}/k") == "AccessDenied"
    assert refused(records, "PUT", f"/{bucket}?versioning=") == "AccessDenied", "settings are for keys"


def test_a_key_is_no_use_in_another_pool(records: Records) -> None:
    assert refused(records, "GET", "/biology-bucket/k", "physics") == "AccessDenied"
    assert refused(records, "GET", "/physics-public/k", "biology") == "AccessDenied"


@pytest.mark.parametrize("target", ["/no-such-bucket", "/no-such-bucket/k", "/" + "n" * 3000, "/UPPER/k", "/a%2Fb/k"])
def test_an_unknown_bucket_is_not_found(records: Records, target: str) -> None:
    assert refused(records, "GET", target, "physics") == "NoSuchBucket"
    assert refused(records, "GET", target) == "NoSuchBucket"


def test_a_copy_must_come_from_the_same_pool(records: Records) -> None:
    assert let_in(records, "PUT", "/physics-bucket/k", "physics", x_amz_copy_source="/physics-public/k")
    assert (
        refused(records, "PUT", "/physics-bucket/k", "physics", x_amz_copy_source="biology-bucket/k") == "AccessDenied"
    )
    assert (
        refused(records, "PUT", "/physics-bucket/k", "physics", x_amz_copy_source="/nowhere-at-all/k") == "NoSuchBucket"
    )
    assert refused(records, "PUT", "/physics-bucket/k", "physics", x_amz_copy_source="nonsense") == "InvalidArgument"


def test_a_copy_without_a_key_must_be_allowed_at_its_source_too(records: Records) -> None:
    assert let_in(records, "PUT", "/physics-public/k", x_amz_copy_source="/physics-download/k")
    for source in ("physics-bucket", "physics-upload"):
        assert refused(records, "PUT", "/physics-public/k", x_amz_copy_source=f"/{source}/k") == "AccessDenied"


def test_a_disabled_pool_refuses_everybody(records: Records) -> None:
    assert refused(records, "GET", "/offline-bucket/k", "offline") == "AccessDenied"
    assert refused(records, "GET", "/", "offline") == "AccessDenied"


def test_an_expired_pool_refuses_from_that_moment_on(records: Records) -> None:
    records.registry.update_pool("biology", expires_at=records.now + 5)
    assert let_in(records, "GET", "/biology-bucket", "biology", now=records.now + 4.999)
    assert refused(records, "GET", "/biology-bucket", "biology", now=records.now + 5) == "AccessDenied"
    records.registry.update_pool("biology", expires_at=None)


def test_a_key_that_the_store_takes_for_a_folder_may_hold_no_data_however_its_length_is_told(records: Records) -> None:
    folder = "/physics-bucket/folder/"
    assert let_in(records, "PUT", folder, "physics", content_length="0")
    assert refused(records, "PUT", folder, "physics", content_length="5") == "InvalidArgument"
    assert refused(records, "PUT", folder, "physics", transfer_encoding="chunked") == "InvalidArgument"
    lie = {"content_length": "5", "x_amz_decoded_content_length": "0"}
    assert refused(records, "PUT", folder, "physics", **lie) == "InvalidArgument"
    chunked = {"content_length": "90", "x_amz_content_sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    assert let_in(records, "PUT", folder, "physics", x_amz_decoded_content_length="0", **chunked)
    for length in ("5", "9" * 5000, "five"):
        assert (
            refused(records, "PUT", folder, "physics", x_amz_decoded_content_length=length, **chunked)
            == "InvalidArgument"
        )


def test_a_preflight_bears_no_signature_and_needs_no_store(records: Records) -> None:
    signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00&X-Amz-Credential=x"
    for target in ("/physics-bucket/k", "/asleep-bucket", f"/physics-bucket/k?{signed}", "/physics-bucket/a//b"):
        admission = let_in(records, "OPTIONS", target)
        assert (admission.operation.name, admission.key, admission.claim) == ("CorsPreflight", None, None)
    assert let_in(records, "OPTIONS", "/physics-bucket?AWSAccessKeyId=x&Signature=y&Expires=1").key is None
    assert refused(records, "OPTIONS", "/nobodys-bucket/k") == "NoSuchBucket"
    assert refused(records, "OPTIONS", "/biology-bucket/k", host="lab.direct.test") == "NoSuchBucket"


def test_virtual_hosted_style_takes_the_bucket_from_the_host(records: Records) -> None:
    admission = let_in(records, "GET", "/some/key", "physics", host="Physics-Bucket.LOCALHOST:9000")
    assert (admission.bucket_name, admission.object_key) == ("physics-bucket", "some/key")


def test_a_direct_host_name_fixes_the_pool(records: Records) -> None:
    for host in ("lab.direct.test", "LAB.direct.test:9000"):
        assert let_in(records, "GET", "/physics-public/k", host=host).pool.pool.name == "physics"
        assert let_in(records, "GET", "/physics-bucket/k", "physics", host=host).pool.pool.name == "physics"
        assert refused(records, "GET", "/biology-bucket/k", host=host) == "NoSuchBucket"
        assert refused(records, "GET", "/biology-bucket/k", "biology", host=host) == "AccessDenied"
    assert refused(records, "GET", "/physics-public/k", host="nobody.direct.test") == "NoSuchBucket"


def test_what_s3_does_not_know_or_tidegate_not_offer_is_refused_before_keys_are_looked_at(records: Records) -> None:
    assert refused(records, "PATCH", "/physics-bucket/k", ("NOBODY", "s")) == "MethodNotAllowed"
    assert refused(records, "PUT", "/physics-bucket?website=", ("NOBODY", "s")) == "NotImplemented"


def test_nothing_is_read_for_a_request_that_is_refused_for_its_form(tmp_path: Path) -> None:
    empty = Records(tmp_path)
    for method, target in (("GET", "/bucket/%zz"), ("PATCH", "/bucket"), ("PUT", "/bucket?website=")):
        with pytest.raises(S3Error):
            admit(empty.head(method, target), empty.directory, empty.settings, empty.now)  # and not Missing
    empty.close()


@pytest.mark.parametrize(
    ("method", "query"), [("PUT", ""), ("POST", "?uploads="), ("PUT", "?tagging="), ("PUT", "?uploadId=u&partNumber=1")]
)
def test_a_key_that_listings_would_garble_is_refused_whatever_is_written(
    records: Records, method: str, query: str
) -> None:
    for key in ("a%01b", "%1F", "a%EF%BF%BE"):
        assert refused(records, method, f"/physics-bucket/{key}{query}", "physics") == "InvalidArgument"
    assert let_in(records, method, f"/physics-bucket/a%0A%09%7F{query}", "physics").object_key == "a\n\t\x7f"


def test_a_key_that_listings_would_garble_is_never_found(records: Records) -> None:
    for method, query in (("GET", ""), ("HEAD", ""), ("GET", "?tagging=")):
        assert refused(records, method, f"/physics-bucket/a%02{query}", "physics") == "NoSuchKey"
    source = {"x_amz_copy_source": "/physics-bucket/a%02"}
    assert refused(records, "PUT", "/physics-bucket/k", "physics", **source) == "NoSuchKey"


@pytest.mark.parametrize("name", ["", "_aws_kms_key_id", "_context", "_bucket_key_enabled"])
@pytest.mark.parametrize(("method", "query"), [("PUT", ""), ("POST", "?uploads=")])
def test_encryption_with_keys_that_the_store_does_not_have_is_refused(
    records: Records, method: str, query: str, name: str
) -> None:
    headers = {f"x_amz_server_side_encryption{name}": "x"}
    assert refused(records, method, f"/physics-bucket/k{query}", "physics", **headers) == "NotImplemented"
    customer = {"x_amz_server_side_encryption_customer_algorithm": "AES256"}
    assert let_in(records, method, f"/physics-bucket/k{query}", "physics", **customer).object_key == "k"
