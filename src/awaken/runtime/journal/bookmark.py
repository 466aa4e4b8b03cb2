"""The bookmark: the position of a run in its step, for a process that has to continue the run.

The run's record counts finished steps. The bookmark says which parts of the next step are durable:
what was announced, which hooks have run, what the model's answer left open. So a process that
takes over the run neither repeats nor loses any of it.
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
    """A call whose result is written and whose after-execution hooks have not run yet."""

    call: ToolCall
    result: ToolResult
    resume: ToolCallResume | None = None
    question: Question | None = None
    """The question that was decided, if the call had waited for a decision."""


class Answered(Record, frozen=True, kw_only=True):
    """Facts about a model's answer that its message does not contain."""

    is_cut: bool = False
    dropped_calls: tuple[str, ...] = ()


class RemoteEnd(Record, frozen=True, kw_only=True):
    """How a turn at a remote backend ended; its output is in the state."""

    status: BackendRunStatus
    reason: str
    termination: Termination
    waiting: Waiting | None = None


class Bookmark(Record, frozen=True, kw_only=True):
    """The progress of a run within its step, as of its last commit."""

    step: int = 0
    is_step_open: bool = False
    message_id: str = ""
    """The id of the step's assistant message, fixed before the message exists."""
    answer: Answered | None = None
    """Present once the model has answered."""
    is_over: bool = False
    """Whether everything in the step is done except writing its end."""
    failures: int = 0
    output_retries: int = 0
    passed: frozenset[Phase] = frozenset()
    """Phases of the run and of the step whose hooks have run."""
    hooked: frozenset[str] = frozenset()
    """Calls whose before-execution hooks have run."""
    owed: PendingAfterHook | None = None
    written: tuple[str, ...] = ()
    """State keys written since the calls that are running were started."""
    verdict: Termination | None = None
    """How the run ends when its step is over; None when it continues or is undecided."""
    termination: Termination | None = None
    """How a plugin or the exit path has already ended the run."""
    is_remote: bool = False
    """Whether the run executes at a remote backend, where work may be in progress."""
    remote_end: RemoteEnd | None = None
    """How the turn at the remote backend ended."""


_decode = msgspec.json.Decoder(Bookmark).decode


def encode_bookmark(bookmark: Bookmark) -> StoredValue:
    """Return the bookmark as a run's record stores it."""
    return StoredValue(version=_VERSION, data=msgspec.Raw(msgspec.json.encode(bookmark)))


def read_bookmark(stored: StoredValue | None) -> Bookmark | None:
    """Return the bookmark of a run; None when it has none that this version can read."""
    if stored is None or stored.version != _VERSION:
        return None
    return _decode(stored.data)
