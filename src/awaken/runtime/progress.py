"""How far a run is: the step that it is in, and what another process left of it."""

import msgspec

from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.content import ContentBlock
from awaken.contracts.messages.message import MessageMetadata, ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.storage.store import StreamCheckpoint, ToolRecord

from .journal.bookmark import Answered, PendingAfterHook


class Step(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """The current step of a run; between two steps, the previous one."""

    number: int = 0
    metadata: MessageMetadata
    """Attached to every message that the step produces."""
    message_id: str = ""
    """The id of the step's answer, fixed before the answer exists."""
    calls: tuple[ToolCall, ...] = ()
    failures: int = 0
    """How many of the step's calls failed."""
    is_open: bool = False
    is_over: bool = False
    """Whether everything in the step is done except writing its end."""
    answer: Answered | None = None
    """Present once the model has answered."""
    ending: Termination | None = None
    """How the run ends when the step is over; None while that is not decided."""
    batch_base: int | None = None
    """The state revision at which the calls that execute now were started."""
    passed: frozenset[Phase] = frozenset()
    """Phases of the run and of the step whose hooks have run."""
    hooked: frozenset[str] = frozenset()
    """Calls whose before-execution hooks have run."""
    pending_after_hook: PendingAfterHook | None = None
    """A call whose result is written and whose after-execution hooks have not run yet."""


class Recovery(msgspec.Struct, kw_only=True, eq=False):
    """What a previous process left of a run that this process continues."""

    answered: tuple[ContentBlock, ...] = ()
    """The model's answer in the step in which that process stopped."""
    streamed: StreamCheckpoint | None = None
    """What that process had streamed of the answer that is requested again now."""
    lost: dict[str, ToolRecord] = {}
    """Tool journal entries of calls that were left without a result, by call id."""
    attempts: dict[str, int] = {}
    """How often such a call was started before, if it has to run again."""
    ending: Termination | None = None
    """How a plugin or the exit path had ended the run in that process."""

    def count_attempt(self, record: ToolRecord) -> None:
        """Let a call run again, as one attempt more than the journal has recorded."""
        self.attempts[record.call_id] = record.attempt
