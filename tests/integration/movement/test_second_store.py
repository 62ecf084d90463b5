"""The second store of the tests: what other tests take for granted of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from running_service import PoolKey, s3_client
from second_store import SecondStore


def test_it_has_its_bucket_and_answers_to_its_credential_alone(make_store: Callable[..., SecondStore]) -> None:
    second_store = make_store()
    second_store.client().put_object(Bucket=second_store.bucket, Key="fixture/key", Body=b"data")
    assert second_store.keys(prefix="fixture/") == {"fixture/key"}
    assert second_store.uploads() == set()
    stranger = s3_client(second_store.url, PoolKey("", second_store.access_key, "wrong"), retries=1)
    with pytest.raises(ClientError):
        stranger.list_objects_v2(Bucket=second_store.bucket)


def test_it_comes_back_at_the_same_address_with_its_contents(make_store: Callable[..., SecondStore]) -> None:
    store = make_store()
    store.client().put_object(Bucket=store.bucket, Key="k", Body=b"data")
    url = store.url
    store.stop()
    store.start()
    assert (store.url, store.keys()) == (url, {"k"})
