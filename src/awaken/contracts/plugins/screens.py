"""Screens: what looks at texts before they are kept, shown or sent, and may change them.

A screen is pure and quick: it is a function of what it is shown, runs in the run's own task and may
be asked about one text more than once.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.phases import Phase
from awaken.contracts.record import Record
from awaken.contracts.state.keys import (
    EMPTY_COMMAND,
    MergeStrategy,
    ScheduledActionSpec,
    StateCommand,
    StateKey,
)


class BlockedInput(Record, frozen=True, kw_only=True):
    """What is kept in the place of input that may not pass; the run that takes it in ends."""

    message: Message
    reason: str


MessageScreen = Callable[[Any, Message], Message | BlockedInput]
"""Returns a message from outside, of whatever role, as it enters a run.

It gets what the plugin has prepared for the agent. What clients send that is no message (results of
their tools, decisions, their tools themselves) it is shown text by text, as messages of a user.
What it has blocked it blocks again when it is shown what was kept.
"""

ValueScreen = Callable[[Any, Any], Any]
"""Returns the data, or the text, of a tool's result as it is kept: JSON in, JSON out.

It gets what the plugin has prepared for the agent.
"""


class Screened(Record, frozen=True, kw_only=True):
    """An answer as its screen leaves it, and what it wants to be kept with it."""

    answer: StreamResult
    command: StateCommand = EMPTY_COMMAND


AnswerScreen = Callable[[Any, StreamResult], Screened]
"""Returns a model's answer as it enters the transcript; gets the context of `after_inference`.

While an agent has one, what its models say is shown when it was looked at, not before; or as far
as its `StreamScreen` lets it through.
"""


class TextStream(Protocol):
    """One text of an answer on its way to those who watch it come."""

    def hear(self, piece: str) -> str:
        """Take in what comes next; returns what may be seen now of all that came.

        All that it returned is at every moment the beginning of what the answer screen would make
        of the text, whatever else comes and wherever it was cut.
        """
        ...

    def end(self) -> str:
        """Returns the rest: nothing follows."""
        ...


StreamScreen = Callable[[Any], Sequence[TextStream] | None]
"""Begins to look at one text of an answer while it comes; the text goes through all of them.

It gets what the plugin has prepared for the agent. None: the screen needs the whole answer.
"""


class StepAnswer(Record, frozen=True, kw_only=True):
    """An answer that is given in the place of the model's; nobody is asked in this step."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


ANSWER_STEP = ScheduledActionSpec[StepAnswer](
    "runtime.answer_step", Phase.BEFORE_INFERENCE, StepAnswer
)
"""Answer this step without the model; the first one to say so wins."""

STEP_ANSWER: StateKey[StepAnswer | None, StepAnswer] = StateKey(
    "__runtime.step_answer",
    default=None,
    type=StepAnswer | None,
    apply=lambda value, answer: value or answer,
    merge=MergeStrategy.COMMUTATIVE,
)
"""What the next step is answered with; used up by it."""
