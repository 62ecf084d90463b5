"""ACLs are switched off: the owner has full control, and nothing else can be granted."""

from __future__ import annotations

from typing import Any

import pytest
from places import Place

CANNED_ACLS = ("public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read")
REFUSED = [
    *(({"ACL": name}, "AccessControlListNotSupported") for name in CANNED_ACLS),
    ({"ACL": "Private"}, "InvalidArgument"),
    ({"GrantRead": 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'}, "AccessControlListNotSupported"),
    ({"ACL": "private", "GrantFullControl": 'id="x"'}, "AccessControlListNotSupported"),
]
PUTS = ("put_object", "copy_object", "create_multipart_upload")


def answered(client: Any, method: str, **given: Any) -> tuple[int, str]:
    try:
        return getattr(client, method)(**given)["ResponseMetadata"]["HTTPStatusCode"], ""
    except client.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


def acl_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("Owner", "Grants")}


def test_the_owner_of_buckets_and_objects_has_full_control(place: Place) -> None:
    key = place.fresh("acl: ü\n\U0001f600")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    found = acl_of(place.s3.get_object_acl(Bucket=place.bucket, Key=key))
    owner = place.s3.list_buckets()["Owner"]
    assert found["Owner"] == owner
    assert found["Grants"] == [{"Grantee": {**owner, "Type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}]
    assert acl_of(place.s3.get_bucket_acl(Bucket=place.bucket)) == found


def test_the_acl_that_is_shown_may_be_put_again_and_others_not(place: Place) -> None:
    key = place.fresh("acl")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    shown = acl_of(place.s3.get_bucket_acl(Bucket=place.bucket))
    everybody = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}
    opened = {**shown, "Grants": [*shown["Grants"], {"Grantee": everybody, "Permission": "READ"}]}
    for method, where in (("put_bucket_acl", {}), ("put_object_acl", {"Key": key})):
        where |= {"Bucket": place.bucket}
        assert answered(place.s3, method, AccessControlPolicy=shown, **where) == (200, "")
        for name in ("private", "bucket-owner-full-control"):
            assert answered(place.s3, method, ACL=name, **where) == (200, "")
        assert answered(place.s3, method, AccessControlPolicy=opened, **where) == (400, "AccessControlListNotSupported")
        for given, code in REFUSED:
            assert answered(place.s3, method, **given, **where) == (400, code)
        assert answered(place.s3, method, **where) == (400, "MissingSecurityHeader")
    assert acl_of(place.s3.get_object_acl(Bucket=place.bucket, Key=key)) == shown
    assert place.anonymous("GET", place.path(key)).status == 403


@pytest.mark.parametrize("method", PUTS)
def test_an_object_is_not_made_with_an_acl_that_grants_something(place: Place, method: str) -> None:
    source = place.fresh("source")
    place.s3.put_object(Bucket=place.bucket, Key=source, Body=b"x")
    more = {"CopySource": f"{place.bucket}/{source}"} if method == "copy_object" else {}
    for given, code in REFUSED:
        refused = place.fresh("refused")
        assert answered(place.s3, method, Bucket=place.bucket, Key=refused, **given, **more) == (400, code)
        assert place.stored(refused) is None
        assert "Uploads" not in place.s3.list_multipart_uploads(Bucket=place.bucket, Prefix=refused)
    for name in ("private", "bucket-owner-full-control"):
        made = answered(place.s3, method, Bucket=place.bucket, Key=place.fresh("made"), ACL=name, **more)
        assert made == (200, "")


def test_a_bucket_is_not_made_with_acls(place: Place) -> None:
    for given, code in (*REFUSED, ({"ACL": "bucket-owner-full-control"}, "AccessControlListNotSupported")):
        assert answered(place.s3, "create_bucket", Bucket="acl-refused", **given) == (400, code)
    refused = answered(place.s3, "create_bucket", Bucket="acl-refused", ObjectOwnership="ObjectWriter")
    assert refused == (501, "NotImplemented")
    assert answered(place.s3, "head_bucket", Bucket="acl-refused") == (404, "404")
    stated = {"ACL": "private", "ObjectOwnership": "BucketOwnerEnforced"}
    assert answered(place.s3, "create_bucket", Bucket="acl-private", **stated) == (200, "")


def test_what_is_not_there_has_no_acl(place: Place) -> None:
    place.s3.create_bucket(Bucket="acl-versions")
    place.s3.put_bucket_versioning(Bucket="acl-versions", VersioningConfiguration={"Status": "Enabled"})
    version = place.s3.put_object(Bucket="acl-versions", Key="k", Body=b"x")["VersionId"]
    marker = place.s3.delete_object(Bucket="acl-versions", Key="k")["VersionId"]
    for method, given in (("get_object_acl", {}), ("put_object_acl", {"ACL": "private"})):

        def asked(method: str = method, given: dict[str, str] = given, **where: str) -> tuple[int, str]:
            return answered(place.s3, method, **({"Bucket": "acl-versions", "Key": "k"} | given | where))

        assert asked() == (404, "NoSuchKey")
        assert asked(VersionId=version) == (200, "")
        assert asked(VersionId=marker) == (405, "MethodNotAllowed")
        assert asked(VersionId="0" * 32) == (404, "NoSuchVersion")
        assert asked(Key="never") == (404, "NoSuchKey")
        assert asked(Bucket="acl-nowhere") == (404, "NoSuchBucket")
    for query in ("acl=", f"acl=&versionId={marker}"):
        assert place.ask("GET", f"/acl-versions/k?{query}").headers["x-amz-delete-marker"] == "true"


def test_the_acl_of_an_object_with_a_customers_key_is_shown_without_the_key(place: Place) -> None:
    key = place.fresh("encrypted")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)
    assert answered(place.s3, "get_object_acl", Bucket=place.bucket, Key=key) == (200, "")


def test_rights_are_those_of_reading_and_writing(place: Place) -> None:
    key = place.fresh("acl")
    place.s3.put_object(Bucket=place.bucket, Key=key, Body=b"x")
    service, where = place.service, {"Bucket": place.bucket, "Key": key}
    reader = service.s3(service.create_key(place.key.pool, "--policy", "readonly"))
    writer = service.s3(service.create_key(place.key.pool, "--policy", "writeonly"))
    rival = service.s3(service.create_pool("acl-rival"))
    assert answered(reader, "get_object_acl", **where) == answered(writer, "put_object_acl", ACL="private", **where)
    for client, method, given in (
        (reader, "put_object_acl", {"ACL": "private"}),
        (writer, "get_object_acl", {}),
        (rival, "get_object_acl", {}),
        (rival, "put_object_acl", {"ACL": "private"}),
        (service.s3(None), "get_object_acl", {}),
    ):
        assert answered(client, method, **where, **given) == (403, "AccessDenied")
