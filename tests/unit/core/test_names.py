from __future__ import annotations

import pytest

from tidegate.core import names
from tidegate.core.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "7", "demo", "my-pool-2", "a" * 40])
def test_pool_names_of_lowercase_letters_digits_and_hyphens_are_taken(name: str) -> None:
    assert names.check_pool_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a" * 41, "Demo", "-a", "a-", "a_b", "a.b", "a:b", "a/b", "a\n", "ä", "a b", "😀"]
)
def test_other_pool_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a pool name"):
        names.check_pool_name(name)


@pytest.mark.parametrize("name", ["abc", "a" * 63, "my.bucket-1", "1.2.3", "0-0"])
def test_bucket_names_of_s3_are_taken(name: str) -> None:
    assert names.check_bucket_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ab",
            "a" * 64,
            "Abc",
            "a_c",
            ".abc",
            "abc.",
            "-abc",
            "abc-",
            "a..b",
            "a.-b",
            "a-.b",
            "abc\n",
            "a/c",
            "a:c",
            "",
        ),
        *(
            "192.168.5.4",
            "999.1.2.3",
            "xn--abc",
            "sthree-abc",
            "amzn-s3-demo-x",
            "abc-s3alias",
            "abc--ol-s3",
            "abc--x-s3",
        ),
    ],
)
def test_other_bucket_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a bucket name"):
        names.check_bucket_name(name)


@pytest.mark.parametrize("key", ["ABC", "AKIA0123456789ABCDEF", "a" * 128])
def test_access_keys_of_letters_and_digits_are_taken(key: str) -> None:
    assert names.check_access_key(key) == key


@pytest.mark.parametrize("key", ["AB", "a" * 129, "A:B", "A/BC", "ABC\n", "ÄBC"])
def test_other_access_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="is not an access key"):
        names.check_access_key(key)


@pytest.mark.parametrize("label", ["a", "my-pool", "a" * 63])
def test_host_labels_are_taken(label: str) -> None:
    assert names.check_host_label(label) == label


@pytest.mark.parametrize("label", ["", "a.b", "a" * 64, "-a", "a-", "A", "a:b"])
def test_other_host_labels_are_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match="is not a host name"):
        names.check_host_label(label)


@pytest.mark.parametrize("directory", ["relative/path", "", "/a\nb", "/a\x00b", "/" + "a" * 1024])
def test_directories_must_be_absolute_printable_and_not_too_long(directory: str) -> None:
    with pytest.raises(InvalidInput):
        names.check_directory(directory)


def test_directories_may_contain_what_file_systems_allow() -> None:
    assert names.check_directory("/srv/a b:c,ü😀") == "/srv/a b:c,ü😀"


def test_unknown_policies_are_refused_with_the_known_ones_named() -> None:
    with pytest.raises(InvalidInput, match="readwrite, readonly, writeonly"):
        names.check_key_policy("admin")
    with pytest.raises(InvalidInput, match="none, upload, download, public"):
        names.check_bucket_policy("readwrite")
