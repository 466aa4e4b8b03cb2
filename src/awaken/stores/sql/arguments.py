"""Which arguments a statement accepts: the same for every database, whatever its own limits."""

from collections.abc import Iterable
from typing import Any

from awaken.contracts.errors import InvalidRecord

_FIRST, _END = -(1 << 63), 1 << 63


def check_arguments(args: Iterable[Any]) -> None:
    """Check that every database can store the arguments.

    Raises:
        InvalidRecord: Text has U+0000 or half of a surrogate pair; a number is not an integer, or
            needs more than 64 bits.
    """
    # A turn has a hundred arguments: the usual kinds are asked first, each in one comparison.
    for value in args:
        kind = type(value)
        if kind is int:
            if not _FIRST <= value < _END:
                raise InvalidRecord(what=f"Number {value}", problem="it has more than 64 bits")
        elif kind is str:
            if "\0" in value or not (value.isascii() or _is_whole(value)):
                raise _refuse_text(value)
        elif value is None or kind is bytes:
            continue
        elif kind is float:
            raise InvalidRecord(what=f"Number {value}", problem="it is not a whole number")
        elif isinstance(value, str) and ("\0" in value or not _is_whole(value)):
            raise _refuse_text(value)


def _refuse_text(text: str) -> InvalidRecord:
    problem = "it has U+0000 or half of a surrogate pair, which no column can keep"
    return InvalidRecord(what=f"Text {text!a}", problem=problem)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
