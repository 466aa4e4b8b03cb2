"""How far a run is: the step that it is in, and what another process left of it."""

from dataclasses import dataclass, field

from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.content import ContentBlock
from awaken.contracts.messages.message import MessageMetadata, ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.storage.store import StreamCheckpoint, ToolRecord

from .journal.bookmark import Answered, PendingAfterHook


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Step:
    """The step that a run is in, or the one before while it is between two."""

    number: int = 0
    metadata: MessageMetadata
    """Marks what the step produces."""
    message_id: str = ""
    """The id that its answer has or will have."""
    calls: tuple[ToolCall, ...] = ()
    failures: int = 0
    """How many of its calls failed."""
    is_open: bool = False
    is_over: bool = False
    """Whether everything of the step is done but its end."""
    answer: Answered | None = None
    """Present once the model has answered."""
    ending: Termination | None = None
    """How the run ends when the step is over, as far as that is known."""
    batch_base: int | None = None
    """The state revision that the calls that execute now were started on."""
    passed: frozenset[Phase] = frozenset()
    """Phases of the run and of the step whose hooks have acted."""
    hooked: frozenset[str] = frozenset()
    """Calls whose hooks before execution have acted."""
    pending_after_hook: PendingAfterHook | None = None
    """A call whose result is written and whose hooks have not acted yet."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Recovery:
    """What another process left of a run that this one goes on with."""

    answered: tuple[ContentBlock, ...] = ()
    """What the model had said in the step in which that process stopped."""
    streamed: StreamCheckpoint | None = None
    """What that process had streamed of the answer that is asked for now."""
    lost: dict[str, ToolRecord] = field(default_factory=dict)
    """What the tool journal knows of calls that were left without a result, by call."""
    attempts: dict[str, int] = field(default_factory=dict)
    """How often such a call was started before, if it has to be run again."""
    ending: Termination | None = None
    """How a plugin, or the way out, had ended the run there."""

    def count_attempt(self, record: ToolRecord) -> None:
        """Have a call run again: as one attempt more than the journal knows."""
        self.attempts[record.call_id] = record.attempt
