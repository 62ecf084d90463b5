"""Many clients changing the same keys at once, each remembering what was acknowledged and what broke."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, HTTPClientError

Tags = tuple[tuple[str, str], ...]
# After a broken request the backend may still be at it; the repetition must come after that.
PAUSE_BEFORE_REPETITION = 0.5
LONGEST_WAIT = 90.0


@dataclass(frozen=True)
class Fact:
    """An acknowledged change, in the words of the log."""

    bucket: str
    operation: str
    key: str
    version_id: str = ""
    etag: str = ""
    upload_id: str = ""
    tags: Tags = ()


@dataclass
class Record:
    """What all clients saw. `broken` counts the tries without an answer."""

    facts: list[Fact] = field(default_factory=list)
    broken: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *facts: Fact) -> None:
        with self.lock:
            self.facts.extend(facts)


class Mixer:
    """One client."""

    def __init__(self, client: Any, buckets: list[str], keys: list[str], record: Record, seed: int) -> None:
        self.client = client
        self.buckets = buckets
        self.keys = keys
        self.record = record
        self.random = random.Random(seed)
        self.versions: list[tuple[str, str, str]] = []
        self.serial = 0
        self.name = f"client-{seed}"

    def run(self, count: int) -> None:
        kinds: list[tuple[Callable[[str, str], None], int]] = [
            (self.put, 35),
            (self.copy, 10),
            (self.delete, 12),
            (self.delete_version, 6),
            (self.delete_several, 6),
            (self.tag, 9),
            (self.untag, 4),
            (self.upload_in_parts, 8),
            (self.abandon_upload, 6),
            (self.leave_upload_open, 4),
        ]
        for _ in range(count):
            operation = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
            operation(self.random.choice(self.buckets), self.random.choice(self.keys))
            with self.record.lock:
                self.record.done += 1

    def put(self, bucket: str, key: str) -> None:
        body = self._body()
        tags = self._tags() if self.random.random() < 0.3 else ()
        extra = {"Tagging": "&".join(f"{name}={value}" for name, value in tags)} if tags else {}
        answer = self._until_acknowledged(lambda: self.client.put_object(Bucket=bucket, Key=key, Body=body, **extra))
        assert _etag(answer) == hashlib.md5(body, usedforsecurity=False).hexdigest()
        self._remember_put(bucket, key, answer, tags=tags)

    def copy(self, bucket: str, key: str) -> None:
        source = self.random.choice(self.keys)
        if source == key:
            return
        answer = self._until_acknowledged(
            lambda: self.client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": source}),
        )
        if answer is not None:
            self.record.add(Fact(bucket, "put", key, answer.get("VersionId", ""), _etag(answer["CopyObjectResult"])))

    def delete(self, bucket: str, key: str) -> None:
        answer = self._until_acknowledged(lambda: self.client.delete_object(Bucket=bucket, Key=key))
        kind = "delete-marker" if answer.get("DeleteMarker") else "delete"
        self.record.add(Fact(bucket, kind, key, answer.get("VersionId", "") if answer.get("DeleteMarker") else ""))

    def delete_version(self, *_: str) -> None:
        if not self.versions:
            return
        bucket, key, version = self.versions.pop(self.random.randrange(len(self.versions)))
        self._until_acknowledged(lambda: self.client.delete_object(Bucket=bucket, Key=key, VersionId=version))
        self.record.add(Fact(bucket, "delete", key, version))

    def delete_several(self, bucket: str, _: str) -> None:
        keys = self.random.sample(self.keys, 4)
        wanted = {"Objects": [{"Key": key} for key in keys]}
        answer = self._until_acknowledged(lambda: self.client.delete_objects(Bucket=bucket, Delete=wanted))
        assert not answer.get("Errors"), answer["Errors"]
        for entry in answer["Deleted"]:
            kind = "delete-marker" if entry.get("DeleteMarker") else "delete"
            self.record.add(Fact(bucket, kind, entry["Key"], entry.get("DeleteMarkerVersionId", "")))

    def tag(self, bucket: str, key: str) -> None:
        tags = self._tags()
        wanted = {"TagSet": [{"Key": name, "Value": value} for name, value in tags]}
        answer = self._until_acknowledged(
            lambda: self.client.put_object_tagging(Bucket=bucket, Key=key, Tagging=wanted)
        )
        if answer is not None:
            self.record.add(Fact(bucket, "tagging", key, tags=tags))

    def untag(self, bucket: str, key: str) -> None:
        answer = self._until_acknowledged(lambda: self.client.delete_object_tagging(Bucket=bucket, Key=key))
        if answer is not None:
            self.record.add(Fact(bucket, "tagging", key))

    def upload_in_parts(self, bucket: str, key: str) -> None:
        upload = self._start_upload(bucket, key)
        body = self._body()
        part = self._until_acknowledged(
            lambda: self.client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=body),
        )
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        answer = self._until_acknowledged(
            lambda: self.client.complete_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=parts
            ),
        )
        if answer is not None:  # else a try without an answer has completed it
            self._remember_put(bucket, key, answer, upload=upload)

    def abandon_upload(self, bucket: str, key: str) -> None:
        upload = self._start_upload(bucket, key)
        answer = self._until_acknowledged(
            lambda: self.client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
        )
        if answer is not None:
            self.record.add(Fact(bucket, "upload-aborted", key, upload_id=upload))

    def leave_upload_open(self, bucket: str, key: str) -> None:
        self._start_upload(bucket, key)

    def _start_upload(self, bucket: str, key: str) -> str:
        answer = self._until_acknowledged(lambda: self.client.create_multipart_upload(Bucket=bucket, Key=key))
        self.record.add(Fact(bucket, "upload-started", key, upload_id=answer["UploadId"]))
        return str(answer["UploadId"])

    def _remember_put(self, bucket: str, key: str, answer: Any, *, tags: Tags = (), upload: str = "") -> None:
        version = answer.get("VersionId", "")
        self.record.add(Fact(bucket, "put", key, version, _etag(answer), upload, tags))
        if version and version != "null":
            self.versions.append((bucket, key, version))

    def _until_acknowledged(self, request: Callable[[], Any]) -> Any:
        """The answer; None where there is nothing to change (any more)."""
        give_up = time.monotonic() + LONGEST_WAIT
        while True:
            try:
                return request()
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if status == 404:
                    return None
                if status < 500 or time.monotonic() > give_up:
                    raise
            except HTTPClientError:
                if time.monotonic() > give_up:
                    raise
            with self.record.lock:
                self.record.broken += 1
            time.sleep(PAUSE_BEFORE_REPETITION)

    def _body(self) -> bytes:
        """Never the same twice, so that an ETag names one request."""
        self.serial += 1
        return f"{self.name} {self.serial} ".encode() + self.random.randbytes(self.random.randrange(200))

    def _tags(self) -> Tags:
        self.serial += 1
        return (("by", self.name), ("serial", str(self.serial)))


def _etag(answer: Any) -> str:
    return str(answer["ETag"]).strip('"')
