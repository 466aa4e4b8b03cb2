"""Stop rules: each limit, their order, and what they mean for a real run."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken import Agent, AgentRuntime, AgentSpec, ToolContext, ToolResult, tool
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.lifecycle import NaturalEnd, Stopped
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.plugins.loop_state import STOP_STATS, StopStats
from awaken.contracts.specs.agents import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.runtime.stop_conditions import RunProgress, StopRules, count_step
from awaken.testing.fakes import FakeClock
from awaken.testing.scripted_model import ScriptedModel, ToolCalls, Turn


def rules(*conditions: StopCondition, max_rounds: int = 0) -> StopRules:
    spec = AgentSpec(id="a", model_id="m", max_rounds=max_rounds, stop_conditions=conditions)
    return StopRules.of(spec)


def after(rounds: int = 0, active_ms: int = 0, errors: int = 0, tokens: int = 0) -> RunProgress:
    stats = StopStats(rounds=rounds, active_ms=active_ms, consecutive_errors=errors)
    return RunProgress(
        stats=stats,
        usage=TokenUsage(prompt_tokens=tokens // 2, completion_tokens=tokens - tokens // 2),
    )


def code_of(checked: StopRules, progress: RunProgress) -> str | None:
    reason = checked.verdict(progress)
    return reason.code if reason else None


LIMITS: list[tuple[Any, str, str, int]] = [
    # the rule for a limit · its code · what it counts · the last count that goes on, limit 5
    (lambda limit: rules(max_rounds=limit), "max_rounds", "rounds", 4),
    (lambda limit: rules(MaxRounds(rounds=limit)), "max_rounds", "rounds", 4),
    (lambda limit: rules(ConsecutiveErrors(max=limit)), "consecutive_errors", "errors", 4),
    (lambda limit: rules(TokenBudget(max_total=limit)), "token_budget", "tokens", 5),
    (lambda limit: rules(Timeout(seconds=limit)), "timeout", "active_ms", 5000),
]


@pytest.mark.parametrize(("rule", "code", "counted", "last"), LIMITS)
def test_a_rule_holds_beyond_its_limit_only_and_zero_switches_it_off(
    rule: Any, code: str, counted: str, last: int
) -> None:
    on, off = rule(5), rule(0)
    for count in (0, last - 1, last):
        assert on.verdict(after(**{counted: count})) is None
    reason = on.verdict(after(**{counted: last + 1}))
    assert reason is not None
    assert reason.code == code
    assert str(last + 1) in (reason.detail or "")
    for other in {"rounds", "errors", "tokens", "active_ms"} - {counted}:
        assert on.verdict(after(**{other: 10**9})) is None
    assert off.verdict(after(**{counted: 10**9})) is None


def test_the_first_rule_that_holds_gives_the_reason() -> None:
    many = rules(TokenBudget(max_total=5), Timeout(seconds=1), max_rounds=9)
    assert code_of(many, after(tokens=5, active_ms=1000, rounds=8)) is None
    assert code_of(many, after(active_ms=9999)) == "timeout"
    assert code_of(many, after(tokens=6, active_ms=9999)) == "token_budget"
    assert code_of(many, after(tokens=6, active_ms=9999, rounds=9)) == "max_rounds"
    assert rules().verdict(after(rounds=10**6, tokens=10**6)) is None


@pytest.mark.parametrize(
    ("condition", "progress", "holds"),
    [
        (StopOnTool(tool_name="pay"), {"tool_names": ("look", "pay")}, True),
        (StopOnTool(tool_name="pay"), {"tool_names": ("payment",)}, False),
        (StopOnTool(tool_name="pay"), {}, False),
        (ContentMatch(pattern="done|ok"), {"text": "all done now"}, True),
        (ContentMatch(pattern="^done$"), {"text": "all done now"}, False),
    ],
)
def test_rules_on_what_was_said_and_called(
    condition: StopCondition, progress: dict[str, Any], holds: bool
) -> None:
    reason = rules(condition).verdict(RunProgress(stats=StopStats(), **progress))
    assert (reason is not None) is holds
    if reason is not None:
        assert reason.code == msgspec.to_builtins(condition)["type"]


@pytest.mark.parametrize(
    "condition",
    [
        ContentMatch(pattern="("),
        ContentMatch(pattern=r"(a)\1"),
        MaxRounds(rounds=-1),
        Timeout(seconds=-1),
        LoopDetection(window=1),
        LoopDetection(window=33),
    ],
)
def test_a_rule_that_could_never_work_is_refused_when_it_is_written(
    condition: StopCondition,
) -> None:
    with pytest.raises(InvalidSpec, match="agent 'a'"):
        rules(condition)


steps = st.lists(
    st.tuples(st.lists(st.sampled_from(["x", "y"]), max_size=2), st.booleans()), max_size=40
)


@given(steps, st.integers(2, 32))
def test_stats_count_steps_errors_in_a_row_and_equal_steps_in_a_row(
    taken: list[tuple[list[str], bool]], window: int
) -> None:
    stats = StopStats()
    for index, (names, failed) in enumerate(taken):
        calls = tuple(ToolCall(id=f"{index}.{n}", name=name) for n, name in enumerate(names))
        stats = count_step(stats, calls, is_failed=failed, active_ms=index)
    in_a_row = 0
    for _, failed in reversed(taken):
        if not failed:
            break
        in_a_row += 1
    assert (stats.rounds, stats.consecutive_errors) == (len(taken), in_a_row)
    latest = [names for names, _ in taken[-window:]]
    is_looping = len(latest) == window and bool(latest[0]) and all(n == latest[0] for n in latest)
    reason = rules(LoopDetection(window=window)).verdict(RunProgress(stats=stats))
    assert (reason is not None) is is_looping
    assert msgspec.json.decode(msgspec.json.encode(stats), type=StopStats) == stats


CLOCK = FakeClock()


@tool(effect="none")
async def work(ms: int) -> ToolResult:
    """Take some time; negative time is an error."""
    if ms < 0:
        return ToolResult.error("work", "no")
    CLOCK.advance(ms)
    return ToolResult.success("work", ms)


@tool(effect="none")
async def ask(ctx: ToolContext) -> str | SuspendTicket:
    """Ask somebody."""
    return "answered" if ctx.resume else ctx.suspend("well?")


def calls(*arguments: int, text: str = "") -> ToolCalls:
    return ToolCalls([("work", {"ms": ms}) for ms in arguments], text=text)


TOKENS = TokenUsage(prompt_tokens=4, completion_tokens=3)
RUNS: list[tuple[list[StopCondition], int, list[Any], str | None, int]] = [
    # conditions · max_rounds · script · code · inferences
    ([], 3, [calls(n) for n in range(9)], "max_rounds", 3),
    ([], 2, [calls(1), "answer"], None, 2),
    ([], 0, [calls(n) for n in range(20)] + ["answer"], None, 21),
    ([MaxRounds(rounds=2)], 16, [calls(n) for n in range(9)], "max_rounds", 2),
    ([Timeout(seconds=1)], 16, [calls(600), calls(600), "answer"], "timeout", 2),
    ([TokenBudget(max_total=14)], 16, [calls(n) for n in range(9)], "token_budget", 3),
    (
        [ConsecutiveErrors(max=2)],
        16,
        [calls(-1), calls(-1, 1), calls(-1), calls(-1, -1), "x"],
        "consecutive_errors",
        4,
    ),
    ([StopOnTool(tool_name="work")], 16, [calls(1), "answer"], "stop_on_tool", 1),
    (
        [ContentMatch(pattern="enough")],
        16,
        [calls(1, text="not enough"), "answer"],
        "content_match",
        1,
    ),
    ([ContentMatch(pattern="enough")], 16, [calls(1), "enough"], None, 2),
    (
        [LoopDetection(window=3)],
        16,
        [calls(1), calls(2), calls(2), calls(2), "x"],
        "loop_detection",
        4,
    ),
    ([Timeout(seconds=9), StopOnTool(tool_name="none")], 16, [calls(1), "answer"], None, 2),
]


@pytest.mark.parametrize(("conditions", "max_rounds", "script", "code", "inferences"), RUNS)
def test_a_run_stops_between_two_steps_and_loses_no_answer(
    conditions: list[StopCondition],
    max_rounds: int,
    script: list[Any],
    code: str | None,
    inferences: int,
) -> None:
    model = ScriptedModel(script, usage=TOKENS)
    agent = Agent("a", model=model, tools=[work], max_rounds=max_rounds, stop=conditions)
    runtime = AgentRuntime([agent], clock=CLOCK)
    result = asyncio.run(runtime.run("a", "go"))
    assert (len(model.requests), result.steps) == (inferences, inferences)
    if code is None:
        assert isinstance(result.termination, NaturalEnd)
        assert result.text in ("answer", "enough")
    else:
        assert isinstance(result.termination, Stopped)
        assert result.termination.reason.code == code
        assert result.termination.reason.detail


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        (MaxRounds(rounds=1), "max_rounds"),
        (TokenBudget(max_total=6), "token_budget"),
        (StopOnTool(tool_name="ask"), "stop_on_tool"),
        (ContentMatch(pattern="let me"), "content_match"),
        (StopOnTool(tool_name="other"), None),
    ],
)
def test_a_suspension_is_no_way_around_a_rule(condition: StopCondition, code: str | None) -> None:
    script = [Turn(text="let me ask", calls=[("ask", {})]), "answer"]
    agent = Agent("a", model=ScriptedModel(script, usage=TOKENS), tools=[ask], stop=[condition])

    async def main() -> tuple[Any, Any]:
        async with AgentRuntime([agent]) as runtime:
            waiting = await runtime.run("a", "go", thread_id="t")
            stored = await runtime.store.checkout("t")
            await runtime.decide(waiting.tickets[0].ticket_id, result="yes")
            return stored, await runtime.wait(waiting.run_id)

    stored, result = asyncio.run(main())
    assert STOP_STATS.decode(stored.run_state[STOP_STATS.name]).rounds == 1
    if code is None:
        assert (result.termination, result.text) == (NaturalEnd(), "answer")
    else:
        assert isinstance(result.termination, Stopped)
        assert (result.termination.reason.code, result.text) == (code, "let me ask")
