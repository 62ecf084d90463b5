"""Lines of the access log: combined format, and no way for a client to forge one."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.http.access_log import AccessLine
from tidegate.gateway.http.http1 import BadMessage, RequestHead
from tidegate.logs import AccessLog
from tidegate.settings import LogSettings

LINE = re.compile(
    r'(?P<peer>\S+) - (?P<user>\S+) \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "(?P<request>(?:[^"\\]|\\.)*)"'
    r' (?P<status>\d+) (?P<sent>\d+) "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"'
)


def written(directory: Path, head: RequestHead, *, user: str | None = None, peer: str = "10.1.2.3") -> dict[str, str]:
    log = AccessLog.open(LogSettings(access_file="access.log"), directory)
    admission = SimpleNamespace(key=SimpleNamespace(access_key=user) if user else None) if user else None
    exchange = SimpleNamespace(admission=admission, head=head, peer=peer, status=206, sent_bytes=42)
    AccessLine(log).write(exchange)  # type: ignore[arg-type]
    log.close()
    (line,) = (directory / "access.log").read_text().splitlines()
    (directory / "access.log").unlink()
    match = LINE.fullmatch(line)
    assert match is not None, line
    return match.groupdict()


def head(target: bytes = b"/b/k", headers: bytes = b"") -> RequestHead:
    return RequestHead(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n" + headers + b"\r\n")


def test_a_line_says_who_what_and_how_it_ended(tmp_path: Path) -> None:
    found = written(tmp_path, head(b"/b/k?x=1", b"User-Agent: aws-cli/2\r\nReferer: http://r\r\n"), user="AKIA")
    assert found == {
        "peer": "10.1.2.3",
        "user": "AKIA",
        "request": "GET /b/k?x=1 HTTP/1.1",
        "status": "206",
        "sent": "42",
        "referer": "http://r",
        "agent": "aws-cli/2",
    }


def test_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    found = written(tmp_path, head())
    assert (found["user"], found["referer"], found["agent"]) == ("-", "-", "-")


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (b'quote " quote', r"quote \" quote"),
        (b"back\\slash", r"back\\slash"),
        (b'\\" 200 0 "-" "forged', r"\\\" 200 0 \"-\" \"forged"),
        (b"caf\xc3\xa9 \xff", r"caf\xc3\xa9 \xff"),
        (b"tab\there", "tab\there"),
    ],
)
def test_odd_characters_are_escaped(tmp_path: Path, sent: bytes, logged: str) -> None:
    assert written(tmp_path, head(headers=b"User-Agent: " + sent + b"\r\n"))["agent"] == logged


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_whatever_a_client_sends_is_one_line_of_the_same_form(
    tmp_path_factory: pytest.TempPathFactory, target: bytes, agent: bytes
) -> None:
    try:
        request = head(b"/" + target, b"User-Agent: " + agent + b"\r\n")
    except BadMessage:
        return
    assert written(tmp_path_factory.mktemp("log"), request)["status"] == "206"


def test_a_request_without_a_readable_head_has_a_line_too(tmp_path: Path) -> None:
    log = AccessLog.open(LogSettings(access_file="access.log"), tmp_path)
    AccessLine(log).write_malformed("10.1.2.3", 400)
    log.close()
    match = LINE.fullmatch((tmp_path / "access.log").read_text().strip())
    assert match is not None
    assert (match["request"], match["status"]) == ("-", "400")
