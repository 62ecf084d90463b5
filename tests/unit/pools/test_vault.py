from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.pools.vault import KEY_FILE, Vault


def test_what_was_sealed_can_be_unsealed_by_another_process_of_the_same_directory(tmp_path: Path) -> None:
    sealed = Vault.open(tmp_path).seal("geheim 😀")
    assert Vault.open(tmp_path).unseal(sealed) == "geheim 😀"


def test_sealed_text_does_not_show_the_secret_and_differs_each_time(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path)
    first, second = vault.seal("topsecret"), vault.seal("topsecret")
    assert first != second
    assert b"topsecret" not in base64.b64decode(first.partition(":")[2])


def test_the_key_file_is_private(tmp_path: Path) -> None:
    Vault.open(tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused_with_advice(tmp_path: Path, mode: int) -> None:
    Vault.open(tmp_path)
    (tmp_path / KEY_FILE).chmod(mode)
    with pytest.raises(InvalidInput, match="chmod 600"):
        Vault.open(tmp_path)


def test_many_first_openings_at_once_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        vaults = list(threads.map(lambda _: Vault.open(tmp_path), range(32)))
    sealed = vaults[0].seal("x")
    assert {vault.unseal(sealed) for vault in vaults} == {"x"}
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


def test_a_secret_sealed_with_another_key_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    sealed = Vault.open(tmp_path / "a").seal("x")
    with pytest.raises(InvalidInput, match="cannot be opened"):
        Vault.open(tmp_path / "b").unseal(sealed)


@pytest.mark.parametrize("text", ["", "v2:abcd", "plain", "v1:", "v1:%%%", "v1:AAAA"])
def test_text_that_was_never_sealed_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput):
        Vault.open(tmp_path).unseal(text)


def test_tampered_text_is_refused(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path)
    raw = bytearray(base64.b64decode(vault.seal("x" * 40).removeprefix("v1:")))
    raw[-1] ^= 1
    with pytest.raises(InvalidInput):
        vault.unseal("v1:" + base64.b64encode(raw).decode())


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40])
def test_a_damaged_key_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / KEY_FILE
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InvalidInput, match="does not hold a key"):
        Vault.open(tmp_path)
    assert file.read_bytes() == content


def test_a_key_file_that_cannot_be_made_is_reported_as_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used"):
        Vault.open(tmp_path / "file")
