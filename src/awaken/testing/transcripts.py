"""What a transcript and a stream of events must look like, as checkers for any test.

Each `…_problems` and `check_…` function returns sentences, none when all is well; the asserts
raise with all of them. They judge data only and know nothing of how it was made.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from awaken.contracts.content import Text, Thinking
from awaken.contracts.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.events import (
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    ReasoningEncryptedValue,
    RunFinish,
    RunStart,
    StateSnapshot,
    StepEnd,
    StepStart,
    StreamReset,
    ToolCallCancel,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
    is_terminal,
)
from awaken.contracts.lifecycle import Cancelled, Failed, Suspended
from awaken.contracts.messages import Message, Role, ToolCall
from awaken.contracts.suspension import ToolCallOutcome


def assert_valid_transcript(messages: Sequence[Message], open_calls: Iterable[str] = ()) -> None:
    """Raise `AssertionError` with every problem that `check_transcript` finds."""
    _raise(check_transcript(messages, open_calls=open_calls))


def check_transcript(messages: Sequence[Message], *, open_calls: Iterable[str] = ()) -> list[str]:
    """Check that each call has exactly one result before the next message that is no result.

    `open_calls` are the calls that a run waits for: they, and only they, have no result yet,
    and only at the end of the transcript.
    """
    waiting = frozenset(open_calls)
    segments = _segments(messages)
    last = segments[-1] if segments else _Turn(Role.SYSTEM, 0)
    unanswered = {call.id for call in last.calls} - {it.tool_call_id for it in last.answers}
    problems = [f"call {name!r} is not open at the end" for name in sorted(waiting - unanswered)]
    for segment in segments:
        excused = waiting if segment is last else frozenset()
        problems += _unpaired(segment, segment.answers, excused)
        if segment.calls and segment.role is not Role.ASSISTANT:
            problems.append(f"{segment.where}: only an assistant message can have calls")
    return problems


def openai_problems(messages: Sequence[Message]) -> list[str]:
    """Check OpenAI's rules: results directly after their message, every call id answered."""
    problems: list[str] = []
    for segment in _segments(messages):
        problems += _unpaired(segment, segment.answers)
        if segment.role is Role.ASSISTANT and not segment.calls and not segment.has_content:
            problems.append(f"{segment.where}: an assistant message needs content or calls")
    return problems


def anthropic_problems(messages: Sequence[Message]) -> list[str]:
    """Check Anthropic's rules, after neighbours of one role were merged into turns.

    A user begins; results come first in the very next user turn; call ids are unique in the
    whole conversation; no text block is empty, and no turn has nothing to say.
    """
    turns = _turns(messages, results_are=Role.USER)
    problems = _repeated("conversation", [call for turn in turns for call in turn.calls])
    if turns and turns[0].role is not Role.USER:
        problems.append(f"{turns[0].where}: the first turn must be the user's")
    for turn, following in pairwise([*turns, _Turn(Role.USER, len(messages))]):
        problems += _unpaired(turn, following.answers)
    for previous, turn in pairwise([_Turn(Role.USER, 0), *turns]):
        if turn.answers and previous.role is not Role.ASSISTANT:
            problems.append(f"{turn.where}: results without calls in the turn before")
        problems += _anthropic_content_problems(turn)
    return problems


def _anthropic_content_problems(turn: "_Turn") -> list[str]:
    problems: list[str] = []
    texts = [
        block.text
        for message in turn.messages
        if message.role is not Role.TOOL
        for block in message.content
        if isinstance(block, Text)
    ]
    if "" in texts:
        problems.append(f"{turn.where}: empty text block")
    if not turn.calls and not turn.answers and not turn.has_content:
        problems.append(f"{turn.where}: no content")
    roles = [message.role for message in turn.messages]
    if roles != sorted(roles, key=lambda role: role is not Role.TOOL):
        problems.append(f"{turn.where}: results must come before other content")
    return problems


def gemini_problems(messages: Sequence[Message]) -> list[str]:
    """Check Gemini's rules, after neighbours of one role were merged into turns.

    A turn with calls follows a user or a result turn; as many results follow it, and their
    names are those of the calls, in order, once they are regrouped by call id.
    """
    turns = _turns(messages, results_are=Role.TOOL)
    before, after = _Turn(Role.SYSTEM, 0), _Turn(Role.SYSTEM, len(messages))
    problems: list[str] = []
    for turn, following in pairwise([before, *turns, after]):
        problems += _gemini_response_problems(turn, following.answers)
        if turn is before and following.calls:
            problems.append(f"{following.where}: a function call turn cannot be the first")
    for turn in turns:
        if turn.role is not Role.TOOL and not turn.calls and not turn.has_content:
            problems.append(f"{turn.where}: a turn needs at least one part")
    return problems


def _gemini_response_problems(turn: "_Turn", answers: list[Message]) -> list[str]:
    if len(answers) != len(turn.calls):
        return [f"{turn.where}: {len(turn.calls)} function calls, {len(answers)} responses"]
    places = {call.id: place for place, call in enumerate(turn.calls)}
    regrouped = sorted(places.get(answer.tool_call_id or "", len(places)) for answer in answers)
    names = [call.name for call in turn.calls]
    answered = [names[place] if place < len(names) else "?" for place in regrouped]
    if answered == names:
        return []
    return [f"{turn.where}: calls {names}, responses {answered}"]


@dataclass(slots=True)
class _Turn:
    """Messages that a vendor sees as one."""

    role: Role
    index: int
    messages: list[Message] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"message {self.index} ({self.role})"

    @property
    def calls(self) -> list[ToolCall]:
        return [call for message in self.messages for call in message.tool_calls or ()]

    @property
    def answers(self) -> list[Message]:
        return [message for message in self.messages if message.role is Role.TOOL]

    @property
    def has_content(self) -> bool:
        blocks = [block for message in self.messages for block in message.content]
        return any(
            block.text.strip() if isinstance(block, Text) else not isinstance(block, Thinking)
            for block in blocks
        )


def _segments(messages: Sequence[Message]) -> list[_Turn]:
    """Split into one message each, with the results that directly follow it."""
    segments: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.role is not Role.TOOL or not segments:
            segments.append(_Turn(message.role, index))
        segments[-1].messages.append(message)
    return segments


def _turns(messages: Sequence[Message], *, results_are: Role) -> list[_Turn]:
    """Merge neighbours of one role; system messages travel outside the turns."""
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.role is Role.SYSTEM:
            continue
        role = results_are if message.role is Role.TOOL else message.role
        if not turns or turns[-1].role is not role:
            turns.append(_Turn(role, index))
        turns[-1].messages.append(message)
    return turns


def _unpaired(
    turn: _Turn, answers: Sequence[Message], excused: frozenset[str] = frozenset()
) -> list[str]:
    found = Counter(answer.tool_call_id for answer in answers)
    problems = _repeated(turn.where, turn.calls)
    for call_id in dict.fromkeys(call.id for call in turn.calls):
        count = found.pop(call_id, 0)
        if count > 1 or (count == 0 and call_id not in excused):
            problems.append(f"{turn.where}: call {call_id!r} has {count} results")
    problems += [f"{turn.where}: the result of {call_id!r} answers no call" for call_id in found]
    return problems


def _repeated(where: str, calls: Iterable[ToolCall]) -> list[str]:
    counts = Counter(call.id for call in calls)
    return [f"{where}: call id {name!r} is used {n} times" for name, n in counts.items() if n > 1]


def assert_valid_events(events: Sequence[AgentEvent]) -> None:
    """Raise `AssertionError` with every problem that `check_events` finds."""
    _raise(check_events(events))


def check_events(events: Sequence[AgentEvent]) -> list[str]:
    """Check the order of a recorded stream or of a log, from the start of an activation on.

    Several activations and several runs may follow each other. Results before the first step
    of an activation are replays: their call may have been streamed before the recording began.
    State snapshots are asked for only when there are any, because a log keeps none.
    """
    order = _EventOrder(has_snapshots=any(isinstance(event, StateSnapshot) for event in events))
    for index, event in enumerate(events):
        order.see(f"event {index} ({event.__struct_config__.tag})", event)
    if order.run_id is not None or not events:
        order.problems.append("the stream ends without a terminal event")
    return order.problems


_TOOLS_STAGE, _SNAPSHOT_STAGE = 3, 4
_STAGES: dict[type, int] = {
    TextDelta: 0,
    ReasoningDelta: 0,
    ReasoningEncryptedValue: 0,
    ToolCallStart: 0,
    ToolCallDelta: 0,
    ToolCallCancel: 0,
    StreamReset: 0,
    ToolCallReady: 1,
    InferenceComplete: 2,
    ToolCallStreamDelta: _TOOLS_STAGE,
    ToolCallDone: _TOOLS_STAGE,
    ToolCallResumed: _TOOLS_STAGE,
    StateSnapshot: _SNAPSHOT_STAGE,
}
"""A step only ever goes forward through these; what is not listed may come at any time."""

_CallEvent = (
    ToolCallDelta
    | ToolCallReady
    | ToolCallCancel
    | ToolCallStreamDelta
    | ToolCallDone
    | ToolCallResumed
)


class _EventOrder:
    """Reads a stream once and notes every rule that it breaks."""

    def __init__(self, *, has_snapshots: bool) -> None:
        self.problems: list[str] = []
        self.run_id: str | None = None
        self._has_snapshots = has_snapshots
        self._has_begun = False
        self._ended_runs: set[str] = set()
        self._where = ""
        self._step = 0
        self._in_step = self._is_replay = False
        self._stage = 0
        self._unsnapped: str | None = None
        self._places: dict[str, tuple[int, int]] = {}
        """Call id to its step and its place among all calls."""
        self._call_count = 0
        self._last_ready = -1
        self._settled: set[str] = set()
        self._suspended: set[str] = set()
        """Calls that this activation suspended; their outcome comes whenever it is decided."""
        self._ready: set[str] = set()
        self._last_result: dict[int, int] = {}
        """Step to the place of its last result in this activation."""

    def see(self, where: str, event: AgentEvent) -> None:
        self._where = where
        if isinstance(event, RunStart):
            self._start_run(event)
        elif self.run_id is None:
            # A run that could not even be written has nothing but its error to show.
            if not isinstance(event, ErrorEvent) or self._has_begun:
                self._note("only run_start may come here")
            self._has_begun = True
        elif is_terminal(event):
            self._end_activation(event)
        elif isinstance(event, StepStart):
            self._start_step()
        elif isinstance(event, StepEnd):
            self._end_step()
        else:
            self._see_stage(event)
            self._see_call(event)

    def _note(self, problem: str) -> None:
        self.problems.append(f"{self._where}: {problem}")

    def _start_run(self, event: RunStart) -> None:
        if self.run_id is not None:
            self._note(f"the activation of run {self.run_id!r} has no terminal event")
        if event.run_id in self._ended_runs:
            self._note(f"run {event.run_id!r} has ended")
        self.run_id = event.run_id
        self._has_begun = True
        self._in_step, self._is_replay = False, True
        self._unsnapped = None
        self._last_result = {}

    def _end_activation(self, event: AgentEvent) -> None:
        run_id, self.run_id = self.run_id or "", None
        if not isinstance(event, RunFinish):
            # A step that could not be made durable cannot be said to have ended.
            self._ended_runs.add(run_id)
            return
        if self._in_step:
            self._note("the last step has no step_end")
        if event.run_id != run_id:
            self._note(f"run {run_id!r} was started, run {event.run_id!r} finishes")
        if not isinstance(event.termination, Suspended):
            self._ended_runs.add(run_id)
        if not isinstance(event.termination, Failed | Cancelled):
            self._note_missing_snapshot()

    def _start_step(self) -> None:
        if self._in_step:
            self._note("the step before has no step_end")
        self._note_missing_snapshot()
        self._step += 1
        self._in_step, self._is_replay = True, False
        self._stage, self._last_ready = 0, -1

    def _end_step(self) -> None:
        if not self._in_step:
            self._note("there is no step to end")
        elif self._has_snapshots and self._stage != _SNAPSHOT_STAGE:
            self._unsnapped = self._where
        self._in_step = False

    def _note_missing_snapshot(self) -> None:
        # Known only now: a step that ends its run by failing may have nothing to show.
        if self._unsnapped is not None:
            self.problems.append(f"{self._unsnapped}: no state_snapshot before it")
        self._unsnapped = None

    def _see_stage(self, event: AgentEvent) -> None:
        stage = _STAGES.get(type(event))
        if stage is None:
            return
        if self._in_step and stage < self._stage:
            self._note("comes too late in its step")
        elif not self._in_step and stage < _TOOLS_STAGE:
            self._note("is outside of a step")
        self._stage = max(stage, self._stage)

    def _see_call(self, event: AgentEvent) -> None:
        if isinstance(event, ToolCallStart):
            if self._places.get(event.id, (0, 0))[0] == self._step:
                self._note(f"call {event.id!r} is started twice")
            self._call_count += 1
            self._places[event.id] = (self._step, self._call_count)
            self._settled.discard(event.id)
            self._ready.discard(event.id)
        elif isinstance(event, StreamReset):
            current = self._step
            self._places = {name: it for name, it in self._places.items() if it[0] != current}
        elif isinstance(event, _CallEvent):
            call_id = event.target_id if isinstance(event, ToolCallResumed) else event.id
            if call_id not in self._places and not self._is_replay:
                self._note(f"call {call_id!r} was not started")
            else:
                self._see_progress(call_id, event)

    def _see_progress(self, call_id: str, event: _CallEvent) -> None:
        step, place = self._places.get(call_id, (0, 0))
        match event:
            case ToolCallCancel():
                self._places.pop(call_id, None)
            case ToolCallReady():
                if place <= self._last_ready:
                    self._note(f"call {call_id!r} is not ready in call order")
                self._last_ready = place
                self._ready.add(call_id)
            case ToolCallDone() | ToolCallResumed():
                if call_id in self._ready and call_id not in self._suspended:
                    if place <= self._last_result.get(step, -1):
                        self._note(f"the result of {call_id!r} is not in call order")
                    self._last_result[step] = place
                self._see_outcome(call_id, event)

    def _see_outcome(self, call_id: str, event: ToolCallDone | ToolCallResumed) -> None:
        if call_id in self._settled:
            self._note(f"call {call_id!r} has two outcomes")
        if isinstance(event, ToolCallDone) and event.outcome is ToolCallOutcome.SUSPENDED:
            self._suspended.add(call_id)
        else:
            self._settled.add(call_id)


def _raise(problems: list[str]) -> None:
    if problems:
        raise AssertionError("\n".join(problems))
