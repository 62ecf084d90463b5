"""What pools, buckets, keys and hosts may be called. Every check returns the name or raises `InvalidInput`."""

from __future__ import annotations

import re
from ipaddress import IPv4Address

from tidegate.core.errors import InvalidInput
from tidegate.core.records import BucketPolicy, KeyPolicy

_POOL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ACCESS_KEY = re.compile(r"[A-Za-z0-9]{3,128}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_RESERVED_BUCKET_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_BUCKET_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_LONGEST_DIRECTORY = 1024


def check_pool_name(name: str) -> str:
    if not _POOL.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a pool name: use 1 to 40 lowercase letters, digits and hyphens, "
            "beginning and ending with a letter or digit"
        )
    return name


def check_bucket_name(name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a bucket name: use 3 to 63 lowercase letters, digits, hyphens and dots, "
            "beginning and ending with a letter or digit"
        )
    if ".." in name or ".-" in name or "-." in name:
        raise InvalidInput(f"{name!r} is not a bucket name: a dot must stand between letters or digits")
    if _looks_like_an_address(name):
        raise InvalidInput(f"{name!r} is not a bucket name: it has the form of an IP address")
    if name.startswith(_RESERVED_BUCKET_STARTS) or name.endswith(_RESERVED_BUCKET_ENDS):
        raise InvalidInput(f"{name!r} is not a bucket name: S3 reserves this beginning or ending")
    return name


def check_access_key(access_key: str) -> str:
    if not _ACCESS_KEY.fullmatch(access_key):
        raise InvalidInput(f"{access_key!r} is not an access key: use 3 to 128 letters and digits")
    return access_key


def check_host_label(name: str) -> str:
    """The part of a direct host name before the domain."""
    if not _LABEL.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a host name: use 1 to 63 lowercase letters, digits and hyphens, without dots, "
            "beginning and ending with a letter or digit"
        )
    return name


def check_directory(directory: str) -> str:
    if not directory.startswith("/"):
        raise InvalidInput(f"the directory {directory!r} must be an absolute path")
    if any(ord(character) < 32 or ord(character) == 127 for character in directory):
        raise InvalidInput(f"the directory {directory!r} must not contain control characters")
    if len(directory.encode("utf-8", "surrogateescape")) > _LONGEST_DIRECTORY:
        raise InvalidInput(f"the directory must not be longer than {_LONGEST_DIRECTORY} bytes")
    return directory


def check_key_policy(policy: str) -> str:
    return _one_of("key policy", policy, [str(choice) for choice in KeyPolicy])


def check_bucket_policy(policy: str) -> str:
    return _one_of("bucket policy", policy, [str(choice) for choice in BucketPolicy])


def _one_of(what: str, given: str, choices: list[str]) -> str:
    if given not in choices:
        raise InvalidInput(f"{given!r} is not a {what}: choose one of {', '.join(choices)}")
    return given


def _looks_like_an_address(name: str) -> bool:
    try:
        IPv4Address(name)
    except ValueError:
        return bool(re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name))
    return True
