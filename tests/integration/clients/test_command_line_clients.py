"""aws, s3cmd and rclone through the gateway and directly at the backend: same commands, same results."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import httpx
from shell import Shell
from ways import MIB, Files, Way, Ways


def test_aws_creates_uploads_lists_copies_reads_tags_versions_and_deletes(
    ways: Ways, files: Files, tmp_path: Path
) -> None:
    def script(way: Way) -> Any:
        bucket = f"aws-{way.name}"
        address = f"s3://{bucket}"
        aws = Shell(way, tmp_path, "aws", "--endpoint-url", way.url)
        aws("s3", "mb", address)
        for name in files.sizes:
            aws("s3", "cp", "--quiet", str(files.path(name)), f"{address}/{name}")
        sizes = [line.split()[2:] for line in aws("s3", "ls", f"{address}/").splitlines()]
        aws("s3", "cp", "--quiet", f"{address}/hundred-mib", f"{address}/copy")
        aws("s3", "cp", "--quiet", f"{address}/copy", "back")
        one = ("--bucket", bucket, "--key", "five-mib")
        aws("s3api", "get-object", *one, "--range", "bytes=10-19", "part")
        aws("s3api", "put-object-tagging", *one, "--tagging", "TagSet=[{Key=a,Value=b}]")
        tags = aws.json("s3api", "get-object-tagging", *one)["TagSet"]
        presigned = httpx.get(aws("s3", "presign", f"{address}/one-byte").strip(), timeout=30)
        aws("s3api", "put-bucket-versioning", "--bucket", bucket, "--versioning-configuration", "Status=Enabled")
        aws("s3", "cp", "--quiet", str(files.path("one-byte")), f"{address}/five-mib")
        aws("s3", "rm", "--quiet", f"{address}/five-mib")
        versions = aws.json("s3api", "list-object-versions", "--bucket", bucket, "--prefix", "five-mib")
        aws("s3", "rm", "--quiet", "--recursive", address)
        left = aws("s3", "ls", f"{address}/")
        return (
            sizes,
            _digest(aws.home / "back"),
            (aws.home / "part").read_bytes(),
            tags,
            (presigned.status_code, presigned.content),
            (len(versions["Versions"]), len(versions["DeleteMarkers"])),
            left,
        )

    sizes, back, part, tags, presigned, versions, left = ways.compared(script)
    assert sorted(sizes) == sorted([str(size), name] for name, size in files.sizes.items())
    assert back == _digest(files.path("hundred-mib"))
    assert part == files.contents("five-mib")[10:20]
    assert tags == [{"Key": "a", "Value": "b"}]
    assert presigned == (200, files.contents("one-byte"))
    assert (versions, left) == ((2, 1), "")


def test_s3cmd_creates_uploads_lists_copies_reads_tags_versions_and_deletes(
    ways: Ways, files: Files, tmp_path: Path
) -> None:
    def script(way: Way) -> Any:
        address = f"s3://s3cmd-{way.name}"
        s3cmd = Shell(
            way,
            tmp_path,
            "s3cmd",
            *("--config", "/dev/null", "--no-ssl", "--host", way.authority, "--host-bucket", way.authority),
            *("--access_key", way.key.access_key, "--secret_key", way.key.secret_key, "--no-progress"),
        )
        s3cmd("mb", address)
        for name in files.sizes:
            s3cmd("put", str(files.path(name)), f"{address}/{name}")
        sizes = sorted(line.split()[2:] for line in s3cmd("ls", address).splitlines())
        s3cmd("cp", f"{address}/five-mib", f"{address}/copy")
        s3cmd("get", f"{address}/hundred-mib", "back")
        (s3cmd.home / "copied").write_bytes(files.contents("five-mib")[:MIB])
        s3cmd("get", "--continue", f"{address}/copy", "copied")  # reads the range that is missing
        s3cmd("settagging", f"{address}/five-mib", "a=b")
        tags = s3cmd("gettagging", f"{address}/five-mib").split()[-1]
        s3cmd("setversioning", address, "enable")
        s3cmd("put", str(files.path("one-byte")), f"{address}/five-mib")
        s3cmd("del", "--recursive", "--force", address)
        versions = way.s3().list_object_versions(Bucket=f"s3cmd-{way.name}", Prefix="five-mib")
        counts = len(versions["Versions"]), len(versions["DeleteMarkers"])
        names = [[size, re.sub(r"s3://[^/]+/", "", name)] for size, name in sizes]
        return names, _digest(s3cmd.home / "back"), _digest(s3cmd.home / "copied"), tags, counts, s3cmd("ls", address)

    sizes, back, copied, tags, versions, left = ways.compared(script)
    assert sizes == sorted([str(size), name] for name, size in files.sizes.items())
    assert (back, copied) == (_digest(files.path("hundred-mib")), _digest(files.path("five-mib")))
    assert tags == "b"
    assert (versions, left) == ((2, 1), "")


def test_rclone_creates_uploads_lists_copies_reads_versions_and_deletes(
    ways: Ways, files: Files, tmp_path: Path
) -> None:
    def script(way: Way) -> Any:
        bucket = f"store:rclone-{way.name}"
        rclone = Shell(
            way,
            tmp_path,
            "rclone",
            *("--config", "/dev/null", "--low-level-retries", "2", "--retries", "1"),
            RCLONE_CONFIG_STORE_TYPE="s3",
            RCLONE_CONFIG_STORE_PROVIDER="Other",
            RCLONE_CONFIG_STORE_ENDPOINT=way.url,
            RCLONE_CONFIG_STORE_ENV_AUTH="true",
            RCLONE_CONFIG_STORE_UPLOAD_CUTOFF="16M",
            RCLONE_CONFIG_STORE_CHUNK_SIZE="16M",
        )
        rclone("mkdir", bucket)
        rclone("copy", str(files.directory), bucket)
        listed = sorted((e["Path"], e["Size"]) for e in rclone.json("lsjson", bucket))
        rclone("copyto", f"{bucket}/hundred-mib", f"{bucket}/copy")
        rclone("check", "--download", str(files.directory), bucket, "--one-way")
        part = rclone("cat", "--offset", "0", "--count", "1", f"{bucket}/one-byte")
        presigned = httpx.get(rclone("link", "--expire", "60s", f"{bucket}/one-byte").strip(), timeout=30)
        rclone("backend", "versioning", bucket, "Enabled")
        versioning = rclone("backend", "versioning", bucket).strip()
        rclone("deletefile", f"{bucket}/copy")
        rclone("delete", bucket)
        return listed, part, (presigned.status_code, presigned.content), versioning, rclone.json("lsjson", bucket)

    listed, _, presigned, versioning, left = ways.compared(script)
    assert listed == sorted(files.sizes.items())
    assert presigned == (200, files.contents("one-byte"))
    assert versioning.strip('"') == "Enabled"
    assert left == []


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
