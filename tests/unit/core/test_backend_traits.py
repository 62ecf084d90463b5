"""Keys that a backend would rename, hide or lose are recognised."""

import pytest

from tidegate.core.backend_traits import body_problem, bucket_problem, has_encryption_keys, key_problem


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "a/b",
        "a/",
        "a.b/c",
        ".x",
        "..x",
        "a/...",
        "a:b\n",
        "tab\t, return\r, delete\x7f",
        "\x80\x9f\xad\u2028\ufeff\ufffd\U0010ffff",
        "a.versions",
        "versions/x",
        "uploads/x",
        "x.uploads/y",
        "😀",
    ],
)
def test_ordinary_keys_are_held_by_every_backend(key):
    assert key_problem("seaweedfs", key) == ""
    assert key_problem("minio", key) == ""


@pytest.mark.parametrize("key", [".", "..", "../x", "a/./b", "a/..", "a/../b", "./"])
def test_dot_segments_are_held_by_no_backend(key):
    assert "segment" in key_problem("seaweedfs", key)
    assert "segment" in key_problem("versitygw", key)


@pytest.mark.parametrize(
    "key", ["a//b", "/a", "a//", "a\\b", ".uploads", ".uploads/x", "a/.uploads/x", "a.versions/x", ".versions/x"]
)
def test_seaweedfs_holds_no_key_that_it_would_rename_or_hide(key):
    assert key_problem("seaweedfs", key) != ""
    assert key_problem("minio", key) == ""


@pytest.mark.parametrize("character", [*map(chr, [*range(9), 0xB, 0xC, *range(0xE, 0x20)]), "\ufffe", "\uffff"])
@pytest.mark.parametrize("form", ["{}", "a{}b", "a{}/b", "a/{}"])
def test_seaweedfs_holds_no_key_that_its_listings_would_garble(character, form):
    assert "XML" in key_problem("seaweedfs", form.format(character))
    assert key_problem("minio", form.format(character)) == ""


def test_seaweedfs_has_no_keys_of_its_own_to_encrypt_with():
    assert not has_encryption_keys("seaweedfs")
    assert has_encryption_keys("minio")


def test_seaweedfs_would_drop_the_data_of_a_key_that_ends_in_a_slash():
    assert "drop the data" in body_problem("seaweedfs", "folder/", 1)
    assert body_problem("seaweedfs", "folder/", 0) == ""
    assert body_problem("seaweedfs", "file", 1) == ""
    assert body_problem("minio", "folder/", 1) == ""


def test_seaweedfs_has_no_bucket_where_it_tells_whether_it_is_alive():
    for name in ("status", "healthz", "readyz"):
        assert name in bucket_problem("seaweedfs", name)
        assert bucket_problem("minio", name) == ""
    for name in ("metrics", "status2", "my-status", "buckets"):
        assert bucket_problem("seaweedfs", name) == ""
