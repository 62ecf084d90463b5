"""Keys that a backend would rename, hide or lose are recognised."""

import pytest

from tidegate.core.backend_traits import traits_of

SEAWEEDFS, MINIO, VERSITYGW = (traits_of(kind) for kind in ("seaweedfs", "minio", "versitygw"))


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
    assert SEAWEEDFS.key_problem(key) == ""
    assert MINIO.key_problem(key) == ""


@pytest.mark.parametrize("key", [".", "..", "../x", "a/./b", "a/..", "a/../b", "./"])
def test_dot_segments_are_held_by_no_backend(key):
    assert "segment" in SEAWEEDFS.key_problem(key)
    assert "segment" in VERSITYGW.key_problem(key)


@pytest.mark.parametrize(
    "key", ["a//b", "/a", "a//", "a\\b", ".uploads", ".uploads/x", "a/.uploads/x", "a.versions/x", ".versions/x"]
)
def test_seaweedfs_holds_no_key_that_it_would_rename_or_hide(key):
    assert SEAWEEDFS.key_problem(key) != ""
    assert MINIO.key_problem(key) == ""


@pytest.mark.parametrize("character", [*map(chr, [*range(9), 0xB, 0xC, *range(0xE, 0x20)]), "\ufffe", "\uffff"])
@pytest.mark.parametrize("form", ["{}", "a{}b", "a{}/b", "a/{}"])
def test_seaweedfs_holds_no_key_that_its_listings_would_garble(character, form):
    assert "XML" in SEAWEEDFS.key_problem(form.format(character))
    assert MINIO.key_problem(form.format(character)) == ""


def test_seaweedfs_has_no_keys_of_its_own_to_encrypt_with():
    assert not SEAWEEDFS.has_encryption_keys
    assert MINIO.has_encryption_keys


def test_seaweedfs_would_drop_the_data_of_a_key_that_ends_in_a_slash():
    assert "drop the data" in SEAWEEDFS.body_problem("folder/", 1)
    assert SEAWEEDFS.body_problem("folder/", 0) == ""
    assert SEAWEEDFS.body_problem("file", 1) == ""
    assert MINIO.body_problem("folder/", 1) == ""


def test_seaweedfs_has_no_bucket_where_it_tells_whether_it_is_alive():
    for name in ("status", "healthz", "readyz"):
        assert name in SEAWEEDFS.bucket_problem(name)
        assert MINIO.bucket_problem(name) == ""
    for name in ("metrics", "status2", "my-status", "buckets"):
        assert SEAWEEDFS.bucket_problem(name) == ""
