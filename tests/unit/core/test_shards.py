"""Shards and hashes come from one sha256 of `bucket/key`."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.shards import BUCKET_BITS, SHARDS, bucket_day, key_hash, shard


def test_known_values_stay_what_they_are():
    """sha256 of photos/2024/a.jpg begins with 7b1c0b5dfadb22b4, that of b/12 with the digits below."""
    assert (shard("photos", "2024/a.jpg"), key_hash("photos", "2024/a.jpg")) == (7, 0x7B1C0B5DFADB22B4)
    assert (shard("b", "12"), key_hash("b", "12")) == (15, 0xF2BD813760AB6C18 - 2**64)


@given(st.text(max_size=20), st.text(max_size=40))
def test_shard_is_the_top_of_the_hash_and_the_hash_fits_a_signed_bigint(bucket, key):
    assert 0 <= shard(bucket, key) < SHARDS
    assert -(2**63) <= key_hash(bucket, key) < 2**63
    assert (key_hash(bucket, key) % 2**64) >> 60 == shard(bucket, key)


def test_keys_spread_over_all_shards():
    assert {shard("b", f"key-{number}") for number in range(500)} == set(range(SHARDS))


@given(st.text(max_size=20), st.integers(-100_000, 100_000))
def test_the_days_of_buckets_lie_together_and_fit_a_signed_bigint(uid, day):
    assert bucket_day(uid, day) >> BUCKET_BITS == day
    assert bucket_day(uid, day) - bucket_day(uid, 0) == day << BUCKET_BITS
    assert -(2**63) <= bucket_day(uid, day) < 2**63


def test_buckets_have_numbers_of_their_own():
    assert len({bucket_day(f"uid-{number}", 20_000) for number in range(500)}) == 500
