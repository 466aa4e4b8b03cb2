"""What is learnt after a run comes from words of its user alone, whoever else speaks on the thread.

The model of these tests quotes everything that it has read, and learns every line that it is asked
about: only what extraction leaves out keeps the words of one user from the memory of another.
"""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, MailboxConfig, tool
from awaken.contracts.storage.queries import RunQuery
from awaken.errors import UnknownRun
from awaken.extensions.memory import MemoryConfig, MemoryPlugin, user_memory
from awaken.stores import MemoryStore, PostgresStore, SqliteStore, Store
from awaken.testing import ScriptedModel, ToolCalls

SOON_MS = 60_000
EXTRACTING = MemoryConfig(extract=True, inject_facts=0, extract_facts=20)
QUICK = MailboxConfig(poll_ms=20)
USERS = ("ann", "bob")
WAIT = "(wait)"


@tool(approval=True)
async def approve() -> str:
    """Ask first."""
    return "yes"


def answer(request: Any) -> Any:
    """Learn all lines, wait if the newest message says so, else quote all that was said."""
    last = request.messages[-1].text
    if last.startswith("<conversation>"):
        return json.dumps(last.splitlines()[1:-1])
    if WAIT in last:
        return ToolCalls([("approve", {})])
    quoted = sorted({it for message in request.messages for it in find_words(message.text)})
    return f"I have read: {' '.join(quoted)}"


def find_words(text: str) -> list[str]:
    """Return the marks in a text, each of which names the one who said it."""
    return re.findall(r"(?:ann|bob|nobody|agent)-\d+", text)


def make_runtime(store: Store, **options: Any) -> AgentRuntime:
    agent = Agent(
        "a",
        model=ScriptedModel([answer], cycle=True),
        plugins=[MemoryPlugin(EXTRACTING)],
        tools=[approve],
    )
    return AgentRuntime([agent], store=store, mailbox=QUICK, **options)


async def learn(runtime: AgentRuntime, run_id: str) -> None:
    try:
        await runtime.wait_for_follow_up(run_id, timeout_ms=SOON_MS)
    except UnknownRun:
        return


async def list_learnt(runtime: AgentRuntime, user_id: str) -> set[str]:
    page = await runtime.memory.list_facts(user_memory("acme", user_id), limit=1_000)
    return {word for it in page.items for word in find_words(it.text)}


def sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "a.db")


def postgres(_: Path) -> Store:
    return PostgresStore(server().url, schema=new_schema())


each_kind = pytest.mark.parametrize("open_store", [lambda _: MemoryStore(), sqlite, postgres])
OpenStore = Callable[[Path], Store]


@each_kind
def test_words_of_the_user_who_began_a_run_are_not_learnt_about_the_user_who_took_it_over(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async def main() -> None:
        async with make_runtime(open_store(tmp_path)) as runtime:
            place = {"thread_id": "t", "tenant_id": "acme"}
            first = await runtime.run("a", f"ann-1 {WAIT}", **place, user_id="ann")
            second = await runtime.run("a", "bob-1", **place, user_id="bob")
            assert second.run_id == first.run_id
            assert (await runtime.get_run(first.run_id)).user_id == "bob"
            await learn(runtime, first.run_id)
            assert await list_learnt(runtime, "bob") == {"bob-1"}
            assert await list_learnt(runtime, "ann") == set()
            # It goes back to the first one, who is learnt about from her own words alone.
            third = await runtime.run("a", f"ann-2 {WAIT}", **place, user_id="ann")
            await runtime.run("a", f"bob-2 {WAIT}", **place, user_id="bob")
            fourth = await runtime.run("a", "ann-3", **place, user_id="ann")
            assert fourth.run_id == third.run_id
            await learn(runtime, third.run_id)
            assert await list_learnt(runtime, "ann") == {"ann-2", "ann-3"}
            assert await list_learnt(runtime, "bob") == {"bob-1"}

    asyncio.run(asyncio.wait_for(main(), 120))


@each_kind
def test_a_user_who_is_alone_on_a_thread_is_learnt_about_from_the_whole_conversation(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async def main() -> None:
        async with make_runtime(open_store(tmp_path)) as runtime:
            run = await runtime.run("a", "ann-1", thread_id="t", tenant_id="acme", user_id="ann")
            await learn(runtime, run.run_id)
            facts = (await runtime.memory.list_facts(user_memory("acme", "ann"))).items
            assert {it.text for it in facts} == {"user: ann-1", "assistant: I have read: ann-1"}

    asyncio.run(asyncio.wait_for(main(), 120))


@each_kind
def test_what_a_program_adds_to_a_run_is_not_learnt_about_its_user(
    open_store: OpenStore, tmp_path: Path
) -> None:
    started, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        started.set()
        await goes_on.wait()
        return "worked"

    def work_first(request: Any) -> Any:
        is_first = not any(it.role.value == "tool" for it in request.messages)
        is_asked = request.messages[-1].text.startswith("<conversation>")
        return ToolCalls([("work", {})]) if is_first and not is_asked else answer(request)

    async def main() -> None:
        model = ScriptedModel([work_first], cycle=True)
        agent = Agent("a", model=model, plugins=[MemoryPlugin(EXTRACTING)], tools=[work])
        async with AgentRuntime([agent], store=open_store(tmp_path), mailbox=QUICK) as runtime:
            handle = await runtime.start("a", "ann-1", tenant_id="acme", user_id="ann")
            await started.wait()
            assert (await runtime.steer(handle.run_id, "nobody-1")).is_accepted
            goes_on.set()
            await handle.result()
            await learn(runtime, handle.run_id)
            assert await list_learnt(runtime, "ann") == {"ann-1"}

    asyncio.run(asyncio.wait_for(main(), 120))


def test_what_an_agent_asks_of_another_is_not_learnt_about_the_user(tmp_path: Path) -> None:
    def delegate(request: Any) -> Any:
        if request.messages[-1].text.startswith("<conversation>"):
            return json.dumps(request.messages[-1].text.splitlines()[1:-1])
        if any(it.role.value == "tool" for it in request.messages):
            return "Done."
        return ToolCalls([("agent_run_helper", {"prompt": "agent-1"})])

    async def main() -> None:
        plugins = [MemoryPlugin(EXTRACTING)]
        helper = Agent("helper", model=ScriptedModel([answer], cycle=True), plugins=plugins)
        lead = Agent(
            "lead", model=ScriptedModel([delegate], cycle=True), plugins=plugins, delegates=[helper]
        )
        async with AgentRuntime([lead, helper], store=sqlite(tmp_path), mailbox=QUICK) as runtime:
            run = await runtime.run("lead", "ann-1", tenant_id="acme", user_id="ann")
            runs = (await runtime.store.list_runs(RunQuery())).items
            assert {it.agent_id for it in runs} == {"lead", "helper"}
            for it in runs:
                await learn(runtime, it.run_id)
            assert run.text == "Done."
            assert await list_learnt(runtime, "ann") == {"ann-1"}

    asyncio.run(asyncio.wait_for(main(), 120))


MOVES = st.lists(
    st.tuples(
        st.sampled_from([*USERS, None]),
        st.sampled_from(["say", "wait", "decide", "fork", "submit"]),
        st.integers(0, 2),
    ),
    min_size=2,
    max_size=9,
)


@sampled
@settings(
    max_examples=choose_size(25, 400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(moves=MOVES)
def test_no_user_is_learnt_about_from_words_of_another(moves: list[Any], tmp_path: Path) -> None:
    async def main() -> None:
        threads = ["t0"]
        async with make_runtime(MemoryStore()) as runtime:
            for number, (user_id, move, choice) in enumerate(moves):
                thread_id = threads[choice % len(threads)]
                whose = {"thread_id": thread_id, "tenant_id": "acme", "user_id": user_id}
                said = f"{user_id or 'nobody'}-{number}"
                if move == "fork":
                    if await runtime.store.load_thread(thread_id) is not None:
                        threads.append((await runtime.fork(thread_id)).id)
                elif move == "decide":
                    for ticket in await runtime.tickets():
                        await runtime.decide(ticket.ticket_id, "resume")
                        await runtime.wait(ticket.run_id)
                elif move == "submit":
                    receipt = await runtime.submit("a", said, **whose)
                    await runtime.wait(receipt.run_id)
                else:
                    await runtime.run("a", said + (WAIT if move == "wait" else ""), **whose)
            for run in await runtime.list_runs():
                await learn(runtime, run.run_id)
            for user_id in USERS:
                learnt = await list_learnt(runtime, user_id)
                assert {it.split("-")[0] for it in learnt} <= {user_id}

    asyncio.run(asyncio.wait_for(main(), 120))
