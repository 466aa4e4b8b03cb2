"""Token counts as vendors report them."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
U = TypeVar("U")
_NULL = msgspec.Raw(b"null")


def has_value(raw: msgspec.Raw) -> bool:
    """Whether the field is present and not null."""
    return bool(raw) and raw != _NULL


def make_usage_reader(kind: type[U]) -> Callable[[msgspec.Raw], U | None]:
    """Return a reader of a vendor's counts, which never fails: the answer matters more.

    Counts that cannot be read, such as negative ones, are treated as missing.
    """
    decode = msgspec.json.Decoder(kind, strict=False).decode

    def read(raw: msgspec.Raw) -> U | None:
        try:
            return decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    return read
