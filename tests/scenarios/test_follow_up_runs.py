"""What is learnt after a run: durable, once, as its own tenant and user, on every store."""

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, NaturalEnd, RunStatus
from awaken.contracts.storage.queries import DispatchQuery
from awaken.errors import UnknownRun
from awaken.extensions.memory import MemoryConfig, MemoryPlugin, user_memory
from awaken.mailbox.relay import Relay
from awaken.runtime.loop.follow_ups import make_follow_up_id
from awaken.stores import Store
from awaken.testing import ScriptedModel

from . import extraction_process
from .each_store import NewStore, each_store

SOON_MS = 60_000
EXTRACTING = MemoryConfig(extract=True, inject_facts=0)
QUICK = MailboxConfig(poll_ms=20)


def answer(request: Any) -> str:
    """Answer a conversation, and a question about one with what its user said."""
    text = request.messages[-1].text
    if not text.startswith("<conversation>"):
        return "Nice."
    return "[" + ", ".join(f'"{it}"' for it in re.findall(r"user: (.*)", text)) + "]"


def make_runtime(
    store: Store, *, has_worker: bool = True, answers: int = 100
) -> tuple[AgentRuntime, ScriptedModel]:
    model = ScriptedModel([answer] * answers)
    agent = Agent("a", model=model, plugins=[MemoryPlugin(EXTRACTING)])
    runtime = AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=has_worker)
    return runtime, model


async def list_texts(runtime: AgentRuntime, tenant_id: str | None, user_id: str) -> list[str]:
    page = await runtime.memory.list_facts(user_memory(tenant_id, user_id))
    return [it.text for it in page.items]


async def until_queued(runtime: AgentRuntime, run_id: str) -> None:
    """Wait until the order that the end of a run gave is carried out."""
    async with asyncio.timeout(SOON_MS / 1000):
        while await runtime.store.find_dispatch_of_run(make_follow_up_id(run_id)) is None:
            await asyncio.sleep(0.005)


@each_store
def test_a_process_that_ends_after_a_run_leaves_the_extraction_to_the_next_one(
    new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(tmp_path)

    async def story() -> None:
        first, asked = make_runtime(store(), has_worker=False)
        async with first:
            result = await first.run("a", "I live in Rome.", tenant_id="acme", user_id="ann")
            assert result.text == "Nice."
            assert await list_texts(first, "acme", "ann") == []
            await until_queued(first, result.run_id)
            (queued,) = (await first.store.list_dispatches(DispatchQuery())).items
            assert queued.run_id == make_follow_up_id(result.run_id)
        assert len(asked.requests) == 1
        # Two processes at once: one of them does it.
        (second, one), (third, other) = make_runtime(store()), make_runtime(store())
        async with second, third:
            learnt = await second.wait_for_follow_up(result.run_id, timeout_ms=SOON_MS)
            assert learnt.termination == NaturalEnd()
            assert await list_texts(second, "acme", "ann") == ["I live in Rome."]
            assert await list_texts(third, "acme", "ann") == ["I live in Rome."]
            assert await list_texts(third, None, "ann") == []
        assert len(one.requests) + len(other.requests) == 1

    asyncio.run(story())


@each_store
def test_runs_of_many_users_at_once_are_learnt_by_their_own_users_only(
    new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(tmp_path)
    users = [(tenant, name) for tenant in (None, "acme", "acm") for name in ("ann", "bob")]

    async def story() -> None:
        (one, _), (other, _) = make_runtime(store()), make_runtime(store())
        async with one, other:

            async def talk(tenant_id: str | None, user_id: str, number: int) -> None:
                runtime = (one, other)[number % 2]
                text = f"I am {user_id} of {tenant_id}, note {number}."
                result = await runtime.run("a", text, tenant_id=tenant_id, user_id=user_id)
                learnt = await runtime.wait_for_follow_up(result.run_id, timeout_ms=SOON_MS)
                assert learnt.status is RunStatus.DONE

            await asyncio.gather(*(talk(*user, n) for user in users for n in range(3)))
            for tenant_id, user_id in users:
                said = {f"I am {user_id} of {tenant_id}, note {n}." for n in range(3)}
                facts = await list_texts(one, tenant_id, user_id)
                assert (set(facts), len(facts)) == (said, 3)

    asyncio.run(story())


@each_store
def test_nothing_is_learnt_from_a_thread_that_is_deleted_meanwhile(
    new_store: NewStore, tmp_path: Path
) -> None:
    store = new_store(tmp_path)

    async def story() -> None:
        runtime, model = make_runtime(store(), has_worker=False)
        async with runtime:
            early = await runtime.run("a", "I live in Rome.", thread_id="early", user_id="ann")
            late = await runtime.run("a", "I like tea.", thread_id="late", user_id="ann")
            for run in (early, late):
                await until_queued(runtime, run.run_id)
            await runtime.store.delete_thread("early")
        assert len(model.requests) == 2

        async def answer_late(request: Any) -> str:
            # The model is asked, and answers after the deletion.
            await after.store.delete_thread("late")
            return answer(request)

        asked = ScriptedModel([answer_late])
        agent = Agent("a", model=asked, plugins=[MemoryPlugin(EXTRACTING)])
        after = AgentRuntime([agent], store=store(), mailbox=QUICK, has_worker=True)
        async with after:
            for run in (early, late):
                ended = await after.wait_for_follow_up(run.run_id, timeout_ms=SOON_MS)
                assert ended.termination == NaturalEnd()
            assert await list_texts(after, None, "ann") == []
        assert len(asked.requests) == 1

    asyncio.run(story())


@pytest.mark.parametrize("moment", extraction_process.MOMENTS)
def test_a_kill_neither_loses_nor_doubles_what_is_learnt(moment: str, tmp_path: Path) -> None:
    async def story() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, extraction_process.__file__, str(tmp_path), moment,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        out, _ = await asyncio.wait_for(process.communicate(), SOON_MS / 1000)
        assert process.returncode == -signal.SIGKILL
        run_id = out.decode().strip()
        assert run_id
        found = [] if moment == "written" else ['["Lives in Rome", "Is kind"]']
        async with extraction_process.make_runtime(tmp_path, found) as runtime:
            learnt = await runtime.wait_for_follow_up(run_id, timeout_ms=SOON_MS)
            assert learnt.termination == NaturalEnd()
            facts = await list_texts(runtime, "acme", "ann")
            known = ["Lives in Rome"]
            assert facts == (known if moment == "written" else [*known, "Is kind"])

    asyncio.run(story())


@each_store
def test_a_process_that_ends_before_it_has_queued_the_extraction_leaves_its_order(
    new_store: NewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path)

    async def story() -> None:
        first, _ = make_runtime(store(), has_worker=False)
        with monkeypatch.context() as patch:
            patch.setattr(Relay, "wake", lambda _: None)
            patch.setattr(Relay, "start", lambda _: None)
            async with first:
                result = await first.run("a", "I live in Rome.", user_id="ann")
                # The end of the run and its order are one commit, to one thread.
                (order,) = await first.store.list_outbox()
                assert order.kind == "queue_run"
                assert (await first.store.list_dispatches(DispatchQuery())).items == ()
        second, _ = make_runtime(store())
        async with second:
            # A store in memory has no orders of others: a process looks once it has given one.
            await second.run("a", "Hello.", user_id="bob")
            await second.wait_for_follow_up(result.run_id, timeout_ms=SOON_MS)
            assert await list_texts(second, None, "ann") == ["I live in Rome."]
            with pytest.raises(UnknownRun):
                await second.wait_for_follow_up("unknown", timeout_ms=SOON_MS)

    asyncio.run(story())
