"""The bookmark: where in a step a run is, kept in the record of a run that others may continue.

The record counts finished steps. The bookmark says what of the next one is durable: what
was announced, which hooks have acted, what the model's answer left open. So a process that takes
the run over neither repeats nor forgets any of it.
"""

import msgspec

from awaken.contracts.backend_results import BackendRunStatus
from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.record import Record
from awaken.contracts.runs.records import Waiting
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.tickets import Question, ToolCallResume
from awaken.contracts.tool_results import ToolResult

_VERSION = 1


class PendingAfterHook(Record, frozen=True, kw_only=True):
    """A call whose result is written and whose hooks have not acted yet."""

    call: ToolCall
    result: ToolResult
    resume: ToolCallResume | None = None
    question: Question | None = None
    """What was decided, if the call had waited for somebody."""


class Answered(Record, frozen=True, kw_only=True):
    """What a model's answer was beyond the message it left."""

    is_cut: bool = False
    dropped_calls: tuple[str, ...] = ()


class RemoteEnd(Record, frozen=True, kw_only=True):
    """How a turn at a remote backend ended; what it gave back is in the state."""

    status: BackendRunStatus
    reason: str
    termination: Termination
    waiting: Waiting | None = None


class Bookmark(Record, frozen=True, kw_only=True):
    """How far a run got, as of its last commit."""

    step: int = 0
    is_step_open: bool = False
    message_id: str = ""
    """The id that the step's assistant message has or will have."""
    answer: Answered | None = None
    """Present once the model has answered."""
    is_over: bool = False
    """Whether everything of the step is done but its end."""
    failures: int = 0
    output_retries: int = 0
    passed: frozenset[Phase] = frozenset()
    """Phases of the run and of the step whose hooks have acted."""
    hooked: frozenset[str] = frozenset()
    """Calls whose hooks before execution have acted."""
    owed: PendingAfterHook | None = None
    written: tuple[str, ...] = ()
    """State keys written since the calls that are running were started."""
    verdict: Termination | None = None
    """How the run ends when its step is over; None when it goes on or that is not known yet."""
    termination: Termination | None = None
    """How a plugin, or the way out, has ended the run already."""
    is_remote: bool = False
    """Whether it executes at another side, where something may be under way."""
    remote_end: RemoteEnd | None = None
    """How its turn there ended."""


_decode = msgspec.json.Decoder(Bookmark).decode


def encode_bookmark(bookmark: Bookmark) -> StoredValue:
    """The bookmark as a run's record keeps it."""
    return StoredValue(version=_VERSION, data=msgspec.Raw(msgspec.json.encode(bookmark)))


def read_bookmark(stored: StoredValue | None) -> Bookmark | None:
    """The bookmark of a run; None when it has none, or one that this version cannot read."""
    if stored is None or stored.version != _VERSION:
        return None
    return _decode(stored.data)
