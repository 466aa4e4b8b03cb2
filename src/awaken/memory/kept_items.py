"""Items of an engine, read as what they keep; one that is damaged does not hide the others."""

import logging
from typing import TypeVar

import msgspec

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.memory.engine import KeptItem

T = TypeVar("T")
logger = logging.getLogger(__name__)


def read_kept(item: KeptItem, decoder: "msgspec.json.Decoder[T]", kind: str) -> T:
    """Return what an item keeps.

    Raises:
        CorruptRecord: It is damaged.
    """
    try:
        return decoder.decode(item.body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptRecord(what=f"{kind} '{item.id}'", problem=str(error)) from error


def read_listed(item: KeptItem, decoder: "msgspec.json.Decoder[T]", kind: str) -> T | None:
    """Return what one item of a list keeps, or None if it is damaged."""
    try:
        return read_kept(item, decoder, kind)
    except CorruptRecord as error:
        logger.error("%s It is left out of a list; forget it, or write it again.", error)
        return None
