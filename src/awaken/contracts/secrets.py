"""One type for everything that must not be shown: keys, tokens, passwords."""

from typing import Any

_PREVIEW_CHARS = 12


class RedactedString:
    """A text that no log, error, event, trace or repr shows; only `reveal` does.

    Its JSON form is the plain text, because config files have to contain it.
    """

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
        return self._text == other._text

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


def encode_secret(value: Any) -> str:
    """The hook by which msgspec writes secrets as JSON."""
    if isinstance(value, RedactedString):
        return value.reveal()
    message = f"{type(value).__name__} is not a JSON value"
    raise TypeError(message)


def decode_secret(type_: type, value: Any) -> RedactedString:
    """The hook by which msgspec reads secrets."""
    if type_ is RedactedString and isinstance(value, str):
        return RedactedString(value)
    message = f"expected a text for {type_.__name__}"
    raise ValueError(message)
