"""What docs/s3-compatibility.md says of each operation, and the operations that botocore knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import botocore.session

PAGE = Path(__file__).parent.parent / "docs" / "s3-compatibility.md"
MODEL = botocore.session.get_session().get_service_model("s3")
_ROW = re.compile(r"^\| `(\w+)` \| (supported|not configured|refused) \| (.*)\|$", re.MULTILINE)
_ANSWER = re.compile(r"(\d{3})(?: `(\w+)`)?")

# S3 has them as requests, and botocore not as operations.
BEYOND_BOTOCORE = frozenset(("CorsPreflight", "PostObject"))
# Two names for one request.
OLDER_NAMES = {
    "GetBucketLifecycle": "GetBucketLifecycleConfiguration",
    "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
}


class Row(NamedTuple):
    """`status` and `code` are those of the answer to what is not configured or refused; no code is a success."""

    name: str
    standing: str
    status: int = 0
    code: str = ""


def rows() -> list[Row]:
    return [_row(*found) for found in _ROW.findall(PAGE.read_text())]


def _row(name: str, standing: str, text: str) -> Row:
    if standing == "supported":
        return Row(name, standing)
    answer = _ANSWER.match(text)
    assert answer is not None, f"{name}: what is the answer?"
    return Row(name, standing, int(answer[1]), answer[2] or "")
