"""The timeline is a function of the logged events alone."""

import msgspec

from awaken.contracts.events import (
    AgentEvent,
    InferenceComplete,
    LoggedEvent,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from awaken.contracts.lifecycle import NaturalEnd, RunStatus, Suspended
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect
from awaken.services.timeline import TimelineSpan, build_timeline

RUN = RunRecord(run_id="r", thread_id="t", agent_id="a", started_at=1_000)
PLACE = {"thread_id": "t", "run_id": "r"}
RESULT = msgspec.structs.replace(
    ToolResult.success("pay", "paid"), metadata={"child_run_id": "child"}
)
ASKED = ToolCallDone(
    id="c", result=ToolResult.success("pay", None), outcome=ToolCallOutcome.SUSPENDED, ticket_id="k"
)


def log(*commits: tuple[int, list[AgentEvent]]) -> list[LoggedEvent]:
    events = [(at, event) for at, many in commits for event in many]
    return [
        LoggedEvent(seq=seq, run_id="r", event=event, created_at=at)
        for seq, (at, event) in enumerate(events, 1)
    ]


def inference(started_at: int | None, ms: int) -> InferenceComplete:
    usage = TokenUsage(prompt_tokens=8, completion_tokens=2, cost_nanos=5)
    return InferenceComplete(
        model="m", usage=usage, started_at=started_at, duration_ms=ms, first_token_ms=3, attempts=2
    )


def shape(span: TimelineSpan) -> tuple[str, int, int | None]:
    return span.kind, span.start, span.ms


def test_a_run_that_waits_has_a_wait_between_its_steps() -> None:
    ready = ToolCallReady(id="c", name="pay")
    resumed = ToolCallResumed(target_id="c", ticket_id="k", started_at=5_010, duration_ms=40)
    spans = build_timeline(
        RUN,
        log(
            (1_000, [RunStart(**PLACE)]),
            (1_200, [StepStart(), inference(1_004, 90), ready, ASKED, StepEnd()]),
            (1_210, [RunFinish(**PLACE, termination=Suspended())]),
            (5_000, [RunStart(**PLACE)]),
            (5_060, [resumed]),
            (5_200, [StepStart(), inference(5_070, 100), StepEnd()]),
            (5_201, [RunFinish(**PLACE, termination=NaturalEnd())]),
        ),
        {(1, "c"): ToolEffect.ONCE},
    )
    assert [shape(it) for it in spans] == [
        ("step", 0, 200),
        ("wait", 210, 3_790),
        ("tool", 4_010, 40),
        ("step", 4_060, 140),
    ]
    model, call = spans[0].children
    assert shape(model) == ("model", 4, 90)
    assert (model.tokens, model.cost_nanos, model.attempts) == ((8, 2), 5, 2)
    assert (call.outcome, call.tickets, call.effect) == ("suspended", ("k",), ToolEffect.ONCE)
    assert (spans[1].reason, spans[1].tickets) == ("tool_permission", ("k",))
    assert (spans[2].tool, spans[2].outcome) == ("pay", "resumed")


def test_a_call_that_failed_after_its_decision_says_so() -> None:
    ready = ToolCallReady(id="c", name="pay")
    spans = build_timeline(
        RUN,
        log(
            (1_000, [RunStart(**PLACE)]),
            (1_200, [StepStart(), inference(1_004, 90), ready, ASKED, StepEnd()]),
            (1_210, [RunFinish(**PLACE, termination=Suspended())]),
            (5_060, [RunStart(**PLACE), ToolCallResumed(target_id="c", is_failed=True)]),
        ),
    )
    assert [it.outcome for it in spans if it.kind == "tool"] == ["failed"]


def test_a_run_that_executes_or_crashed_has_an_open_step() -> None:
    done = ToolCallDone(id="c", result=RESULT, outcome=ToolCallOutcome.SUCCEEDED, attempts=2)
    (step,) = build_timeline(
        RUN,
        log((1_000, [RunStart(**PLACE)]), (1_100, [StepStart(), inference(1_001, 50), done])),
    )
    assert (step.ms, len(step.children)) == (None, 2)
    assert step.children[1].attempts == 2
    assert step.children[1].child_run_id == "child"


def test_an_older_log_gives_commit_times_and_says_so() -> None:
    done = ToolCallDone(id="c", result=RESULT, outcome=ToolCallOutcome.SUCCEEDED)
    (step,) = build_timeline(
        RUN,
        log(
            (1_000, [RunStart(**PLACE)]),
            (1_100, [StepStart(), inference(None, 60)]),
            (1_300, [done, StepEnd()]),
        ),
    )
    assert [(*shape(it), it.is_estimated) for it in step.children] == [
        ("model", 40, 60, True),
        ("tool", 100, 200, True),
    ]


def test_a_run_that_waits_now_names_the_wait_without_an_end() -> None:
    record = RunRecord(
        run_id="r", thread_id="t", agent_id="a", started_at=1_000, status=RunStatus.WAITING
    )
    finish = RunFinish(**PLACE, termination=Suspended())
    events = log((1_000, [RunStart(**PLACE)]), (1_100, [StepStart(), ASKED, StepEnd(), finish]))
    step, wait = build_timeline(record, events)
    assert shape(step) == ("step", 0, 100)
    assert (*shape(wait), wait.tickets) == ("wait", 100, None, ("k",))
