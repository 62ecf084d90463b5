"""Buckets and keys from paths, host names and copy sources."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.s3errors import S3Error
from tidegate.core.targets import parse_copy_source, parse_target

DOMAINS = ("localhost", "s3.example.org", "example.org")


def code_of(call, *arguments):
    with pytest.raises(S3Error) as refused:
        call(*arguments)
    return refused.value.code


@pytest.mark.parametrize(
    ("path", "bucket", "key"),
    [
        (b"/", "", ""),
        (b"/b", "b", ""),
        (b"/b/", "b", ""),
        (b"/b/k", "b", "k"),
        (b"/b/a/b/", "b", "a/b/"),
        (b"/b//k", "b", "/k"),
        (b"/b/a%2Fb%20c+d", "b", "a/b c+d"),
        (b"/b/a%0Ab%3Ac%F0%9F%98%80", "b", "a\nb:c\N{GRINNING FACE}"),
        (b"/b/" + b"k" * 1024, "b", "k" * 1024),
        (b"/b%2Fx/k", "b/x", "k"),
    ],
)
def test_path_names_bucket_and_key(path, bucket, key):
    assert parse_target(path, "127.0.0.1:9000", DOMAINS) == (bucket, key, "path")


@pytest.mark.parametrize(
    ("host", "bucket"),
    [
        ("photos.localhost", "photos"),
        ("photos.localhost:9000", "photos"),
        ("Photos.LocalHost.", "photos"),
        ("a.b.example.org", "a.b"),
        ("a.b.s3.example.org:80", "a.b"),
    ],
)
def test_host_under_a_domain_names_the_bucket(host, bucket):
    assert parse_target(b"/a/b", host, DOMAINS) == (bucket, "a/b", "virtual")
    assert parse_target(b"/", host, DOMAINS) == (bucket, "", "virtual")
    assert parse_target(b"//x", host, DOMAINS) == (bucket, "/x", "virtual")


@pytest.mark.parametrize(
    "host", ["localhost:9000", "s3.example.org", "example.org", "notlocalhost", "[::1]:9000", "other.host", "", ":80"]
)
def test_other_hosts_mean_path_style(host):
    assert parse_target(b"/b/k", host, DOMAINS) == ("b", "k", "path")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"", "InvalidURI"),
        (b"*", "InvalidURI"),
        (b"b/k", "InvalidURI"),
        (b"//b/k", "InvalidURI"),
        (b"/b/%", "InvalidURI"),
        (b"/b/%2", "InvalidURI"),
        (b"/b/%zz", "InvalidURI"),
        (b"/b/%ff", "InvalidURI"),
        (b"/b/\xc3", "InvalidURI"),
        (b"/b/%ed%a0%80", "InvalidURI"),
        (b"/b/a%00b", "InvalidURI"),
        (b"/%ff/k", "InvalidURI"),
        (b"/b/" + b"k" * 1025, "KeyTooLongError"),
        (b"/b/" + b"%C3%A4" * 513, "KeyTooLongError"),
    ],
)
def test_unusable_path_is_refused(path, code):
    assert code_of(parse_target, path, "localhost", DOMAINS) == code


def test_overlong_host_is_refused():
    assert code_of(parse_target, b"/", "h" * 600, DOMAINS) == "InvalidRequest"


keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@given(keys)
def test_any_key_survives_its_encoding(key):
    assert parse_target(f"/b/{quote(key, safe='/~')}".encode(), "h", ()).key == key
    assert parse_target(f"/{quote(key, safe='')}".encode(), "b.d", ("d",)).key == key
    assert parse_copy_source(f"b/{quote(key)}".encode()) == ("b", key, "")


@given(st.binary(max_size=60), st.text(max_size=20))
def test_any_path_and_host_are_read_or_refused(path, host):
    try:
        parse_target(b"/" + path, host, DOMAINS)
    except S3Error as refused:
        assert refused.status == 400


@pytest.mark.parametrize(
    ("value", "source"),
    [
        (b"/b/k", ("b", "k", "")),
        (b"b/k/l", ("b", "k/l", "")),
        (b"%2Fb%2Fk", ("b", "k", "")),
        (b"b/a%3Fb?versionId=v%2F1", ("b", "a?b", "v/1")),
        (b" b/k ", ("b", "k", "")),
    ],
)
def test_copy_source_names_bucket_key_and_version(value, source):
    assert parse_copy_source(value) == source


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "InvalidArgument"),
        (b"/", "InvalidArgument"),
        (b"b", "InvalidArgument"),
        (b"b/", "InvalidArgument"),
        (b"//b/k", "InvalidArgument"),
        (b"b/k?x=1", "InvalidArgument"),
        (b"b/k?versionId=", "InvalidArgument"),
        (b"b/k?versionId=1&versionId=2", "InvalidArgument"),
        (b"b/k?\xff", "InvalidArgument"),
        (b"b/%zz", "InvalidURI"),
        (b"b/" + b"k" * 1025, "KeyTooLongError"),
        (b"arn:aws:s3:r:1:accesspoint/x/object/k", "NotImplemented"),
    ],
)
def test_unusable_copy_source_is_refused(value, code):
    assert code_of(parse_copy_source, value) == code
