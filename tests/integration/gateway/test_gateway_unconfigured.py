"""Settings of buckets that are answered by the gateway alone: no pool wakes for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from places import Place
from raw_http import Answer, request
from running_service import PoolKey, RunningService

# Sub-resources with the status of GET, and the error's code or something that stands in the document.
ANSWERS = {
    "abac": (200, "<Status>Disabled</Status>"),
    "accelerate": (200, "<AccelerateConfiguration "),
    "acl": (200, "<Permission>FULL_CONTROL</Permission>"),
    "analytics": (200, "<ListBucketAnalyticsConfigurationResult "),
    "analytics&id=a": (404, "NoSuchConfiguration"),
    "encryption": (404, "ServerSideEncryptionConfigurationNotFoundError"),
    "intelligent-tiering": (200, "<ListBucketIntelligentTieringConfigurationResult "),
    "intelligent-tiering&id=a": (404, "NoSuchConfiguration"),
    "inventory": (200, "<ListBucketInventoryConfigurationResult "),
    "inventory&id=": (404, "NoSuchConfiguration"),
    "lifecycle": (404, "NoSuchLifecycleConfiguration"),
    "location": (200, "<LocationConstraint "),
    "logging": (200, "<BucketLoggingStatus "),
    "metadataConfiguration": (404, "MetadataConfigurationNotFound"),
    "metadataTable": (404, "MetadataConfigurationNotFound"),
    "metrics": (200, "<ListBucketMetricsConfigurationResult "),
    "id=a&metrics": (404, "NoSuchConfiguration"),
    "notification": (200, "<NotificationConfiguration "),
    "ownershipControls": (200, "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"),
    "policy": (404, "NoSuchBucketPolicy"),
    "policyStatus": (404, "NoSuchBucketPolicy"),
    "publicAccessBlock": (404, "NoSuchPublicAccessBlockConfiguration"),
    "replication": (404, "ReplicationConfigurationNotFoundError"),
    "requestPayment": (200, "<Payer>BucketOwner</Payer>"),
    "website": (404, "NoSuchWebsiteConfiguration"),
}
OWNERSHIP = (
    b"<OwnershipControls>\n <Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>"
)
PAYMENT = b"<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"


def asked(place: Place, key: PoolKey | None, method: str, path: str, body: bytes = b"") -> Answer:
    with place.wire() as wire:
        return wire.ask(request(place.url, key, method, path, body))


def test_what_was_never_configured_is_answered_without_waking_the_pool(
    service: RunningService, place: Place, fresh_name: Callable[[str], str]
) -> None:
    key, bucket = service.create_pool(fresh_name("asleep")), fresh_name("asleep")
    service.cli("bucket", "create", bucket, "--pool", key.pool)
    for query, (status, told) in ANSWERS.items():
        answer = asked(place, key, "GET", f"/{bucket}?{query}")
        assert answer.status == status, query
        assert told == answer.code if status == 404 else told.encode() in answer.body, query
    for query, body in (("ownershipControls", OWNERSHIP), ("requestPayment", PAYMENT)):
        assert asked(place, key, "PUT", f"/{bucket}?{query}", body).status == 200
    assert asked(place, key, "DELETE", f"/{bucket}?policy").status == 204
    shown = service.cli("pool", "show", key.pool)
    assert (shown["state"], shown["backend_pid"]) == ("NONE", None)


def test_they_are_shown_to_those_who_may_read(place: Place, fresh_name: Callable[[str], str]) -> None:
    service = place.service
    reader = service.create_key(place.key.pool, "--policy", "readonly")
    writer = service.create_key(place.key.pool, "--policy", "writeonly")
    rival = service.create_pool(fresh_name("rival"))
    for query, (status, _) in ANSWERS.items():
        assert asked(place, reader, "GET", f"/{place.bucket}?{query}").status == status, query
        for key in (writer, rival, None):
            assert asked(place, key, "GET", f"/{place.bucket}?{query}").code == "AccessDenied", query
        assert place.ask("GET", f"/unconfigured-nowhere?{query}").code == "NoSuchBucket", query
        assert place.ask("GET", f"/{place.bucket}?{query}&tagging").code == "InvalidRequest", query


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("ownershipControls", OWNERSHIP.replace(b"BucketOwnerEnforced", b"ObjectWriter")),
        ("ownershipControls", OWNERSHIP.replace(b"</Rule>", b"</Rule><Rule/>")),
        ("requestPayment", PAYMENT.replace(b"BucketOwner", b"Requester")),
        ("requestPayment", PAYMENT.replace(b"</Payer>", b"</Payer><Payer>Requester</Payer>")),
        ("publicAccessBlock", b"<PublicAccessBlockConfiguration/>"),
        ("encryption", b""),
        ("website", b"<WebsiteConfiguration/>"),
    ],
)
def test_what_is_always_the_same_cannot_be_changed(place: Place, query: str, body: bytes) -> None:
    before = place.ask("GET", f"/{place.bucket}?{query}")
    answer = place.ask("PUT", f"/{place.bucket}?{query}", body)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    after = place.ask("GET", f"/{place.bucket}?{query}")
    assert (after.status, after.code) == (before.status, before.code)


def test_a_setting_that_is_no_document_or_too_deep_is_malformed(place: Place) -> None:
    deep = b"<OwnershipControls>" + b"<Rule>" * 5000 + b"</Rule>" * 5000 + b"</OwnershipControls>"
    for body in (b"<", b"<Payer/>", deep):
        assert place.ask("PUT", f"/{place.bucket}?ownershipControls", body).code == "MalformedXML"


def test_an_annotation_is_not_taken_for_the_object(place: Place) -> None:
    key = place.fresh("annotated")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"data")
    for method in ("GET", "PUT", "DELETE"):
        body = b"a note" if method == "PUT" else b""
        assert place.ask(method, place.path(key, "annotation=&annotationName=a"), body).code == "NotImplemented"
    assert place.stored(key) == b"data"
