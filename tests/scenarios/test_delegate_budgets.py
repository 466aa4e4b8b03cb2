"""What delegates use is their parent's: counted once, and never more than it can share."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, AwakenError, Budget, Stopped, tool
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.messages import Role
from awaken.models import BudgetScope
from awaken.plugins import REQUEST_OPTIONS, THREAD_LEDGER
from awaken.stores import Commit, CommitReceipt, MemoryStore, RunRecord
from awaken.testing import ScriptedModel, ToolCalls, Turn

from .delegating import (
    NO_RETRIES,
    Door,
    StoreOf,
    agent,
    answers,
    asks,
    boss,
    child_of,
    children_of,
    ended,
    on_both_stores,
    runtime,
    used,
    within,
)
from .mortal import PROMPT, Mortal, dying, until_over

TEN_THOUSAND = Budget(tokens=10_000)


@tool
async def note(text: str) -> str:
    """Write a note."""
    return text


@on_both_stores
def test_what_a_delegate_has_used_counts_once_for_its_parent(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        middle = agent("middle", asks("worker"), "ok", delegates=["worker"])
        top = agent("top", asks("middle"), "ok", delegates=["middle"])
        async with runtime([top, middle, agent("worker", "ok")], store_of(tmp_path)) as rt:
            result = await rt.run("top", "hi", thread_id="t")
            assert result.usage.total_tokens == 5 * 30
            child = await child_of(rt, result.run_id)
            assert child.usage.total_tokens == 3 * 30
            assert (await child_of(rt, child.run_id)).usage.total_tokens == 30
            assert (await child_of(rt, child.run_id)).lineage == ("top", "middle")

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_may_spend_half_of_what_its_parent_has_left(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        work = Turn(calls=[("note", {"text": "x"})], usage=used(4_000))
        worker = agent("worker", work, "ok", tools=[note])
        asker = boss(Turn(calls=asks("worker"), usage=used(2_000)), "ok", budgets=[TEN_THOUSAND])
        async with runtime([asker, worker], store_of(tmp_path)) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, result.run_id)
            # 2,000 of 10,000 are used: the child has half of the rest, and its first turn uses it.
            assert isinstance(child.termination, Stopped)
            assert child.termination.reason.code == "budget_exceeded"
            assert child.termination.reason.detail == "run: 4,000 tokens"
            assert (result.text, result.usage.total_tokens) == ("ok", 2_000 + 4_000 + 30)

    asyncio.run(scenario())


@on_both_stores
def test_a_parent_that_has_nothing_left_asks_nobody(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        asker = boss(Turn(calls=asks("worker"), usage=used(9_999)), "ok", budgets=[TEN_THOUSAND])
        async with runtime([asker, agent("worker", "ok")], store_of(tmp_path)) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await within(handle.result())
            (answer,) = await answers(rt, "t")
            assert "Stopped by a budget: run: 10,000 tokens" in answer
            assert await children_of(rt, handle.run_id) == []

    asyncio.run(scenario())


@on_both_stores
def test_the_share_of_a_delegate_is_kept_with_its_run(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        asker = boss(asks("worker"), "ok", budgets=[Budget(tokens=1_030)])
        async with runtime([asker, agent("worker", "ok")], store_of(tmp_path)) as rt:
            seen = commits_of(rt)
            result = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, result.run_id)
            assert given_to(seen, child) == (Budget(tokens=500),)

    asyncio.run(scenario())


def commits_of(rt: AgentRuntime) -> list[Commit]:
    """Everything that runs write from now on."""
    seen: list[Commit] = []
    rt._engine.services.watchers.commits.append(seen.append)
    return seen


def given_to(seen: list[Commit], child: RunRecord) -> tuple[Budget, ...]:
    """The budgets that a child was started with."""
    stored = next(
        commit.run_state[REQUEST_OPTIONS.name]
        for commit in seen
        if commit.thread_id == child.thread_id and REQUEST_OPTIONS.name in commit.run_state
    )
    return REQUEST_OPTIONS.decode(stored).budgets


SPAWN = ("spawn_agent", {"agent_id": "worker", "prompt": "go"})
ASK = ("agent_run_worker", {"prompt": "go"})


@on_both_stores
@pytest.mark.parametrize("call", [ASK, SPAWN], ids=["delegates", "tasks"])
def test_children_that_run_side_by_side_get_no_more_than_their_parent_has_left(
    store_of: StoreOf, tmp_path: Path, call: Any
) -> None:
    async def scenario() -> None:
        door = Door()
        asker = boss(
            Turn(calls=ToolCalls([call] * 3), usage=used(2_000)),
            # Tasks that still run when the next step gives another one its share.
            ToolCalls([call]),
            *["ok"] * 9,
            plugins=[BackgroundTasksPlugin()],
            budgets=[TEN_THOUSAND],
        )
        worker = agent("worker", *[door.answer] * 4)
        async with runtime([asker, worker], store_of(tmp_path)) as rt:
            seen = commits_of(rt)
            handle = await rt.start("boss", "hi", thread_id="t")
            async with asyncio.timeout(20):
                while door.visits < (3 if call is ASK else 4):
                    await asyncio.sleep(0.005)
            running = await children_of(rt, handle.run_id)
            shares = [budget.tokens for it in running for budget in given_to(seen, it)]
            assert sorted(it or 0 for it in shares)[-3:] == [1_000, 2_000, 4_000]
            assert sum(it or 0 for it in shares) < 8_000
            door.let_go.set()
            last = await ended(rt, handle.run_id)
            if call is ASK:
                # What was not used is there again once the answers are counted.
                shares = [
                    budget.tokens
                    for it in await children_of(rt, handle.run_id)
                    for budget in given_to(seen, it)
                ]
                assert max(it or 0 for it in shares if it not in (1_000, 2_000, 4_000)) == 3_940
            own = 2_000 + 30 * (last.steps - 1)
            assert last.usage.total_tokens == own + 4 * 30

    asyncio.run(scenario())


@on_both_stores
def test_what_an_agent_in_the_background_has_used_counts_once_for_its_owner(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        plugins = [BackgroundTasksPlugin()]
        thread = Budget(scope=BudgetScope.THREAD, tokens=10_000)
        asker = boss(ToolCalls([SPAWN]), *["ok"] * 3, plugins=plugins, budgets=[thread])
        worker = agent("worker", Turn(text="done", usage=used(3_000)))
        async with runtime([asker, worker], store_of(tmp_path)) as rt:
            result = await within(rt.run("boss", "hi", thread_id="t"))
            told = [it.message for it in await rt.messages("t") if it.message.sender is not None]
            assert [it.text.count("usage") for it in told] == [0]
            own = result.steps * 30
            assert result.usage.total_tokens == own + 3_000
            checkout = await rt.store.checkout("t")
            assert checkout is not None
            ledger = THREAD_LEDGER.decode(checkout.state[THREAD_LEDGER.name])
            assert ledger.spent.tokens == own + 3_000

    asyncio.run(scenario())


class Ledgers(MemoryStore):
    """A store that outlives processes and knows what every child was given."""

    def __init__(self) -> None:
        super().__init__(is_shared=True)
        self.given: dict[str, int] = {}

    async def commit(self, commit: Commit) -> CommitReceipt:
        stored = commit.run_state.get(REQUEST_OPTIONS.name)
        if commit.thread_id != "t" and stored is not None and commit.thread_id not in self.given:
            (budget,) = REQUEST_OPTIONS.decode(stored).budgets
            self.given[commit.thread_id] = budget.tokens or 0
        return await super().commit(commit)


def three_at_once(call: Any, scope: BudgetScope) -> list[Agent]:
    """A boss that has 8,000 left and three workers, of which none ends before all have begun."""
    begun: set[str] = set()

    async def answer(request: Any) -> str:
        begun.add(request.messages[0].text)
        while len(begun) < 3:
            await asyncio.sleep(0.005)
        return "done"

    calls = ToolCalls([(call[0], {**call[1], "prompt": it}) for it in ("one", "two", "three")])

    def ask(request: Any) -> Any:
        is_first = all(it.role is not Role.ASSISTANT for it in request.messages)
        return Turn(calls=calls, usage=used(2_000)) if is_first else "ok"

    asker = Agent(
        "boss",
        model=ScriptedModel([ask], cycle=True),
        delegates=["worker"],
        plugins=[BackgroundTasksPlugin()],
        budgets=[Budget(scope=scope, tokens=10_000)],
        config=NO_RETRIES,
    )
    return [asker, agent("worker", *[answer] * 9)]


async def given_after_a_death(call: Any, scope: BudgetScope, number: int) -> bool:
    """Let a process die after a commit, and another go on; False when it made fewer."""
    store, agents = Ledgers(), three_at_once(call, scope)
    mortal = Mortal(store)
    mortal.die_with(number)
    async with dying(AgentRuntime(agents, store=mortal, mailbox=PROMPT)) as rt:
        with suppress(AwakenError):
            handle = await rt.start("boss", "hi", thread_id="t", run_id_hint="r")
            await until_over(handle, mortal)
    async with AgentRuntime(agents, store=store, mailbox=PROMPT) as rt:
        await ended(rt, "r")
    assert sorted(store.given.values()) == [1_000, 2_000, 4_000], number
    return mortal.commits >= number


@pytest.mark.parametrize(
    ("call", "scope"),
    [(ASK, BudgetScope.RUN), (SPAWN, BudgetScope.THREAD)],
    ids=["delegates", "tasks"],
)
def test_whoever_goes_on_with_a_parent_knows_what_its_children_were_given(
    call: Any, scope: BudgetScope
) -> None:
    async def scenario() -> None:
        dying_at = (given_after_a_death(call, scope, number) for number in range(2, 10))
        died = await asyncio.gather(*dying_at)
        assert all(died)

    asyncio.run(scenario())
