"""Counts of tokens, as vendors tell them."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
U = TypeVar("U")
_NULL = msgspec.Raw(b"null")


def is_told(raw: msgspec.Raw) -> bool:
    """Whether there is a value at all."""
    return bool(raw) and raw != _NULL


def usage_reader(kind: type[U]) -> Callable[[msgspec.Raw], U | None]:
    """A reader of a vendor's counts; an answer is worth more than they are.

    What cannot be read, such as a negative count, is as if nothing had been told.
    """
    decode = msgspec.json.Decoder(kind, strict=False).decode

    def read(raw: msgspec.Raw) -> U | None:
        try:
            return decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    return read
