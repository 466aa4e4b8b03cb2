"""Permission over waits, restarts, handoffs, delegations and crashes, on both stores."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    MailboxConfig,
    NaturalEnd,
    RunResult,
    Suspended,
    tool,
)
from awaken.contracts.suspension.remembered_answers import SHARED_ANSWERS, THREAD_ANSWERS
from awaken.errors import StoreUnavailable
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.permission import PermissionPlugin
from awaken.plugins import GLOBAL_SCOPE
from awaken.testing import ScriptedModel, ToolCalls

from .enduring import BOUND_S, NewStore, both_stores, durable

ASK = [{"tool": "Bash", "behavior": "ask", "scope": "project"}]
DENY = [{"tool": "Bash", "behavior": "deny"}]
SCOPES = pytest.mark.parametrize("scope", ["run", "thread", "project"])


class Shop:
    """Agents whose one tool notes its commands, whichever process runs it."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def agent(self, id_: str, *script: Any, rules: Any = ASK, **options: Any) -> Agent:
        @tool(id="Bash", effect="idempotent")
        async def run(command: str) -> str:
            """Run a command."""
            self.ran.append(command)
            return f"did {command}"

        plugins = [PermissionPlugin(), *options.pop("plugins", ())]
        return Agent(
            id_,
            model=ScriptedModel([*script, "done"]),
            tools=[run],
            plugins=plugins,
            config={"permission": {"rules": rules}},
            **options,
        )


def bash(*commands: str) -> ToolCalls:
    return ToolCalls([("Bash", {"command": it}) for it in commands])


async def decided(runtime: AgentRuntime, action: str, **decision: Any) -> RunResult:
    (ticket,) = await runtime.tickets()
    await runtime.decide(ticket.ticket_id, action, **decision)
    return await runtime.wait(ticket.run_id, timeout_ms=BOUND_S * 1000)


@both_stores
@SCOPES
@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_an_answer_is_given_in_another_process_and_holds_in_a_third(
    new_store: NewStore, scope: str, action: str
) -> None:
    async def scenario() -> None:
        shop = Shop()
        async with durable(new_store, [shop.agent("a", bash("one"))]) as runtime:
            waiting = await runtime.run("a", "go", thread_id="t", user_id="ann")
            assert waiting.termination == Suspended()
        async with durable(new_store, [shop.agent("a", bash("two"))]) as runtime:
            result = await decided(runtime, action, remember={"scope": scope})
            assert (result.run_id, result.termination) == (waiting.run_id, NaturalEnd())
        is_yes = action == "resume"
        assert shop.ran == (["one", "two"] if is_yes else [])
        shop.ran.clear()
        async with durable(new_store, [shop.agent("a", bash("three"))]) as runtime:
            later = await runtime.run("a", "go", thread_id="t", user_id="ann")
            holds = scope != "run"
            assert later.termination == (NaturalEnd() if holds else Suspended())
            assert shop.ran == (["three"] if holds and is_yes else [])

    asyncio.run(scenario())


@both_stores
def test_a_denial_that_came_with_the_restart_beats_an_approval(new_store: NewStore) -> None:
    async def scenario() -> None:
        shop = Shop()
        async with durable(new_store, [shop.agent("a", bash("one"))]) as runtime:
            await runtime.run("a", "go", thread_id="t")
        async with durable(new_store, [shop.agent("a", rules=DENY)]) as runtime:
            result = await decided(runtime, "resume", remember={"scope": "project"})
            assert result.termination == NaturalEnd()
        assert shop.ran == []

    asyncio.run(scenario())


@both_stores
def test_after_a_handoff_answers_hold_and_the_rules_are_those_of_the_other_agent(
    new_store: NewStore,
) -> None:
    async def scenario() -> None:
        shop = Shop()
        to = [HandoffPlugin({"back": "always"})]
        transfer = ToolCalls([("transfer_to_agent", {"agent_id": "back"})])
        free = [*ASK, {"tool": "transfer_to_agent", "behavior": "allow"}]
        once = [{"tool": 'Bash(command = "four")', "behavior": "deny"}]
        agents = [
            shop.agent("front", bash("one"), transfer, rules=free, plugins=to),
            shop.agent("back", bash("two"), bash("four"), bash("three"), rules=[*ASK, *once]),
        ]
        async with durable(new_store, agents) as runtime:
            await runtime.run("front", "go", thread_id="t")
            result = await decided(runtime, "resume", remember={"scope": "run"})
            assert (result.agent_id, result.termination) == ("back", NaturalEnd())
        assert shop.ran == ["one", "two", "three"]

    asyncio.run(scenario())


@both_stores
@pytest.mark.parametrize(("scope", "is_shared"), [("thread", False), ("project", True)])
def test_a_delegate_asks_for_itself_and_shares_what_its_project_was_told(
    new_store: NewStore, scope: str, is_shared: bool
) -> None:
    async def scenario() -> None:
        shop = Shop()
        ask = ToolCalls([("agent_run_worker", {"prompt": "go"})])
        free = [*ASK, {"tool": "agent_run_worker", "behavior": "allow"}]
        agents = [
            shop.agent("boss", bash("one"), ask, rules=free, delegates=["worker"]),
            shop.agent("worker", bash("two")),
        ]
        async with durable(new_store, agents) as runtime:
            waiting = await runtime.run("boss", "go", thread_id="t")
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, remember={"scope": scope})
            result = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert shop.ran == (["one", "two"] if is_shared else ["one"])
            if not is_shared:
                asked = [it for it in await runtime.tickets() if it.tool_name == "Bash"]
                (own,) = asked
                assert own.thread_id != "t"
                await runtime.decide(own.ticket_id)
                await runtime.wait(own.run_id, timeout_ms=BOUND_S * 1000)
                # The boss waits until it gets the result of its delegate.
                async with asyncio.timeout(BOUND_S):
                    while isinstance(result.termination, Suspended):
                        result = await runtime.wait(waiting.run_id)
                        await asyncio.sleep(0.01)
            assert (result.termination, shop.ran) == (NaturalEnd(), ["one", "two"])

    asyncio.run(scenario())


@both_stores
def test_answers_that_many_runs_give_at_once_are_all_kept(new_store: NewStore) -> None:
    async def scenario() -> None:
        shop, names = Shop(), [f"n{number}" for number in range(8)]
        script = [bash(name) for name in names]
        async with durable(new_store, [shop.agent("a", *script, *["done"] * 8)]) as runtime:
            for name in names:
                await runtime.run("a", "go", thread_id=name)
            tickets = await runtime.tickets()
            assert len(tickets) == 8
            given = [
                {"scope": "project", "pattern": f'Bash(command = "{it.arguments["command"]}")'}
                for it in tickets
            ]
            await asyncio.gather(
                *(
                    runtime.decide(ticket.ticket_id, remember=remember)
                    for ticket, remember in zip(tickets, given, strict=True)
                )
            )
            for ticket in tickets:
                await runtime.wait(ticket.run_id, timeout_ms=BOUND_S * 1000)
            store: Any = runtime.store
            entry = await store.find_entry(GLOBAL_SCOPE, SHARED_ANSWERS.name)
            patterns = {it["pattern"] for it in entry.value.values()}
            assert patterns == {it["pattern"] for it in given}

    asyncio.run(scenario())


class Dying:
    """A store of which some call fails, as when the process or its disk goes away in it."""

    def __init__(self, store: Any, fatal: int) -> None:
        self._store = store
        self._left = fatal
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if name in ("commit", "change_entry") else found

    def _counted(self, method: Any) -> Any:
        async def counted(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left <= 0:
                self.is_dead = True
                raise StoreUnavailable(store="it", problem="it is away")
            return await method(*args, **options)

        return counted


QUICK = MailboxConfig(poll_ms=10, relay_ms=10, sweep_ms=50, lease_ms=400, renew_ms=100)
"""Of a process that is going to die; the one after it may be slow."""
PATIENT = MailboxConfig(poll_ms=10, relay_ms=10, sweep_ms=50, lease_ms=20_000)


@pytest.mark.parametrize("new_store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scope", ["thread", "project"])
@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_an_answer_is_remembered_once_whatever_write_was_the_last_of_a_process(
    new_store: NewStore, scope: str, action: str
) -> None:
    async def scenario() -> None:
        for fatal in range(1, 20):
            thread_id, shop = f"t{fatal}", Shop()
            remember = {"scope": scope, "pattern": f'Bash(command = "{thread_id}")'}
            async with durable(new_store, [shop.agent("a", bash(thread_id))]) as runtime:
                waiting = await runtime.run("a", "go", thread_id=thread_id)
            (ticket,) = waiting.tickets
            dying: Any = Dying(new_store(), fatal)
            with contextlib.suppress(AwakenError, TimeoutError):
                async with AgentRuntime([shop.agent("a")], store=dying, mailbox=QUICK) as runtime:
                    await runtime.decide(ticket.ticket_id, action, remember=remember)
                    await runtime.wait(waiting.run_id, timeout_ms=300)
            async with AgentRuntime(
                [shop.agent("a")], store=new_store(), mailbox=PATIENT
            ) as runtime:
                await settled(runtime, ticket, action, remember)
                assert await kept(runtime, thread_id, scope) == [remember["pattern"]]
            if not dying.is_dead:
                return
        pytest.fail("the last write was never reached")

    asyncio.run(scenario())


async def settled(runtime: AgentRuntime, ticket: Any, action: str, remember: Any) -> None:
    """Decide again, as whoever got no answer would, and wait for the run."""
    await runtime.decide(ticket.ticket_id, action, remember=remember)
    result = await runtime.wait(ticket.run_id, timeout_ms=BOUND_S * 1000)
    assert result.termination == NaturalEnd()


async def kept(runtime: AgentRuntime, thread_id: str, scope: str) -> list[str]:
    """The patterns of the answers that were kept because of the thread's call."""
    store: Any = runtime.store
    if scope == "thread":
        checkout = await store.checkout(thread_id)
        found = THREAD_ANSWERS.decode(checkout.state[THREAD_ANSWERS.name])
    else:
        entry = await store.find_entry(GLOBAL_SCOPE, SHARED_ANSWERS.name)
        found = msgspec.convert(entry.value, SHARED_ANSWERS.type)
    return [it.pattern for it in found.values() if thread_id in it.pattern.split('"')]
