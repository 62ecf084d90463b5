"""Secrets at rest: sealed with a key that only the service can read."""

from __future__ import annotations

import base64
import os
import secrets
import stat
import time
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.datadir import sync_directory

KEY_FILE = "secret.key"

_VERSION = "v1:"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class Vault:
    """Seals with AES-256-GCM. Sealed text begins with its version, so that the method can change."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def open(cls, data: Path) -> Vault:
        """The vault of a data directory; the key file is made at first use."""
        file = data / KEY_FILE
        try:
            if not file.exists():
                _make_key(file)
            return cls(_read_key(file))
        except OSError as error:
            raise Unavailable(f"the key file {file} cannot be used: {error.strerror}") from None

    def seal(self, plain: str) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, plain.encode(), _VERSION.encode())
        return _VERSION + base64.b64encode(sealed).decode()

    def unseal(self, sealed: str) -> str:
        if not sealed.startswith(_VERSION):
            raise InvalidInput("a sealed secret has an unknown form: was it written by a newer Tidegate?")
        try:
            raw = base64.b64decode(sealed.removeprefix(_VERSION), validate=True)
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _VERSION.encode()).decode()
        except (ValueError, InvalidTag):
            raise InvalidInput(f"a sealed secret cannot be opened: is {KEY_FILE} the one it was sealed with?") from None


def _make_key(file: Path) -> None:
    """Makes the key file in one step. If several processes try at once, all take the first one's key."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{time.monotonic_ns()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(temporary, file)
        except FileExistsError:
            return
        sync_directory(file.parent)
    finally:
        temporary.unlink()


def _read_key(file: Path) -> bytes:
    with file.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if mode & 0o077:
            raise InvalidInput(
                f"{file} can be read by others (mode {mode:04o}): chmod 600 it, and make new keys if others had access"
            )
        text = stream.read(4096)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise InvalidInput(f"{file} does not hold a key: put back the one from your backup")
    return key
