"""The keys that encrypt stored secrets: from the environment, a file, or made beside a database."""

import logging
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Protocol

from awaken.contracts.config.errors import SecretsUnavailable

logger = logging.getLogger(__name__)

KEYS_VARIABLE = "AWAKEN_SECRET_KEYS"
KEYS_FILE_VARIABLE = "AWAKEN_SECRET_KEYS_FILE"
KEY_BYTES = 32
_FILE_BYTES_MAX = 64 * 1024
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_KEYS = f"there is no key for stored secrets; use env:NAME or set {KEYS_VARIABLE}"


class KeySource(Protocol):
    """Where a process has its keys from."""

    def load(self, *, may_create: bool) -> Mapping[str, bytes]:
        """Return the keys by id as they are now; the first encrypts, all decrypt.

        Raises:
            SecretsUnavailable: There are none, or they are malformed; no key is shown.
        """
        ...


class ConfiguredKeys:
    """The keys of a server: from its environment, else from a file beside its database.

    The file is made when a secret is stored for the first time. Of processes that make it at once,
    one succeeds, and all use its key.
    """

    def __init__(self, environment: Mapping[str, str], database: Path | None = None) -> None:
        self._environment = environment
        self._made = None if database is None else database.with_name(f"{database.name}.keys")

    def load(self, *, may_create: bool) -> Mapping[str, bytes]:
        """Return the keys as they are now.

        Raises:
            SecretsUnavailable: There are none, or they are malformed.
        """
        if text := self._environment.get(KEYS_VARIABLE, "").strip():
            return parse_keys(text, KEYS_VARIABLE)
        if path := self._environment.get(KEYS_FILE_VARIABLE, "").strip():
            return parse_keys(_read_keys(Path(path)), KEYS_FILE_VARIABLE)
        if self._made is None:
            raise SecretsUnavailable(problem=_NO_KEYS)
        if not self._made.exists():
            if not may_create:
                raise SecretsUnavailable(problem=_NO_KEYS)
            _make_key_file(self._made)
        return parse_keys(_read_keys(self._made), str(self._made))


def parse_keys(text: str, source: str) -> dict[str, bytes]:
    """Parse `id:base64[,id:base64…]`, also with one key per line.

    Raises:
        SecretsUnavailable: It is malformed; names the source and the place, and shows no key.
    """
    keys: dict[str, bytes] = {}
    for at, entry in enumerate(filter(None, map(str.strip, re.split(r"[,\n]", text))), start=1):
        name, _, encoded = entry.partition(":")
        try:
            key = b64decode(encoded.strip(), validate=True)
        except (Base64Error, ValueError):
            key = b""
        if _KEY_ID.fullmatch(name) is None or len(key) != KEY_BYTES or name in keys:
            problem = f"key {at} of {source} is not a new id, ':' and 32 bytes in base64"
            raise SecretsUnavailable(problem=problem)
        keys[name] = key
    if not keys:
        raise SecretsUnavailable(problem=f"{source} has no key")
    return keys


def format_key(key_id: str) -> str:
    """Return a fresh key in the form that the environment and key files have."""
    return f"{key_id}:{b64encode(token_bytes(KEY_BYTES)).decode()}"


def _read_keys(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return opened.read(_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"the key file {path} cannot be read ({type(error).__name__})"
        raise SecretsUnavailable(problem=problem) from None


def _make_key_file(path: Path) -> None:
    """Make a file with one key, readable by its owner only, unless another process is first."""
    draft = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as opened:
                opened.write(f"{format_key(token_hex(4))}\n")
                opened.flush()
                os.fsync(opened.fileno())
            try:
                # A link appears with its whole content, and never replaces a file that exists.
                os.link(draft, path)
            except FileExistsError:
                return
        finally:
            draft.unlink()
        _sync_directory(path.parent)
    except OSError as error:
        problem = f"no key file can be made at {path} ({error.strerror}); set {KEYS_VARIABLE}"
        raise SecretsUnavailable(problem=problem) from error
    logger.warning(
        "The key for stored secrets was made in %s: keep a copy of it apart from the database.",
        path,
    )


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
