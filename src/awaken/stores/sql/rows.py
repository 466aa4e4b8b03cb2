"""Records as rows: JSON in a sealed blob, and keys made of two numbers.

A flipped bit is found when the record is read; a damaged record is never replaced by a default.
"""

import hashlib
import logging
import zlib
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import CorruptRecord, InvalidRecord
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit, OutboxEntry, StreamCheckpoint, ToolRecord
from awaken.contracts.suspension.tickets import Ticket

from .blobs import column_seed, seal, unseal

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ENCODE = msgspec.json.Encoder().encode

MESSAGE = msgspec.json.Decoder(Message)
RUN = msgspec.json.Decoder(RunRecord)
TICKET = msgspec.json.Decoder(Ticket)
DISPATCH = msgspec.json.Decoder(RunDispatch)
EVENTS = msgspec.json.Decoder(tuple[AgentEvent, ...])
TOOLS = msgspec.json.Decoder(tuple[ToolRecord, ...])
OUTBOX = msgspec.json.Decoder(OutboxEntry)
CHECKPOINT = msgspec.json.Decoder(StreamCheckpoint)
ANY = msgspec.json.Decoder(Any)
RAW = msgspec.json.Decoder(msgspec.Raw)

PLACES = 1 << 32
"""How many rows one thread can have in a table."""


def place(thread_no: int, number: int) -> int:
    """Return the key of a row: a thread's rows are adjacent and ordered without a second index."""
    return thread_no * PLACES + number


def number_at(key: int) -> int:
    """Return the number inside its thread that a key was made of."""
    return key % PLACES


def all_places(thread_no: int) -> tuple[int, int]:
    """Return the first and the last key of a thread."""
    return place(thread_no, 0), place(thread_no, PLACES - 1)


def id_key(thread_no: int, message_id: str) -> int:
    """Return a short key for a message id; ids may share a key, so the id is compared as well."""
    return place(thread_no, zlib.crc32(message_id.encode("utf-8", "surrogatepass")))


def pack(value: Any, *beside: int | str | None) -> bytes:
    """Encode a value and seal it; `beside` are the columns that it is bound to.

    Raises:
        InvalidRecord: The value has no JSON form.
    """
    return seal(encode(value), column_seed(*beside))


def encode(value: Any) -> bytes:
    """Encode a value.

    Raises:
        InvalidRecord: The value has no JSON form.
    """
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(what=type(value).__name__, problem=str(error)) from error


def unpack(
    blob: bytes, decoder: "msgspec.json.Decoder[T]", what: str, *beside: int | str | None
) -> T:
    """Verify and decode a sealed record; `beside` are the columns that it is bound to.

    Raises:
        CorruptRecord: The record is damaged, or this version does not know its shape.
    """
    try:
        return decoder.decode(unseal(blob, what, *beside))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptRecord(what=what, problem=str(error)) from error


def unpack_listed(
    blob: bytes, decoder: "msgspec.json.Decoder[T]", what: str, *beside: int | str | None
) -> T | None:
    """Return one record of a list, or None if it is damaged: the others are listed without it."""
    try:
        return unpack(blob, decoder, what, *beside)
    except CorruptRecord as error:
        logger.error("%s It is left out of a list; `awaken db check` names all.", error)
        return None


class EncodedCommit:
    """The parts of a commit that become rows, and a digest of the whole commit."""

    __slots__ = ("commit", "digest", "events", "keeps_state", "messages", "run", "tools")

    def __init__(self, commit: Commit, *, keeps_state: bool) -> None:
        self.commit = commit
        self.keeps_state = keeps_state
        seed = column_seed(commit.committed_at)
        self.messages = [seal(encode(message), seed) for message in commit.messages]
        self.events = encode(commit.events) if commit.events else None
        """Not sealed: the columns that it is bound to are known when the row is written."""
        self.tools = pack(commit.tool_records) if commit.tool_records else None
        self.run = pack(commit.run) if commit.run is not None else None
        self.digest = hashlib.blake2b(encode(commit), digest_size=16).digest()
