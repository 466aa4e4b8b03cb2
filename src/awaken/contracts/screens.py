"""Screens: what looks at texts before they are kept, shown or sent, and may change them.

A screen is pure and quick: it is a function of what it is shown, runs in the run's own task and may
be asked about one text more than once.
"""

from collections.abc import Callable
from typing import Any

from .inference import StreamResult
from .messages import Message, ToolCall
from .phases import Phase
from .record import Record
from .state import EMPTY_COMMAND, MergeStrategy, ScheduledActionSpec, StateCommand, StateKey

MessageScreen = Callable[[Any, Message], Message]
"""Returns a message of a user, an agent or a task as it enters the transcript.

It gets what the plugin has prepared for the agent.
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

While an agent has one, what its models say is shown when it was looked at, not before.
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
