"""A process that dies while another side works for it: whoever goes on finds that work again."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    Blocked,
    Cancelled,
    Failed,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFinish,
    RunStatus,
    SuspendTicket,
)
from awaken.backends import BackendRunResult, BackendRunStatus, RemoteTarget
from awaken.extensions.permission import PermissionPlugin
from awaken.messages import Role, ToolCall
from awaken.plugins import ToolGateContext
from awaken.stores import Commit
from awaken.tools import Suspension

from .delegating import (
    WAIT_S,
    Door,
    answers,
    asks,
    boss,
    child_of,
    children_of,
    ended,
    heard,
    nothing_ordered,
    runtime,
)
from .mortal import PROMPT, Mortal, dying, on_shared_stores, sqlite
from .remoting import (
    ABORTS,
    STATELESS,
    FakeBackend,
    Request,
    behind,
    far,
    remote_runtime,
    said,
    waits,
)
from .worlds import Hooks


def process(
    backend: FakeBackend, store: Any, *agents: Agent, remote: Agent | None = None
) -> AgentRuntime:
    return remote_runtime(backend, store, *agents, remote=remote, mailbox=PROMPT)


def known(run_id: str) -> RemoteTarget:
    return RemoteTarget(run_id=run_id, task_id="task-1")


@on_shared_stores
@pytest.mark.parametrize("can", [ABORTS, STATELESS], ids=["with memory", "stateless"])
def test_the_backend_of_a_recovered_run_is_told_what_was_kept(
    stores_of: Any, can: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after = Door(), FakeBackend(said("found again"), can=can)
        before = FakeBackend(behind(door), can=can)
        async with dying(process(before, Mortal(first))) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
        async with process(after, second) as rt:
            done = await ended(rt, handle.run_id)
            assert (done.termination, done.final_output) == (NaturalEnd(), "found again")
            (asked,) = after.roots
            assert (asked.is_recovered, asked.is_continuation) == (True, False)
            assert [it.text for it in asked.new_messages] == ["hi"]
            assert after.targets == [known(handle.run_id)]
            assert before.aborted == after.aborted == []
            kinds = [type(it.event).__name__ for it in await rt.store.list_events("t")]
            assert kinds == [
                "RunStart",
                "StepStart",
                "TextDelta",
                "InferenceComplete",
                "StepEnd",
                "RunFinish",
            ]

    asyncio.run(scenario())


@on_shared_stores
def test_a_recovered_turn_is_given_only_what_was_new_in_it(stores_of: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after = Door(), FakeBackend(said("Rome it is"))
        before = FakeBackend(waits(BackendRunStatus.WAITING_INPUT), behind(door))
        async with dying(process(before, Mortal(first))) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            await rt.start("far", "Rome", thread_id="t")
            await door.opened()
        async with process(after, second) as rt:
            done = await ended(rt, waiting.run_id)
            assert (done.final_output, done.steps) == ("Rome it is", 2)
            (asked,) = after.roots
            assert [it.text for it in asked.new_messages] == ["Rome"]
            assert asked.is_recovered

    asyncio.run(scenario())


@on_shared_stores
def test_parent_and_remote_child_of_a_process_that_died_end_once(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after = Door(), FakeBackend(said("found again"))
        asker = boss(asks("far"), delegates=["far"])
        async with dying(process(FakeBackend(behind(door)), Mortal(first), asker)) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(rt, handle.run_id)
        async with process(after, second, boss(heard, delegates=["far"])) as rt:
            done = await ended(rt, handle.run_id)
            assert "found again" in (done.final_output or "")
            assert [it.run_id for it in await children_of(rt, handle.run_id)] == [child.run_id]
            assert after.targets == [known(child.run_id)]
            assert len(await answers(rt, "t")) == 1
            assert done.usage.total_tokens == 2 * 30
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_shared_stores
def test_a_run_that_is_cancelled_while_nobody_executes_it_is_stopped_there(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after, mortal = Door(), FakeBackend(), Mortal(first, leases_lapse=False)
        async with dying(process(FakeBackend(behind(door)), mortal)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
        async with process(after, second) as rt:
            assert await rt.cancel(handle.run_id)
            mortal.let_leases_lapse()
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")
            async with asyncio.timeout(WAIT_S):
                while not after.aborted:
                    await asyncio.sleep(0.005)
            assert (after.roots, after.targets) == ([], [known(handle.run_id)])

    asyncio.run(scenario())


def may_i(call_id: str = "remote-1") -> tuple[ToolCall, SuspendTicket]:
    call = ToolCall(id=call_id, name="write_file", arguments={"path": "x"})
    return call, SuspendTicket(suspension=Suspension(action="permission", message="may I?"))


async def asks_here(request: Request) -> BackendRunResult:
    """A turn that asks whoever may decide, and says what it heard."""
    assert request.control.decisions is not None
    decision = await request.control.decisions.ask(*may_i())
    return said(f"{decision.action} {decision.result}")


async def open_ticket(rt: AgentRuntime) -> Any:
    async with asyncio.timeout(WAIT_S):
        while not (tickets := await rt.tickets("t")):
            await asyncio.sleep(0.005)
    (ticket,) = tickets
    return ticket


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_question_of_the_other_side_is_decided_while_the_run_executes(
    where: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        mine, others = sqlite(tmp_path)
        async with process(FakeBackend(asks_here), mine) as rt:
            events: list[Any] = []

            async def read() -> None:
                events.extend([it async for it in rt.stream("far", "hi", thread_id="t")])

            reading = asyncio.create_task(read())
            ticket = await open_ticket(rt)
            assert (ticket.call_id, ticket.tool_name) == ("remote-1", "write_file")
            assert ticket.suspension.message == "may I?"
            (running,) = await rt.list_runs("t")
            assert running.status is RunStatus.RUNNING
            async with runtime([], others, has_worker=False) as other:
                decider = rt if where == "here" else other
                await decider.decide(ticket.ticket_id, result="yes")
                done = await ended(other, running.run_id)
                assert done.final_output == "resume yes"
            await reading
            kinds = [type(it).__name__ for it in events if type(it).__name__.startswith("ToolCall")]
            assert kinds == ["ToolCallStart", "ToolCallReady", "ToolCallDone", "ToolCallResumed"]
            assert await rt.tickets("t") == ()

    asyncio.run(scenario())


def guarded(*rules: tuple[str, str], default: str = "allow", **more: Any) -> Agent:
    written = [{"tool": it, "behavior": how, "scope": "project"} for it, how in rules]
    section = {"default_behavior": default, "rules": written, **more}
    return far(plugins=[PermissionPlugin()], config={"permission": section})


@pytest.mark.parametrize(
    ("remote", "answer"),
    [
        (guarded(default="deny"), "cancel None"),
        (guarded(("write_*", "deny")), "cancel None"),
        (guarded(('write_*(path = "x")', "deny"), default="ask"), "cancel None"),
        (guarded(("write_*", "allow"), default="deny"), "resume None"),
        (guarded(), "resume None"),
    ],
    ids=["denied by default", "denied", "denied by argument", "allowed", "allowed by default"],
)
def test_what_the_gates_know_the_answer_to_nobody_is_asked(remote: Agent, answer: str) -> None:
    async def scenario() -> None:
        async with process(FakeBackend(asks_here), None, remote=remote) as rt:
            async with asyncio.timeout(WAIT_S):
                assert (await rt.run("far", "hi", thread_id="t")).text == answer
            assert await rt.tickets("t") == ()

    asyncio.run(scenario())


def test_a_gate_that_ends_the_run_stops_the_other_side() -> None:
    async def scenario() -> None:
        remote = guarded(("write_file", "deny"), on_deny="end")
        async with process(FakeBackend(asks_here), None, remote=remote) as rt:
            async with asyncio.timeout(WAIT_S):
                done = await rt.run("far", "hi", thread_id="t")
            assert isinstance(done.termination, Blocked)
            assert "write_file" in done.termination.reason

    asyncio.run(scenario())


def test_a_gate_that_has_nothing_to_say_permits_nothing() -> None:
    class Silent(Plugin):
        name = "silent"

        def register(self, registrar: PluginRegistrar) -> None:
            registrar.gate(self.gate)

        async def gate(self, _: ToolGateContext) -> None:
            return None

    async def scenario() -> None:
        remote = far(plugins=[Silent()])
        async with process(FakeBackend(asks_here), None, remote=remote) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await rt.decide((await open_ticket(rt)).ticket_id, result="yes")
            assert (await handle.result()).text == "resume yes"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("action", "later"), [("resume", "resume None"), ("cancel", "cancel None")]
)
def test_an_answer_for_always_counts_for_what_the_other_side_asks_later(
    action: str, later: str
) -> None:
    async def scenario() -> None:
        remote = guarded(("write_*", "ask"))
        async with process(FakeBackend(asks_here, asks_here), None, remote=remote) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            ticket = await open_ticket(rt)
            assert ticket.suspension.message == "may I?"
            assert "project" in ticket.suspension.parameters["remember"]["scopes"]
            await rt.decide(ticket.ticket_id, action, remember={"scope": "project"})
            assert (await handle.result()).text == later
            async with asyncio.timeout(WAIT_S):
                assert (await rt.run("far", "hi", thread_id="other")).text == later
            assert await rt.tickets("other") == ()

    asyncio.run(scenario())


def test_an_approval_of_what_was_denied_meanwhile_is_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = sqlite(tmp_path)
        asking = guarded(("write_*", "ask"))
        async with dying(process(FakeBackend(asks_here), Mortal(first), remote=asking)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            ticket = await open_ticket(rt)
        denying = guarded(("write_*", "deny"))
        async with process(FakeBackend(asks_here), second, remote=denying) as rt:
            await rt.decide(ticket.ticket_id)
            assert (await ended(rt, handle.run_id)).final_output == "cancel None"

    asyncio.run(scenario())


def test_a_question_is_decided_in_memory_too() -> None:
    async def scenario() -> None:
        async with process(FakeBackend(asks_here), None) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await rt.decide((await open_ticket(rt)).ticket_id, "cancel", reason="no")
            assert (await handle.result()).text == "cancel None"

    asyncio.run(scenario())


@on_shared_stores
@pytest.mark.parametrize("decided", ["before", "after"])
def test_a_question_that_was_asked_before_is_not_asked_again(
    stores_of: Any, decided: str, tmp_path: Path
) -> None:
    """The process dies while the question is open, or when it was decided and nobody heard."""

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        mortal = Mortal(first, leases_lapse=decided == "after")
        async with dying(process(FakeBackend(asks_here), mortal)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            ticket = await open_ticket(rt)
        after = FakeBackend(asks_here)
        async with process(after, second) as rt:
            if decided == "after":
                async with asyncio.timeout(WAIT_S):
                    while not after.roots:
                        await asyncio.sleep(0.005)
            assert (await open_ticket(rt)).ticket_id == ticket.ticket_id
            await rt.decide(ticket.ticket_id, result="yes")
            mortal.let_leases_lapse()
            done = await ended(rt, handle.run_id)
            assert done.final_output == "resume yes"
            tickets = await rt.store.list_run_tickets("t", handle.run_id)
            assert [it.ticket_id for it in tickets] == [ticket.ticket_id]

    asyncio.run(scenario())


def test_a_run_that_is_cancelled_while_it_asks_closes_its_question() -> None:
    async def scenario() -> None:
        backend = FakeBackend(asks_here)
        async with process(backend, None) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await open_ticket(rt)
            assert await rt.cancel(handle.run_id)
            assert (await handle.result()).termination == Cancelled(cause="user")
            assert await rt.tickets("t") == ()
            assert len(backend.aborted) == 1

    asyncio.run(scenario())


def has_answer(commit: Commit) -> bool:
    run = commit.run
    is_running = run is not None and run.status is RunStatus.RUNNING
    return is_running and any(it.role is Role.ASSISTANT for it in commit.messages)


@on_shared_stores
def test_an_answer_that_is_written_is_not_asked_for_again(stores_of: Any, tmp_path: Path) -> None:
    """The process dies between the answer and the end of the run, before a hook."""

    async def hook(_: Any) -> None:
        return None

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        mortal, after = Mortal(first), FakeBackend()
        mortal.dies_with = has_answer
        remote = far(plugins=[Hooks({Phase.RUN_END: hook})])
        options: Any = {"remote": remote, "mailbox": PROMPT}
        async with dying(remote_runtime(FakeBackend(said("once")), mortal, **options)) as rt:
            with suppress(AwakenError):
                await (await rt.start("far", "hi", thread_id="t", run_id_hint="r")).result()
        options["mailbox"] = PROMPT
        async with remote_runtime(after, second, **options) as rt:
            done = await ended(rt, "r")
            assert (done.final_output, after.roots) == ("once", [])
            finish = (await rt.store.list_events("t"))[-1].event
            assert isinstance(finish, RunFinish)
            assert finish.result == {
                "response": "once",
                "status": "done",
                "status_reason": "natural",
                "output": {"text": "once"},
            }

    asyncio.run(scenario())


@on_shared_stores
def test_what_a_backend_has_said_of_its_end_outlives_the_process(
    stores_of: Any, tmp_path: Path
) -> None:
    async def hook(_: Any) -> None:
        return None

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        mortal = Mortal(first)
        mortal.dies_with = has_answer
        late = Failed(message="polling took too long", code="remote_unfinished")
        turn = said("so far", status=BackendRunStatus.TIMEOUT, termination=late, steps=4)
        remote = far(plugins=[Hooks({Phase.RUN_END: hook})])
        async with dying(process(FakeBackend(turn), mortal, remote=remote)) as rt:
            with suppress(AwakenError):
                await (await rt.start("far", "hi", thread_id="t", run_id_hint="r")).result()
        async with process(FakeBackend(), second, remote=remote) as rt:
            done = await ended(rt, "r")
            assert (done.termination, done.steps, done.final_output) == (late, 4, "so far")
            assert done.backend_status is BackendRunStatus.TIMEOUT
            finish = (await rt.store.list_events("t"))[-1].event
            assert isinstance(finish, RunFinish)
            assert finish.result is not None
            assert finish.result["status"] == finish.result["status_reason"] == "timeout"

    asyncio.run(scenario())


@on_shared_stores
def test_a_store_that_is_away_does_not_make_the_backend_fail(
    stores_of: Any, tmp_path: Path
) -> None:
    """What was delivered is delivered again; nobody writes that the other side has failed."""

    async def scenario() -> None:
        mortal = Mortal(stores_of(tmp_path)[0])

        async def saves(request: Request) -> BackendRunResult:
            mortal.refuses = {"commit": 20}
            assert request.checkpoint is not None
            try:
                await request.checkpoint.save("there", known(request.run_identity.run_id))
            finally:
                mortal.refuses = {}
            return said("never")

        async with process(FakeBackend(saves, said("at last")), mortal) as rt:
            receipt = await rt.submit("far", "hi", thread_id="t")
            done = await ended(rt, receipt.run_id)
            assert (done.termination, done.final_output) == (NaturalEnd(), "at last")

    asyncio.run(scenario())
