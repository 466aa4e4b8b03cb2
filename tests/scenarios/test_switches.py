"""Kill switches in runs: agents stop between steps and go on, tools and models are refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    MailboxConfig,
    ModelPool,
    ModelSpec,
    PoolMember,
    RunFailed,
    RunStatus,
    SuspendTicket,
    ToolContext,
    tool,
)
from awaken.contracts.config.heads import Switch, SwitchKind, SwitchState
from awaken.contracts.errors import AgentPaused
from awaken.contracts.models.errors import ModelDisabled
from awaken.contracts.runs.records import WaitingReason
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.mailbox.released_runs import ReleasedRuns
from awaken.models import InferenceOverride
from awaken.runtime.switches import NO_SWITCHES, SwitchBoard
from awaken.stores import DispatchQuery, DispatchStatus
from awaken.testing import ScriptedModel, ToolCalls

from .each_store import NewStore, each_store, postgres, sqlite

QUICK = MailboxConfig(lease_ms=20_000, renew_ms=100, sweep_ms=200, poll_ms=20, drain_ms=500)
WAIT_MS = 20_000


def switch(kind: str, id_: str = "*") -> Switch:
    is_agent = kind in ("agent", "all")
    return Switch(
        kind=SwitchKind(kind),
        id=id_,
        state=SwitchState.PAUSED if is_agent else SwitchState.DISABLED,
        reason="an incident",
        by="ann",
        at=1,
    )


PAUSED = (switch("agent", "agent"),)


class Slow:
    """A tool that is inside until it is let go."""

    def __init__(self) -> None:
        self.inside, self.let_go = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            """Take a while."""
            self.inside.set()
            await self.let_go.wait()
            return "slow is done"

        self.tool = slow


def runtime(store: Any, script: list[Any], *tools: Any, **options: Any) -> AgentRuntime:
    agent = Agent("agent", model=ScriptedModel(script), tools=list(tools))
    return AgentRuntime([agent], store=store, mailbox=QUICK, **options)


async def until(rt: AgentRuntime, run_id: str, status: RunStatus) -> Any:
    """The record of a run once it has a status."""
    async with asyncio.timeout(WAIT_MS / 1000):
        while True:
            record = await rt.store.load_run(run_id)
            if record is not None and record.status is status:
                return record
            await asyncio.sleep(0.01)


@each_store
def test_a_running_run_stops_within_a_step_and_goes_on_when_released(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        slow = Slow()
        script = [ToolCalls([("slow", {})]), "the end"]
        async with runtime(new_store(tmp_path)(), script, slow.tool) as rt:
            receipt = await rt.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            rt.switches.apply(PAUSED)
            slow.let_go.set()
            record = await until(rt, receipt.run_id, RunStatus.WAITING)
            assert record.waiting.reason is WaitingReason.MANUAL_PAUSE
            assert record.steps == 1
            assert not (await rt.store.list_dispatches(of("claimed"))).items, "nothing is held"
            rt.switches.apply(())
            assert rt.switches.current is NO_SWITCHES
            ended = await until(rt, receipt.run_id, RunStatus.DONE)
            assert (ended.final_output, ended.steps) == ("the end", 2)

    asyncio.run(scenario())


def of(status: str) -> DispatchQuery:
    return DispatchQuery(status=DispatchStatus(status))


@each_store
def test_a_direct_run_that_was_paused_goes_on_in_the_process_that_starts_next(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener, slow = new_store(tmp_path), Slow()
        async with runtime(opener(), [ToolCalls([("slow", {})])], slow.tool) as rt:
            going = asyncio.create_task(rt.run("agent", "go", thread_id="t"))
            await slow.inside.wait()
            rt.switches.apply((switch("all"),))
            slow.let_go.set()
            paused = await going
            assert paused.is_waiting
            assert not paused.tickets
        async with runtime(opener(), ["the end"], slow.tool, has_worker=True) as other:
            record = await until(other, paused.run_id, RunStatus.DONE)
            assert record.final_output == "the end"

    asyncio.run(scenario())


@pytest.mark.parametrize("new_store", [sqlite, postgres])
def test_a_run_goes_on_in_the_process_that_hears_of_the_release_first(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener, slow = new_store(tmp_path), Slow()
        async with (
            runtime(opener(), [ToolCalls([("slow", {})])], slow.tool) as first,
            runtime(opener(), ["from the second"], slow.tool) as second,
        ):
            second.switches.apply(PAUSED)
            receipt = await first.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            first.switches.apply(PAUSED)
            slow.let_go.set()
            await until(first, receipt.run_id, RunStatus.WAITING)
            second.switches.apply(())
            record = await until(second, receipt.run_id, RunStatus.DONE)
            assert record.final_output == "from the second"

    asyncio.run(scenario())


@each_store
def test_processes_that_hear_of_the_release_at_once_queue_one_continuation(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        slow = Slow()
        script = [ToolCalls([("slow", {})]), "the end"]
        async with runtime(new_store(tmp_path)(), script, slow.tool) as rt:
            receipt = await rt.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            rt.switches.apply(PAUSED)
            slow.let_go.set()
            await until(rt, receipt.run_id, RunStatus.WAITING)
            services = rt._node.mailbox.services
            others = [ReleasedRuns(services, SwitchBoard()) for _ in range(3)]
            counts = await asyncio.gather(*(it.continue_all() for it in others))
            assert sorted(counts) == [0, 0, 1]
            rt.switches.apply(())
            ended = await until(rt, receipt.run_id, RunStatus.DONE)
            assert (ended.final_output, ended.steps) == ("the end", 2)

    asyncio.run(scenario())


@each_store
def test_input_for_a_paused_agent_stays_queued_without_an_attempt(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime(new_store(tmp_path)(), ["hello"]) as rt:
            rt.switches.apply(PAUSED)
            with pytest.raises(AgentPaused, match="paused by an operator: an incident"):
                await rt.run("agent", "hi")
            receipt = await rt.submit("agent", "hi", thread_id="t")
            await asyncio.sleep(0.5)
            dispatch = await rt.store.find_dispatch(receipt.dispatch_id)
            assert dispatch is not None
            assert (dispatch.status.value, dispatch.attempt_count) == ("queued", 0)
            rt.switches.apply(())
            assert (await until(rt, receipt.run_id, RunStatus.DONE)).final_output == "hello"

    asyncio.run(scenario())


@each_store
def test_a_decision_for_a_paused_agent_is_taken_and_acted_on_after_the_release(
    new_store: NewStore, tmp_path: Path
) -> None:
    @tool
    async def ask(ctx: ToolContext) -> str | SuspendTicket:
        """Ask a person."""
        return ctx.suspend("may I?") if ctx.resume is None else "allowed"

    async def scenario() -> None:
        async with runtime(new_store(tmp_path)(), [ToolCalls([("ask", {})]), "done"], ask) as rt:
            waiting = await rt.run("agent", "go", thread_id="t")
            (ticket,) = waiting.tickets
            rt.switches.apply(PAUSED)
            await rt.decide(ticket.ticket_id)
            await asyncio.sleep(0.1)
            record = await rt.store.load_run(waiting.run_id)
            assert record is not None
            assert record.status is RunStatus.WAITING
            rt.switches.apply(())
            assert (await until(rt, waiting.run_id, RunStatus.DONE)).final_output == "done"

    asyncio.run(scenario())


@each_store
def test_a_paused_run_can_be_cancelled(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = Slow()
        async with runtime(new_store(tmp_path)(), [ToolCalls([("slow", {})])], slow.tool) as rt:
            receipt = await rt.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            rt.switches.apply(PAUSED)
            slow.let_go.set()
            await until(rt, receipt.run_id, RunStatus.WAITING)
            assert await rt.cancel(receipt.run_id)
            record = await until(rt, receipt.run_id, RunStatus.DONE)
            assert type(record.termination).__name__ == "Cancelled"

    asyncio.run(scenario())


@each_store
def test_a_disabled_tool_is_not_offered_and_a_call_of_it_is_answered(
    new_store: NewStore, tmp_path: Path
) -> None:
    called: list[str] = []

    @tool
    async def danger() -> str:
        """Do harm."""
        called.append("danger")
        return "done"

    async def scenario() -> None:
        seen: list[Any] = []

        def answer(request: Any) -> str:
            seen.append(request)
            return request.messages[-1].text

        script = [ToolCalls([("danger", {}), ("danger", {})]), answer]
        async with runtime(new_store(tmp_path)(), script, danger) as rt:
            rt.switches.apply((switch("tool", "danger"),))
            result = await rt.run("agent", "go")
            assert "disabled by the operator: an incident" in result.text
            assert "tool_disabled" in result.text
            assert not called
            assert not seen[0].tools

    asyncio.run(scenario())


@each_store
def test_an_approved_call_of_a_tool_that_was_disabled_meanwhile_is_not_executed(
    new_store: NewStore, tmp_path: Path
) -> None:
    called: list[str] = []

    @tool
    async def ask(ctx: ToolContext) -> str | SuspendTicket:
        """Ask a person."""
        if ctx.resume is None:
            return ctx.suspend("may I?")
        called.append("approved")
        return "allowed"

    async def scenario() -> None:
        script = [ToolCalls([("ask", {})]), lambda request: request.messages[-1].text]
        async with runtime(new_store(tmp_path)(), script, ask) as rt:
            waiting = await rt.run("agent", "go", thread_id="t")
            rt.switches.apply((switch("tool", "ask"),))
            await rt.decide(waiting.tickets[0].ticket_id)
            ended = await until(rt, waiting.run_id, RunStatus.DONE)
            assert "disabled by the operator" in ended.final_output
            assert not called

    asyncio.run(scenario())


class FromServer:
    """A tool as an MCP server's tools are: its metadata names the server."""

    def __init__(self, server: str) -> None:
        id_ = f"mcp__{server}__look"
        self.descriptor = ToolDescriptor(id=id_, metadata={"mcp.server": server})

    def validate(self, arguments: Any) -> Any:
        return arguments

    async def execute(self, _arguments: Any, _ctx: Any) -> str:
        return "seen"


def test_all_tools_of_a_disabled_server_and_no_others_are_refused() -> None:
    board = SwitchBoard()
    board.apply((switch("mcp-server", "docs"),))
    for server, is_disabled in (("docs", True), ("docs__more", False)):
        described = FromServer(server).descriptor
        why = board.current.why_tool_disabled(described.id, described)
        assert (why is not None) == is_disabled
    plain = ToolDescriptor(id="mcp__docs__look", category="docs")
    assert board.current.why_tool_disabled(plain.id, plain) is None


def pooled(**scripts: list[Any]) -> tuple[AgentRuntime, dict[str, ScriptedModel]]:
    models = {name: ScriptedModel(script, cycle=True) for name, script in scripts.items()}
    pool = ModelPool(id="pool", members=tuple(PoolMember(model_id=name) for name in scripts))
    specs = [ModelSpec(id=it, provider_id=it, upstream_model=f"up-{it}") for it in scripts]
    agents = [Agent("agent", model=pool), Agent("single", model="a")]
    return AgentRuntime(agents, models=specs, providers=models), models


@pytest.mark.parametrize("kind", ["model", "provider"])
def test_a_pool_moves_on_from_a_disabled_member(kind: str) -> None:
    async def scenario() -> None:
        rt, _ = pooled(a=["from a"], b=["from b"])
        async with rt:
            texts = set()
            for name, other in (("a", "from b"), ("b", "from a")):
                rt.switches.apply((switch(kind, name),))
                results = [await rt.run("agent", "hi") for _ in range(8)]
                texts = {it.text for it in results}
                assert texts == {other}

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["model", "provider"])
def test_a_direct_run_without_an_enabled_model_is_refused_before_it_begins(kind: str) -> None:
    async def scenario() -> None:
        rt, models = pooled(a=["from a"], b=["from b"])
        async with rt:
            rt.switches.apply((switch(kind, "a"), switch(kind, "b")))
            for agent in ("agent", "single"):
                with pytest.raises(ModelDisabled, match="disabled by the operator"):
                    await rt.run(agent, "hi", thread_id="t")
            assert await rt.store.load_thread("t") is None
            assert not models["a"].requests

    asyncio.run(scenario())


def test_a_run_whose_model_is_disabled_meanwhile_fails_with_the_code() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with runtime(None, [ToolCalls([("slow", {})]), "never"], slow.tool) as rt:
            going = asyncio.create_task(rt.run("agent", "go"))
            await slow.inside.wait()
            (model,) = rt.registry.snapshot().resolve("agent").models
            rt.switches.apply((switch("model", model.id),))
            slow.let_go.set()
            with pytest.raises(RunFailed) as failed:
                await going
            assert failed.value.result.termination.code == "model_disabled"

    asyncio.run(scenario())


def test_a_disabled_model_cannot_be_asked_by_its_upstream_name() -> None:
    async def scenario() -> None:
        models = {"p": ScriptedModel(["hello"], cycle=True)}
        specs = [ModelSpec(id=it, provider_id="p", upstream_model=f"up-{it}") for it in "ab"]
        agent = Agent("agent", model="a")
        async with AgentRuntime([agent], models=specs, providers=models) as rt:
            rt.switches.apply((switch("model", "b"),))
            assert (await rt.run("agent", "hi")).text == "hello"
            with pytest.raises(RunFailed) as failed:
                await rt.run("agent", "hi", overrides=InferenceOverride(upstream_model="up-b"))
            assert failed.value.result.termination.code == "model_disabled"

    asyncio.run(scenario())


def test_a_queued_run_without_an_enabled_model_fails_and_its_record_says_why() -> None:
    async def scenario() -> None:
        async with runtime(None, ["never"]) as rt:
            (model,) = rt.registry.snapshot().resolve("agent").models
            rt.switches.apply((switch("model", model.id),))
            receipt = await rt.submit("agent", "hi", thread_id="t")
            ended = await until(rt, receipt.run_id, RunStatus.DONE)
            assert ended.termination.code == "model_disabled"

    asyncio.run(scenario())


def test_a_delegate_that_is_paused_while_it_works_waits_for_the_release_with_its_caller() -> None:
    async def scenario() -> None:
        slow = Slow()
        child = Agent(
            "child", model=ScriptedModel([ToolCalls([("slow", {})]), "child's answer"]),
            tools=[slow.tool],
        )  # fmt: skip
        script = [ToolCalls([("agent_run_child", {"prompt": "go"})]), "parent's answer"]
        parent = Agent("parent", model=ScriptedModel(script), delegates=["child"])
        async with AgentRuntime([parent, child]) as rt:
            going = asyncio.create_task(rt.run("parent", "go"))
            await slow.inside.wait()
            rt.switches.apply((switch("agent", "child"),))
            slow.let_go.set()
            await asyncio.sleep(0.1)
            assert not going.done()
            rt.switches.apply(())
            async with asyncio.timeout(1):
                assert (await going).text == "parent's answer"

    asyncio.run(scenario())


def test_pausing_a_parent_leaves_its_delegate_at_work() -> None:
    async def scenario() -> None:
        slow = Slow()
        child = Agent(
            "child", model=ScriptedModel([ToolCalls([("slow", {})]), "child's answer"]),
            tools=[slow.tool],
        )  # fmt: skip
        script = [ToolCalls([("agent_run_child", {"prompt": "go"})]), "parent's answer"]
        parent = Agent("parent", model=ScriptedModel(script), delegates=["child"])
        async with AgentRuntime([parent, child]) as rt:
            going = asyncio.create_task(rt.run("parent", "go"))
            await slow.inside.wait()
            rt.switches.apply((switch("agent", "parent"),))
            slow.let_go.set()
            paused = await going
            assert (paused.is_waiting, paused.steps) == (True, 1)
            checkout = await rt.store.checkout(paused.thread_id)
            assert checkout is not None
            assert "child's answer" in checkout.messages[-1].text
            rt.switches.apply(())
            assert (await until(rt, paused.run_id, RunStatus.DONE)).final_output == (
                "parent's answer"
            )

    asyncio.run(scenario())


def test_a_change_that_changes_nothing_wakes_no_watcher() -> None:
    board, calls = SwitchBoard(), []
    stop = board.watch(lambda: calls.append(1))
    board.apply(())
    board.apply(PAUSED)
    board.apply(PAUSED)
    assert (len(calls), board.releases) == (1, 0)
    board.apply((switch("tool", "x"),))
    assert (len(calls), board.releases) == (2, 1)
    stop()
    board.apply(())
    assert (len(calls), board.current is NO_SWITCHES) == (2, True)
