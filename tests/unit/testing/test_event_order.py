from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.events import (
    LIVE_EVENTS,
    ActivitySnapshot,
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    LoggedEvent,
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
)
from awaken.contracts.lifecycle import Cancelled, Failed, NaturalEnd, Suspended, Termination
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tool_results import ToolResult
from awaken.testing.event_order import assert_valid_events, check_events


def start(run_id: str = "r") -> RunStart:
    return RunStart(thread_id="t", run_id=run_id)


def finish(termination: Termination | None = None, run_id: str = "r") -> RunFinish:
    return RunFinish(thread_id="t", run_id=run_id, termination=termination or NaturalEnd())


def done(call_id: str, outcome: ToolCallOutcome = ToolCallOutcome.SUCCEEDED) -> ToolCallDone:
    return ToolCallDone(id=call_id, result=ToolResult.success("t", 1), outcome=outcome)


def suspended(call_id: str) -> ToolCallDone:
    return done(call_id, ToolCallOutcome.SUSPENDED)


def opened(*ids: str) -> list[AgentEvent]:
    return [ToolCallStart(id=call_id, name="t") for call_id in ids]


def ready(*ids: str) -> list[AgentEvent]:
    return [ToolCallReady(id=call_id, name="t", arguments={}) for call_id in ids]


def resumed(call_id: str) -> ToolCallResumed:
    return ToolCallResumed(target_id=call_id)


STEP, END, SNAP = StepStart(), StepEnd(), StateSnapshot(snapshot={})
INFERRED = InferenceComplete(model="m")
TEXT = TextDelta(delta="x")


def step(*inside: AgentEvent) -> list[AgentEvent]:
    return [STEP, *inside, SNAP, END]


def batch(*ids: str) -> list[AgentEvent]:
    """The first half of a step that calls: up to the moment the tools run."""
    return [*opened(*ids), *ready(*ids), INFERRED]


def run(*inside: AgentEvent) -> list[AgentEvent]:
    return [start(), *inside, finish()]


def pause(*inside: AgentEvent) -> list[AgentEvent]:
    return [start(), *inside, SNAP, finish(Suspended())]


ARGS = ToolCallDelta(id="a", args_delta="{}")
OUTPUT = ToolCallStreamDelta(id="a", name="t", delta="…")
CANCEL = ToolCallCancel(id="a", name="t", reason="x")
RESET = StreamReset(reason="x")
ACTIVITY = ActivitySnapshot(message_id="m", activity_type="p")
ERROR = ErrorEvent(message="x")
ANSWER = step(ReasoningDelta(delta="hm"), TEXT, INFERRED)
TOOLS = step(*batch("a", "b"), OUTPUT, done("a"), ACTIVITY, done("b"))
PAUSE = pause(*step(*batch("a", "b"), suspended("a"), suspended("b")))
FAILURE = [start(), *ANSWER, STEP, TEXT, END, SNAP, finish(Failed(message="x"))]

VALID: dict[str, list[AgentEvent]] = {
    "decided one after the other": [*PAUSE, *run(resumed("b"), resumed("a"), *ANSWER)],
    "text": run(*ANSWER, SNAP),
    "tools": run(*TOOLS, *ANSWER, SNAP),
    "no step": [start(), SNAP, finish(Cancelled())],
    "error": [start(), ERROR],
    "an error alone": [ERROR],
    "an error in a step": [start(), STEP, TEXT, ERROR],
    "arguments in pieces": run(*step(*opened("a"), ARGS, ARGS, *ready("a"), INFERRED, done("a"))),
    "a failure in a step": FAILURE,
    "bad arguments": run(*step(*opened("a", "b"), *ready("b"), INFERRED, done("b"), done("a"))),
    "bad arguments after good ones": run(
        *TOOLS, *step(*opened("a", "b"), *ready("b"), INFERRED, done("b"), done("a"))
    ),
    "a run after a failure": [*FAILURE, start("s"), *ANSWER, finish(run_id="s")],
    "suspended only": PAUSE,
    "decided at once": run(*step(*batch("a", "b"), suspended("a"), done("b"), resumed("a"))),
    "resumed in call order": [*PAUSE, *run(OUTPUT, resumed("a"), resumed("b"), *ANSWER)],
    "resumed one by one": [
        *PAUSE,
        *pause(resumed("b")),
        *pause(suspended("a")),
        *run(resumed("a"), *ANSWER),
    ],
    "recorded from the resume on": run(resumed("b"), done("a"), *ANSWER),
    "the next run": [*run(*TOOLS), start("s"), *TOOLS, finish(run_id="s")],
}
RECOVERED: dict[str, list[AgentEvent]] = {
    "restarted": run(*step(*opened("a"), RESET, *batch("a"), done("a"))),
    "cancelled": run(*step(*opened("a"), CANCEL, *batch("a", "b"), done("a"), done("b"))),
}


@pytest.mark.parametrize("name", VALID | RECOVERED)
def test_valid_streams_have_no_problems(name):
    events = (VALID | RECOVERED)[name]
    assert check_events(events) == []
    assert_valid_events(events)


@pytest.mark.parametrize("name", VALID)
def test_their_logs_have_no_problems(name):
    assert check_events([it for it in VALID[name] if not isinstance(it, LIVE_EVENTS)]) == []


OUTSIDE, UNSTARTED, LATE = "only run_start", "'a' was not started", "comes too late in its step"
READY_ORDER, RESULT_ORDER = "'a' is not ready in call order", "result of 'a' is not in call order"
UNSNAPPED = "(step_end): no state_snapshot"

BROKEN: dict[str, tuple[str, list[AgentEvent]]] = {
    "no run_start": (OUTSIDE, [*ANSWER, finish()]),
    "an event after the end": (OUTSIDE, [*run(*ANSWER), SNAP]),
    "two terminal events": (OUTSIDE, [*run(), finish()]),
    "an error after the end": (OUTSIDE, [*run(), ERROR]),
    "an event while suspended": (OUTSIDE, [*PAUSE, TEXT]),
    "an error while suspended": (OUTSIDE, [*PAUSE, ERROR]),
    "nothing at all": ("without a terminal", []),
    "no end": ("without a terminal", [start(), *ANSWER]),
    "the same run again": ("has ended", [*run(), *run()]),
    "the same run after an error": ("has ended", [start(), ERROR, *run()]),
    "two starts": ("has no terminal event", [start(), *run()]),
    "another run finishes": ("run 's' finishes", [start(), finish(run_id="s")]),
    "a step without end": ("no step_end", run(STEP, TEXT)),
    "a step inside a step": ("no step_end", run(STEP, *ANSWER)),
    "step_end after run_finish": ("no step_end", [*run(STEP, SNAP), END]),
    "an end without step": ("no step to end", run(END)),
    "arguments before start": (UNSTARTED, run(*step(ARGS, *opened("a")))),
    "ready before start": (UNSTARTED, run(*step(*ready("a")))),
    "done before start": (UNSTARTED, run(*step(done("a")))),
    "resumed before start": (UNSTARTED, run(*step(resumed("a")))),
    "output before start": (UNSTARTED, run(*step(OUTPUT))),
    "ready after a reset": (UNSTARTED, run(*step(*opened("a"), RESET, *ready("a")))),
    "ready after its cancel": (UNSTARTED, run(*step(*opened("a"), CANCEL, *ready("a")))),
    "started twice": ("'a' is started twice", run(*step(*opened("a", "a")))),
    "ready out of order": (READY_ORDER, run(*step(*opened("a", "b"), *ready("b", "a")))),
    "ready twice": (READY_ORDER, run(*step(*opened("a"), *ready("a", "a")))),
    "done out of order": (RESULT_ORDER, run(*step(*batch("a", "b"), done("b"), done("a")))),
    "done twice": ("two outcomes", run(*step(*batch("a"), done("a")), *step(done("a")))),
    "resumed after done": ("two outcomes", [*pause(*TOOLS), *run(resumed("a"))]),
    "snapshot after step_end": (UNSNAPPED, run(STEP, TEXT, END, SNAP, *ANSWER)),
    "no snapshot in the last step": (UNSNAPPED, run(*ANSWER, STEP, TEXT, END, SNAP)),
    "a result after the snapshot": (LATE, run(STEP, *batch("a"), SNAP, done("a"), END)),
    "text after ready": (LATE, run(*step(*opened("a"), *ready("a"), TEXT))),
    "ready after inference": (LATE, run(*step(*opened("a"), INFERRED, *ready("a")))),
    "inference after a result": (LATE, run(*step(*opened("a"), *ready("a"), done("a"), INFERRED))),
    "text before the step": ("outside of a step", run(TEXT, *ANSWER)),
    "text between steps": ("outside of a step", run(*ANSWER, TEXT, *ANSWER)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_planted_violations_are_found(name):
    expected, events = BROKEN[name]
    assert expected in "\n".join(check_events(events))
    with pytest.raises(AssertionError):
        assert_valid_events(events)


def test_a_problem_is_reported_once_and_names_its_event():
    assert check_events(run(STEP, TEXT, END, SNAP, *ANSWER, *ANSWER)) == [
        "event 3 (step_end): no state_snapshot before it"
    ]


@st.composite
def streams(draw) -> list[AgentEvent]:
    events: list[AgentEvent] = [start()]
    count = 0
    for size in draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)):
        ids = [f"{count + offset}" for offset in range(size)]
        count += size
        words = [TEXT] * draw(st.integers(0, 3))
        events += step(*words, *batch(*ids), *(done(call_id) for call_id in ids))
    return [*events, SNAP, finish()]


@given(streams())
def test_random_valid_streams_have_no_problems(events):
    assert check_events(events) == []


STRUCTURE = RunStart | RunFinish | StepStart | StepEnd | ToolCallStart


@given(st.data())
def test_deleting_or_duplicating_any_event_of_the_structure_is_found(data):
    events = data.draw(streams())
    copies = data.draw(st.sampled_from([0, 2]))
    kinds = STRUCTURE if copies == 0 else STRUCTURE | ToolCallReady | ToolCallDone
    index = data.draw(st.sampled_from([i for i, it in enumerate(events) if isinstance(it, kinds)]))
    events[index : index + 1] = [events[index]] * copies
    assert check_events(events) != []


@given(st.data())
def test_swapping_two_readies_or_two_results_is_found(data):
    events = data.draw(streams())
    pairs = [
        i
        for i, (one, two) in enumerate(pairwise(events))
        if type(one) is type(two) and isinstance(one, ToolCallReady | ToolCallDone)
    ]
    if pairs:
        place = data.draw(st.sampled_from(pairs))
        events[place : place + 2] = events[place + 1], events[place]
        assert check_events(events) != []


def logged(events: list[AgentEvent]) -> list[LoggedEvent]:
    return [LoggedEvent(seq=seq, run_id="r", event=event) for seq, event in enumerate(events, 1)]


@pytest.mark.parametrize("events", [*VALID.values(), *(events for _, events in BROKEN.values())])
def test_the_entries_of_a_log_are_judged_by_their_events(events):
    assert check_events(logged(events)) == check_events(events)


def test_the_assert_takes_what_a_store_lists():
    assert_valid_events(logged(run(*step(TEXT, INFERRED))))
    with pytest.raises(AssertionError, match="without a terminal event"):
        assert_valid_events(logged([start()]))
