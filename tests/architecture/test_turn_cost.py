"""A turn costs no more than is recorded, and what a run does not use costs it nothing.

`turn_cost.py` measures and records; `turn_cost.toml` has the figures, which are only lowered, or
raised by an ADR. A minor version of Python without figures is held to those of the nearest one,
with an allowance.
"""

import asyncio
import dis
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.architecture.turn_cost import (
    ADRS,
    CALLS,
    DURABLE,
    PYTHON,
    Budget,
    Calls,
    build_agents,
    count_in_all_threads,
    count_turns,
    count_written,
    judge,
    look_up,
    measure_calls,
    open_durable,
    prepare_nothing,
)

from awaken import (
    Agent,
    AgentRuntime,
    ModelPool,
    Phase,
    Plugin,
    PluginRegistrar,
    PoolMember,
    SuspendTicket,
    TokenBudget,
    ToolContext,
    tool,
)
from awaken import Budget as SpendingBudget
from awaken.contracts.config.heads import Switch, SwitchKind, SwitchState
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.extensions.observability import ObservabilityPlugin
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.reminder import ReminderPlugin
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.testing import ScriptedModel, ToolCalls

BUDGET = Budget.read()
OF_ANOTHER_VERSION = 1.15
"""What a minor version of Python without figures may cost more than the nearest one that has."""


@pytest.mark.parametrize("name", CALLS)
def test_a_turn_calls_as_many_functions_as_recorded(name: str) -> None:
    allowed, is_own = BUDGET.calls_of()
    measured = measure_calls(name)
    if is_own:
        findings = [
            judge(f"calls.{PYTHON}", it, allowed.get(it, 0), value)
            for it, value in measured.items()
        ]
    else:
        findings = [
            f"{it}: {value} calls with Python {PYTHON}, {allowed[it]} with the nearest version that"
            " has figures; python -m tests.architecture.turn_cost --record makes its own"
            for it, value in measured.items()
            if value > allowed[it] * OF_ANOTHER_VERSION
        ]
    assert not any(findings), "\n".join(filter(None, findings))


@pytest.mark.parametrize("agent", DURABLE)
def test_a_durable_turn_writes_as_much_as_recorded(agent: str) -> None:
    findings = [
        judge(name, agent, BUDGET.figures[name][agent], value)
        for name, value in vars(count_written(agent)).items()
    ]
    assert not any(findings), "\n".join(filter(None, findings))


# ---- what a run does not use ----


class BusyPlugin(Plugin):
    """Has a hook and an observer in every phase, and a gate."""

    name = "busy"

    def register(self, registrar: PluginRegistrar) -> None:
        async def nothing(_context: Any) -> None:
            return None

        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, nothing)
                registrar.observer(phase, nothing)
        registrar.gate(nothing)


@tool
async def ask(key: str, ctx: ToolContext) -> str | SuspendTicket:
    """Ask a person first."""
    return ctx.suspend(f"Use {key}?") if ctx.resume is None else "used"


@dataclass(frozen=True)
class Beside:
    """Something that the process has and the counted run does not use."""

    agents: Callable[[], list[Agent]] = list
    options: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[AgentRuntime], Awaitable[object]] = prepare_nothing


async def switch_and_release(runtime: AgentRuntime) -> None:
    """Disable a tool, and release it."""
    switch = Switch(
        kind=SwitchKind.TOOL, id="x", state=SwitchState.DISABLED, reason="r", by="b", at=1
    )
    runtime.switches.apply((switch,))
    runtime.switches.apply(())


def other(**fields: Any) -> Callable[[], list[Agent]]:
    """Another agent, which has what the fields say."""

    def build() -> list[Agent]:
        given = {"model": ScriptedModel(["Hi."], cycle=True)} | fields
        return [Agent("other", **given)]

    return build


def suspended() -> list[Agent]:
    calls = ToolCalls([("ask", {"key": "a"})])
    return [Agent("other", model=ScriptedModel([calls, "Done."], cycle=True), tools=[ask])]


POOL = ModelPool(
    id="pool", members=(PoolMember(model_id="one:large"), PoolMember(model_id="two:large"))
)
MODELS = {name: ScriptedModel(["Hi."], cycle=True) for name in ("one", "two")}
FEATURES = {
    "another agent's tools": Beside(other(tools=[look_up, ask])),
    "another agent's hooks and gates": Beside(other(plugins=[BusyPlugin()])),
    "another agent's budgets": Beside(other(budgets=[SpendingBudget(tokens=10_000)])),
    "another agent's stop conditions": Beside(other(stop=[TokenBudget(max_total=10_000)])),
    "another agent's permissions": Beside(other(tools=[look_up], plugins=[PermissionPlugin()])),
    "another agent's screens": Beside(other(plugins=[GuardrailsPlugin()])),
    "another agent's reminders": Beside(other(plugins=[ReminderPlugin()])),
    "another agent's instruments": Beside(other(plugins=[ObservabilityPlugin()])),
    "another agent's background tasks": Beside(other(plugins=[BackgroundTasksPlugin()])),
    "another agent's pool of models": Beside(other(model=POOL), {"providers": MODELS}),
    "another agent's output type": Beside(other(output_type=dict[str, int])),
    "another agent that delegates": Beside(other(delegates=["plain"])),
    "a plugin and a tool that no agent names": Beside(
        options={"plugins": [BusyPlugin()], "tools": [look_up]}
    ),
    "a suspended run on another thread": Beside(
        suspended, prepare=lambda it: it.run("other", "hello", thread_id="waits")
    ),
    "a switch that was set and released": Beside(prepare=switch_and_release),
    "a finished run of another agent with hooks": Beside(
        other(plugins=[BusyPlugin()]), prepare=lambda it: it.run("other", "hello")
    ),
}


@asynccontextmanager
async def open_in_memory(agents: list[Agent], **options: Any) -> AsyncIterator[AgentRuntime]:
    async with AgentRuntime(agents, **options) as runtime:
        yield runtime


def count_beside(
    beside: Beside, opened: Callable[..., AbstractAsyncContextManager[AgentRuntime]]
) -> Calls:
    async def measure() -> Calls:
        agents = [*build_agents(), *beside.agents()]
        with count_in_all_threads() as counter:
            async with opened(agents, **beside.options) as runtime:
                await beside.prepare(runtime)
                return await count_turns(counter, partial(runtime.run, "plain", "hello"))

    return asyncio.run(measure())


@pytest.mark.parametrize("feature", FEATURES)
def test_what_a_run_does_not_use_costs_it_nothing(feature: str) -> None:
    alone = count_beside(Beside(), open_in_memory)
    assert count_beside(FEATURES[feature], open_in_memory) == alone


@pytest.mark.parametrize("feature", ["a suspended run on another thread"])
def test_what_a_durable_run_does_not_use_costs_it_nothing(feature: str) -> None:
    alone = count_beside(Beside(), open_durable)
    assert count_beside(FEATURES[feature], open_durable) == alone


# ---- managed configuration ----


async def publish_plain(runtime: AgentRuntime) -> None:
    """Make a publication live that changes the agent of the counted run."""
    assert runtime.managed is not None
    write = RecordWrite(namespace="agents", id="plain", author=Author(id="ann"))
    await runtime.managed.records.patch(write, {"max_rounds": 9})
    assert (await runtime.managed.heads.read_head()).publication == 1


MANAGED = {
    "nothing published": Beside(options={"managed": True}),
    "a live publication, nothing switched": Beside(
        options={"managed": True}, prepare=publish_plain
    ),
}
MANAGED_SHARE = 0.02
"""What a turn may cost more in a runtime with managed configuration."""
SPREAD = 4
"""How much one measurement differs from the next: ids and times compress differently."""


def list_dearer(alone: dict[str, int], managed: dict[str, int]) -> list[str]:
    """The figures that managed configuration raises by more than its share."""
    return [
        f"{name}: {value}, without managed configuration {alone[name]}"
        for name, value in managed.items()
        if value > alone[name] * (1 + MANAGED_SHARE) + SPREAD
    ]


@pytest.mark.parametrize("case", MANAGED)
@pytest.mark.parametrize("opened", [open_in_memory, open_durable])
def test_managed_configuration_adds_hardly_a_call_to_a_turn(
    case: str, opened: Callable[..., AbstractAsyncContextManager[AgentRuntime]]
) -> None:
    alone, managed = count_beside(Beside(), opened), count_beside(MANAGED[case], opened)
    assert list_dearer(vars(alone), vars(managed)) == []


@pytest.mark.parametrize("case", MANAGED)
def test_managed_configuration_adds_hardly_a_byte_to_a_turn(case: str) -> None:
    beside = MANAGED[case]
    alone, managed = (
        count_written("plain"),
        count_written("plain", beside.prepare, **beside.options),
    )
    assert list_dearer(vars(alone), vars(managed)) == []


# ---- the ratchet itself ----


@pytest.mark.parametrize(
    ("section", "figure", "value", "verdict"),
    [
        ("calls.3.11", 491, 491, None),
        ("calls.3.11", 491, 492, "the budget is 491"),
        ("calls.3.11", 100, 95, None),
        ("calls.3.11", 100, 94, "Lower the figure to 94"),
        ("calls.3.11", 4_000, 3_930, None),
        ("calls.3.11", 4_000, 3_900, "Lower the figure to 3900"),
        ("commits", 3, 4, "the budget is 3"),
        ("commits", 3, 2, "Lower the figure to 2"),
        ("bytes", 2_500, 2_520, None),
        ("bytes", 2_500, 2_600, "the budget is 2500"),
        ("bytes", 2_500, 2_400, "Lower the figure to 2400"),
    ],
)
def test_a_figure_is_a_finding_above_its_budget_and_well_below_it(
    section: str, figure: int, value: int, verdict: str | None
) -> None:
    found = judge(section, "plain", figure, value)
    assert found is None if verdict is None else verdict in str(found)


def test_recording_lowers_figures_and_raises_none_without_an_adr(tmp_path: Path) -> None:
    before = Budget({"calls.3.11": {"plain": 100, "looks": 200}, "commits": {"plain": 2}}, {})
    measured = {"calls.3.11": {"plain": 90, "looks": 230}, "commits": {"plain": 3}}
    after, refused = before.record(measured)
    assert after.figures == {"calls.3.11": {"plain": 90, "looks": 200}, "commits": {"plain": 2}}
    assert [it.split(":")[0] for it in refused] == ["calls.3.11.looks", "commits.plain"]
    raised, refused = before.record(measured, adr=7)
    assert refused == []
    assert raised.figures["calls.3.11"] == {"plain": 90, "looks": 230}
    assert raised.raised == {"calls.3.11.looks": 7, "commits.plain": 7}
    raised.write(tmp_path / "figures.toml")
    assert Budget.read(tmp_path / "figures.toml") == raised
    lowered, _ = raised.record({"commits": {"plain": 1}})
    assert "commits.plain" not in lowered.raised


def test_a_version_of_python_without_figures_is_held_to_the_nearest_one() -> None:
    budget = Budget({"calls.3.11": {"plain": 1}, "calls.3.13": {"plain": 2}}, {})
    assert budget.calls_of("3.13") == ({"plain": 2}, True)
    assert budget.calls_of("3.15") == ({"plain": 2}, False)
    assert budget.calls_of("3.10") == ({"plain": 1}, False)


def test_every_raised_figure_names_an_adr_that_exists() -> None:
    missing = [key for key, adr in BUDGET.raised.items() if not list(ADRS.glob(f"{adr:04}-*.md"))]
    assert missing == []


def test_no_call_of_a_turn_has_more_keywords_than_python_passes_without_a_dict() -> None:
    """Of more than 15 keywords Python makes a dict, entry by entry, which costs more than the call.

    No count of calls shows that; `bench/instructions.py` does.
    """
    found: set[str] = set()

    def see(frame: FrameType, event: str, _arg: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code
        if event == "opcode" and dis.opname[code.co_code[frame.f_lasti]] == "MAP_ADD":
            found.add(f"{code.co_filename}:{code.co_qualname}")
        return see

    async def play() -> None:
        async with AgentRuntime(build_agents()) as runtime:
            await runtime.run("pays", "hello")
            sys.settrace(see)
            # In a task of its own, whose frames begin under the trace function.
            await asyncio.create_task(runtime.run("pays", "hello"))

    before = sys.gettrace()
    try:
        asyncio.run(play())
    finally:
        sys.settrace(before)
    assert found == set()
