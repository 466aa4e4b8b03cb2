"""Screens: functions that check, and may change, texts before they are stored, shown or sent.

A screen is pure and fast: its result depends only on its input, it runs in the run's own task, and
it may be called more than once for one text.
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
    """The stored replacement of blocked input; the run that reads it ends."""

    message: Message
    reason: str


MessageScreen = Callable[[Any, Message], Message | BlockedInput]
"""Returns a message from outside, of any role, in the form in which it enters a run.

Its first argument is what the plugin has prepared for the agent. Other input of clients (results of
their tools, decisions, the tools themselves) is passed to it text by text, as user messages. It has
to block the stored replacement of a message that it blocked.
"""


class BlockedValue(Record, frozen=True, kw_only=True):
    """What stands in the place of a blocked part of a result."""

    value: Any
    reason: str


HELD_BACK = "held_back"
"""The metadata of a result that a screen blocked has the reason under this name; no tool and no
model can write it there."""

GUARDRAIL_HOLDS: StateKey[tuple[str, ...], str] = StateKey(
    "guardrails.holds",
    default=(),
    type=tuple[str, ...],
    apply=lambda value, reason: (*value, reason),
    update_type=str,
    private=True,
    merge=MergeStrategy.COMMUTATIVE,
)
"""What guardrails blocked of the run's own answers and calls: the record of it in the log, where a
text that reads the same is none."""

ValueScreen = Callable[[Any, Any], Any]
"""Returns the data, or the text, of a tool's result as it is stored: JSON in, JSON out. Of what it
blocks it returns a `BlockedValue`.

Its first argument is what the plugin has prepared for the agent.
"""


class Screened(Record, frozen=True, kw_only=True):
    """A screened answer, and the state command to commit with it."""

    answer: StreamResult
    command: StateCommand = EMPTY_COMMAND


AnswerScreen = Callable[[Any, StreamResult], Screened]
"""Returns a model's answer as it enters the transcript; gets the context of `after_inference`.

If an agent has one, the answers of its models are shown only after they were screened, or as far as
the `StreamScreen` releases them.
"""


class TextStream(Protocol):
    """Screens one text of an answer while it is streamed."""

    def feed(self, piece: str) -> str:
        """Add the next piece; return the part of the text that may be shown now.

        At every moment, everything it has returned is a prefix of the screened whole text, however
        the text continues and wherever it was cut.
        """
        ...

    def end(self) -> str:
        """Return the rest; the text is complete."""
        ...


StreamScreen = Callable[[Any], Sequence[TextStream] | None]
"""Starts to screen one text of an answer while it arrives; the text passes through all streams.

Its argument is what the plugin has prepared for the agent. None: the screen needs the whole answer.
"""


class StepAnswer(Record, frozen=True, kw_only=True):
    """An answer that replaces the model's; no model is called in this step."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


ANSWER_STEP = ScheduledActionSpec[StepAnswer](
    "runtime.answer_step", Phase.BEFORE_INFERENCE, StepAnswer
)
"""Answer this step without the model; the first such action wins."""

STEP_ANSWER: StateKey[StepAnswer | None, StepAnswer] = StateKey(
    "__runtime.step_answer",
    default=None,
    type=StepAnswer | None,
    apply=lambda value, answer: value or answer,
    merge=MergeStrategy.COMMUTATIVE,
)
"""The answer of the next step, which consumes it."""
