"""Secrets of the configuration: encryption of stored ones, and their values at the time of use."""

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import token_bytes
from typing import Any

from awaken.contracts.clock import Clock
from awaken.contracts.config.errors import SecretsUnavailable
from awaken.contracts.config.secret_fields import ENV, FILE, STORE, check_ref, is_below
from awaken.contracts.config.store import ConfigStore, SealedSecret
from awaken.contracts.secrets import SecretReference, SecretUnresolved

from .secret_keys import KeySource

DIRECTORIES_VARIABLE = "AWAKEN_SECRET_DIRS"
SECRET_BYTES_MAX = 64 * 1024
_NONCE_BYTES = 12


class SecretBox:
    """Encrypts secrets for the store with AES-256-GCM; the name of a secret is authenticated.

    A sealed secret that is stored under another name cannot be opened.
    """

    def __init__(self, keys: KeySource, clock: Clock) -> None:
        self._source, self._clock = keys, clock
        self._keys: Mapping[str, bytes] = {}

    def seal(self, ref: str, text: str, by: str) -> SealedSecret:
        """Encrypt a text with the first key, under a reference `store:…`.

        Raises:
            SecretsUnavailable: There is no key, the extra `secrets` is not installed, or the text
                or its name cannot be stored.
        """
        name, data = ref.removeprefix(STORE), text.encode(errors="surrogatepass")
        if problem := check_ref(f"{STORE}{name}"):
            raise SecretsUnavailable(problem=problem)
        if not data or len(data) > SECRET_BYTES_MAX:
            problem = f"'{ref}' must have 1 to {SECRET_BYTES_MAX} bytes"
            raise SecretsUnavailable(problem=problem)
        make_cipher, _ = _import_cipher()
        self._keys = self._source.load(may_create=True)
        key_id, key = next(iter(self._keys.items()))
        nonce = token_bytes(_NONCE_BYTES)
        return SealedSecret(
            ref=name,
            key_id=key_id,
            sealed=nonce + make_cipher(key).encrypt(nonce, data, name.encode()),
            updated_at=self._clock.now_ms(),
            updated_by=by,
        )

    def open(self, secret: SealedSecret) -> str:
        """Decrypt a secret.

        Raises:
            SecretUnresolved: Its key is not here, or it was changed or moved; shows no value.
            SecretsUnavailable: There is no key at all, or the extra `secrets` is not installed.
        """
        make_cipher, invalid = _import_cipher()
        if secret.key_id not in self._keys:
            self._keys = self._source.load(may_create=False)
        key = self._keys.get(secret.key_id)
        if key is None:
            problem = f"this process does not have its key, '{secret.key_id}'"
            raise SecretUnresolved(ref=f"{STORE}{secret.ref}", problem=problem)
        nonce, data = secret.sealed[:_NONCE_BYTES], secret.sealed[_NONCE_BYTES:]
        try:
            plain: bytes = make_cipher(key).decrypt(nonce, data, secret.ref.encode())
            return plain.decode(errors="surrogatepass")
        except (invalid, ValueError) as error:
            problem = f"it does not fit its key or its name ({type(error).__name__})"
        raise SecretUnresolved(ref=f"{STORE}{secret.ref}", problem=problem)

    def rotate(self, secrets: Iterable[SealedSecret], by: str) -> tuple[SealedSecret, ...]:
        """Seal those secrets again that another than the first key encrypts.

        Raises:
            SecretUnresolved: One cannot be decrypted; names it.
            SecretsUnavailable: There is no key.
        """
        self._keys = self._source.load(may_create=False)
        first = next(iter(self._keys))
        return tuple(self.seal(it.ref, self.open(it), by) for it in secrets if it.key_id != first)


class SecretResolver:
    """Reads secrets where they are used, anew each time; what it keeps in memory is encrypted."""

    def __init__(
        self,
        box: SecretBox | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._box, self._environment = box, environment
        self._stored: Mapping[str, SealedSecret] = {}

    async def reload(self, store: ConfigStore) -> None:
        """Read the stored secrets again, still encrypted; calls use them from now on."""
        self._stored = {it.ref: it for it in await store.list_secrets()}

    def has_stored(self, name: str) -> bool:
        """Whether the store has a secret of this name."""
        return name in self._stored

    def bind(self, ref: str) -> SecretReference:
        """Return a reference that this process resolves whenever it is used."""
        return SecretReference(ref, self.resolve)

    def resolve(self, ref: str) -> str:
        """Return the value of a secret as it is now.

        Raises:
            SecretUnresolved: It does not exist, or cannot be read here; names it, shows no value.
        """
        if problem := check_ref(ref):
            raise SecretUnresolved(ref=ref, problem=problem)
        if ref.startswith(ENV):
            text = self._environment.get(ref.removeprefix(ENV), "")
        elif ref.startswith(FILE):
            text = self._read_file(ref)
        else:
            text = self._open_stored(ref)
        if not text.strip():
            raise SecretUnresolved(ref=ref, problem="it is not set")
        return text

    def list_missing(self, refs: Iterable[str]) -> tuple[str, ...]:
        """List those references that cannot be resolved in this process."""
        missing = []
        for ref in dict.fromkeys(refs):
            try:
                self.resolve(ref)
            except SecretUnresolved:
                missing.append(ref)
        return tuple(missing)

    def _open_stored(self, ref: str) -> str:
        sealed = self._stored.get(ref.removeprefix(STORE))
        if sealed is None:
            raise SecretUnresolved(ref=ref, problem="it is not stored")
        if self._box is None:
            raise SecretUnresolved(ref=ref, problem="this process has no keys for stored secrets")
        try:
            return self._box.open(sealed)
        except SecretsUnavailable as error:
            raise SecretUnresolved(ref=ref, problem=error.problem) from None

    def _read_file(self, ref: str) -> str:
        directories = read_secret_directories(self._environment)
        path = os.path.realpath(ref.removeprefix(FILE))
        # A link below the directory must not lead out of it.
        if not is_below(path, [os.path.realpath(it) for it in directories]):
            problem = f"it is not below a directory of {DIRECTORIES_VARIABLE}"
            raise SecretUnresolved(ref=ref, problem=problem)
        try:
            with Path(path).open("rb") as opened:
                data = opened.read(SECRET_BYTES_MAX + 1)
            text = data.decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            problem = f"the file cannot be read ({type(error).__name__})"
            raise SecretUnresolved(ref=ref, problem=problem) from None
        if len(data) > SECRET_BYTES_MAX:
            raise SecretUnresolved(ref=ref, problem="the file is too large")
        return text


def read_secret_directories(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories below which files may be secrets; relative ones are left out."""
    named = environment.get(DIRECTORIES_VARIABLE, "").split(os.pathsep)
    return tuple(os.path.normpath(it) for it in named if os.path.isabs(it.strip()))


def _import_cipher() -> tuple[Callable[[bytes], Any], type[Exception]]:
    """Return the cipher, and the error that it raises for data that was changed."""
    try:
        invalid: type[Exception] = importlib.import_module("cryptography.exceptions").InvalidTag
        ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ImportError as error:
        problem = "stored secrets need cryptography: pip install 'awaken[secrets]', or use env:NAME"
        raise SecretsUnavailable(problem=problem) from error
    make: Callable[[bytes], Any] = ciphers.AESGCM
    return make, invalid
