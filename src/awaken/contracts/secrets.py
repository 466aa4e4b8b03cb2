"""One type for everything that must not be shown: keys, tokens, passwords.

A secret is a text that is given in code, or a reference that is resolved each time it is used.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.errors import UsageError

_PREVIEW_CHARS = 12
SECRET_KEY = "$secret"
"""Marks a reference to a secret in a stored body: `{"$secret": "env:OPENAI_API_KEY"}`."""
IN_CODE = "code"
"""The reference that stands in exports for a secret whose text is given in code."""


class SecretUnresolved(UsageError):
    """A secret that a configuration names cannot be read in this process; no value is shown."""

    code = "secret_unresolved"
    template = "The secret '{ref}' cannot be read: {problem}."
    ref: str
    problem: str


class RedactedString:
    """A text that no log, error, event, trace or repr shows; only `reveal` does."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The plain text, for the wire and for nothing else."""
        return self._text

    def preview(self) -> str:
        """The first and last four characters of a long text; nothing of a short one."""
        if len(self._text) < _PREVIEW_CHARS:
            return "***"
        return f"{self._text[:4]}***{self._text[-4:]}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RedactedString):
            return NotImplemented
        return not isinstance(other, SecretReference) and self._text == other._text

    def __hash__(self) -> int:
        return hash((RedactedString, self._text))

    def __repr__(self) -> str:
        return "RedactedString(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, _spec: str) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._text)


class SecretReference(RedactedString):
    """The name of a secret that is kept elsewhere; `reveal` reads it anew each time.

    Two references are equal if they name the same secret, whatever its value is now.
    """

    __slots__ = ("_resolve", "ref")

    def __init__(self, ref: str, resolve: Callable[[str], str]) -> None:
        super().__init__("")
        self.ref = ref
        """Such as `env:OPENAI_API_KEY`, `file:/run/secrets/key`, `store:providers/a/api_key`."""
        self._resolve = resolve

    def reveal(self) -> str:
        """The plain text as it is now, for the wire and for nothing else.

        Raises:
            SecretUnresolved: It does not exist, or cannot be decrypted here.
        """
        return self._resolve(self.ref)

    def preview(self) -> str:
        """Nothing of the value: it is not read."""
        return "***"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RedactedString):
            return NotImplemented
        return isinstance(other, SecretReference) and self.ref == other.ref

    def __hash__(self) -> int:
        return hash((SecretReference, self.ref))

    def __repr__(self) -> str:
        return f"SecretReference({self.ref!r})"

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> "SecretReference":
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> "SecretReference":
        # A copy of the resolver would not hear of secrets that change.
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        message = "a reference to a secret cannot be pickled; store its `ref`"
        raise TypeError(message)


def encode_reference(value: Any) -> dict[str, str]:
    """The hook by which msgspec writes secrets for storage and export: never their text.

    A secret that is given in code is written as a marker, which no reader accepts as a secret.
    """
    if isinstance(value, SecretReference):
        return {SECRET_KEY: value.ref}
    if isinstance(value, RedactedString):
        return {SECRET_KEY: IN_CODE}
    message = f"{type(value).__name__} is not a JSON value"
    raise TypeError(message)


def encode_secret(value: Any) -> Any:
    """The hook by which msgspec writes secrets as JSON, for a wire that needs the plain text.

    A reference stays one: what a request or a process gets is resolved where it is sent.
    """
    if isinstance(value, RedactedString) and not isinstance(value, SecretReference):
        return value.reveal()
    return encode_reference(value)


def decode_secret(type_: type, value: Any) -> RedactedString:
    """The hook by which msgspec reads secrets: a text, or what is a secret already."""
    if type_ is RedactedString and isinstance(value, RedactedString):
        return value
    if type_ is RedactedString and isinstance(value, str):
        return RedactedString(value)
    message = f"expected a text for {type_.__name__}"
    raise ValueError(message)


def to_builtins_with_secrets(value: Any) -> Any:
    """Return the JSON form of a spec in which every secret is still the object that it was.

    Raises:
        TypeError: Some value has no JSON form.
    """
    mark, held = os.urandom(16).hex(), dict[str, RedactedString]()

    def hold(secret: Any) -> str:
        if not isinstance(secret, RedactedString):
            message = f"{type(secret).__name__} is not a JSON value"
            raise TypeError(message)
        place = f"{mark}:{len(held)}"
        held[place] = secret
        return place

    data = msgspec.to_builtins(value, enc_hook=hold)
    return _put_back(data, held) if held else data


def _put_back(data: Any, held: dict[str, RedactedString]) -> Any:
    match data:
        case str():
            return held.get(data, data)
        case dict():
            return {name: _put_back(value, held) for name, value in data.items()}
        case list() | tuple():
            return [_put_back(value, held) for value in data]
        case _:
            return data
