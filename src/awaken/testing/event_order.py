"""What a stream of events must look like, as a checker for any test.

`check_events` returns sentences, none when all is well; the assert raises with all of them. It
judges events only, recorded or logged, and knows nothing of how they were made.
"""

from collections.abc import Sequence

from awaken.contracts.events import (
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    LoggedEvent,
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
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.suspension.tickets import ToolCallOutcome


def assert_valid_events(events: Sequence[AgentEvent | LoggedEvent]) -> None:
    """Raise `AssertionError` with every problem that `check_events` finds."""
    if problems := check_events(events):
        raise AssertionError("\n".join(problems))


def check_events(events: Sequence[AgentEvent | LoggedEvent]) -> list[str]:
    """Check the order of a recorded stream or of a log, from the start of an activation on.

    Several activations and several runs may follow each other. Results before the first step
    of an activation are replays: their call may have been streamed before the recording began.
    State snapshots are asked for only when there are any, because a log keeps none.
    """
    plain = [item.event if isinstance(item, LoggedEvent) else item for item in events]
    order = _EventOrder(has_snapshots=any(isinstance(event, StateSnapshot) for event in plain))
    for index, event in enumerate(plain):
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
        if not isinstance(event.termination, Suspended) and not event.awaits_tasks:
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
