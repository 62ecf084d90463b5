from __future__ import annotations

import json
from typing import Any

from tidegate.pools.backends.base import BucketGrant, KeyGrant, Setup
from tidegate.pools.backends.seaweedfs_rights import Administrator, nobody_but, rights, with_proof

ADMIN = Administrator("ADMIN", "admin-secret")


def identities(content: bytes) -> dict[str, Any]:
    return {identity["name"]: identity for identity in json.loads(content)["identities"]}


def test_from_the_first_moment_there_is_an_administrator_and_nobody_else() -> None:
    found = identities(nobody_but(ADMIN))
    assert found["administrator"]["credentials"] == [{"accessKey": "ADMIN", "secretKey": "admin-secret"}]
    for name in ("readwrite", "readonly", "writeonly"):
        assert found[name]["credentials"] == []
    assert found["anonymous"] == {"name": "anonymous", "policyNames": []}


def test_every_configuration_has_the_same_identities_so_that_reading_it_again_replaces_all() -> None:
    setup = Setup((KeyGrant("K", "s", "readonly"),), (BucketGrant("bucket", "public"),))
    assert list(identities(rights(ADMIN, setup))) == list(identities(nobody_but(ADMIN)))


def test_a_key_is_a_credential_of_its_policy_only() -> None:
    setup = Setup(
        (KeyGrant("R", "r", "readonly"), KeyGrant("W", "w", "writeonly"), KeyGrant("A", "a", "readwrite")), ()
    )
    found = identities(rights(ADMIN, setup))
    assert found["readonly"]["credentials"] == [{"accessKey": "R", "secretKey": "r"}]
    assert found["writeonly"]["credentials"] == [{"accessKey": "W", "secretKey": "w"}]
    assert found["readwrite"]["credentials"] == [{"accessKey": "A", "secretKey": "a"}]


def test_anonymous_rights_name_exactly_the_open_buckets() -> None:
    setup = Setup((), (BucketGrant("closed", "none"), BucketGrant("open", "download")))
    content = json.loads(rights(ADMIN, setup))
    policy = next(item for item in content["policies"] if item["name"] == "anonymous")
    statements = json.loads(policy["content"])["Statement"]
    assert [statement["Resource"] for statement in statements] == [["arn:aws:s3:::open", "arn:aws:s3:::open/*"]]
    assert not any("Put" in action or "Delete" in action for action in statements[0]["Action"])


def test_a_proof_is_one_more_credential_of_the_administrator_and_changes_nothing_else() -> None:
    before, after = nobody_but(ADMIN), with_proof(nobody_but(ADMIN), Administrator("PROOF", "p"))
    assert [item["accessKey"] for item in identities(after)["administrator"]["credentials"]] == ["ADMIN", "PROOF"]
    without = json.loads(after)
    without["identities"][0]["credentials"].pop()
    assert without == json.loads(before)
