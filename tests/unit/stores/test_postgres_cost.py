"""How often Postgres is asked: round trips, counted. A number here is only ever lowered."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from tests.postgres.counting import Sent, counted
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened

from awaken import Agent, AgentRuntime, MailboxConfig, tool
from awaken.buses.postgres import PostgresBus
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.store import Commit, CommitReceipt, OutboxEntry, StreamCheckpoint
from awaken.runtime.primitives.system import Uuid7Source
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls
from awaken.testing.store_conformance.writing import (
    DONE,
    LONG_MS,
    THREAD,
    WAITING,
    Writer,
    build_call_message,
    build_result_message,
    claim_fields,
    dispatch,
    run,
    ticket,
    value,
)

TOKEN = "token-1"
RUN, CALLED, ANSWERED = (Uuid7Source().new_id() for _ in range(3))
"""Ids as runs make them: they are not looked for before they are used."""
HOUR_MS = 3_600_000
QUEUED_RUN = 14
"""A queued run of two steps with its submission, up to its last commit; five of them claim it."""
LOOK = "WITH RECURSIVE asked AS"
LOCKS = "FOR UPDATE SKIP LOCKED"
"""A worker that looks for work, without the lock of a claim: how often depends on what woke it."""
APART = ("sweeper", "relay", "report")
"""What a process does when it begins; on a busy machine it may not be over when a run begins."""
LOOKS = 1
"""How often the worker looks for that run: not after it, because nothing is left of its thread."""
SIGNALS = 5
"""The signal of a submission, and one for each of the four commits."""
QUEUED_RUN_MAX = 20
CLAIM = 6
"""A look and a claim, however many threads are claimed."""

OPERATIONS = {
    "load a thread": 1,
    "load a run": 1,
    "load a dispatch": 1,
    "check out a thread": 1,
    "look for work": 1,
    "queue a dispatch on a new thread": 2,
    "queue a dispatch on a known thread": 2,
    "commit a message": 1,
    "commit state and an outbox entry": 1,
    "commit that takes the thread": 1,
    "commit that suspends": 2,
    "commit that ends and acknowledges": 1,
    "checkpoint of an answer": 1,
    "second checkpoint of an answer": 1,
    "ask for a cancel": 7,
}


class RunWriter(Writer):
    """Names its commits as runs do, after the run and the version."""

    def next(self, **parts: Any) -> Commit:
        return super().next(**({"commit_id": f"{RUN}:{self.version + 1}"} | parts))


async def prepare(store: PostgresStore, name: str) -> Callable[[], Awaitable[Any]]:
    """Bring a store to where an operation is usual; returns the operation."""
    writer = RunWriter(store)
    await writer.commit(run=run("before"))
    await writer.commit(run=run("before", status=DONE))
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "load a thread": partial(store.load_thread, THREAD),
        "load a run": partial(store.load_run, "before"),
        "load a dispatch": partial(store.find_dispatch, "d-1"),
        "check out a thread": partial(store.checkout, THREAD),
        "look for work": partial(store.claim, "worker", TOKEN, LONG_MS),
        "queue a dispatch on a new thread": partial(store.enqueue, dispatch("d-1", "thread-new")),
        "queue a dispatch on a known thread": partial(store.enqueue, dispatch("d-1")),
        "commit that takes the thread": partial(writer.commit, run=run(RUN), **claim_fields(TOKEN)),
    }
    return operations.get(name) or await prepare_held(store, writer, name)


async def prepare_held(
    store: PostgresStore, writer: Writer, name: str
) -> Callable[[], Awaitable[Any]]:
    """The same for operations under a claim."""
    await store.enqueue(dispatch("d-1", run_id=RUN))
    assert await store.claim("worker", TOKEN, LONG_MS)
    await store.checkout(THREAD)
    held = partial(writer.commit, fencing_token=TOKEN)
    # Now and then a commit with state reads all values, to keep them with the log: not the next.
    called = build_call_message(CALLED, "call-1")
    await held(run=run(RUN), messages=(called,), state={"key": value("1")})
    checkpoint = StreamCheckpoint(run_id=RUN, thread_id=THREAD, step=1, message_id="m")
    save = partial(store.save_checkpoint, checkpoint, TOKEN)
    if name == "second checkpoint of an answer":
        await save()
    entry = OutboxEntry(entry_id="e-1", kind="mail", payload={})
    asked = ticket("ticket-1", "call-1", run_id=RUN)
    answered = (build_result_message(ANSWERED, "call-1"),)
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "commit a message": partial(held, run=run(RUN), messages=answered),
        "commit state and an outbox entry": partial(
            held, run=run(RUN), state={"key": value("2")}, outbox=(entry,)
        ),
        "commit that suspends": partial(
            held, run=run(RUN, status=WAITING), tickets=(asked,), release=Release()
        ),
        "commit that ends and acknowledges": partial(
            held, run=run(RUN, status=DONE), messages=answered, release=Release()
        ),
        "checkpoint of an answer": save,
        "second checkpoint of an answer": save,
        "ask for a cancel": partial(store.request_cancel, THREAD, "unwanted"),
    }
    return operations[name]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_asks_no_more_often_than_it_must(name: str) -> None:
    async def check() -> None:
        async with opened() as store:
            operation = await prepare(store, name)
            with counted() as sent:
                await operation()
            assert sent.round_trips == OPERATIONS[name], sent.texts

    asyncio.run(check())


def test_a_queued_run_of_two_steps_asks_no_more_often_than_it_must() -> None:
    sent = asyncio.run(count_queued_run())
    looks = sum(map(is_look, sent.texts))
    assert sent.round_trips - looks == QUEUED_RUN, sent.texts
    assert looks <= LOOKS
    assert QUEUED_RUN + LOOKS + SIGNALS <= QUEUED_RUN_MAX


class EndingStore(PostgresStore):
    """Tells when a commit has released its thread."""

    ended: asyncio.Event

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        if commit.release is not None:
            self.ended.set()
        return receipt


async def count_queued_run() -> Sent:
    """Count the third of three runs, each on a thread of its own; nothing else happens."""

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([ToolCalls([("pay", {})]), "done"], cycle=True)
    store = EndingStore(server().url, schema=new_schema())
    never = MailboxConfig(
        poll_ms=HOUR_MS, sweep_ms=HOUR_MS, relay_ms=HOUR_MS, renew_ms=HOUR_MS, lease_ms=3 * HOUR_MS
    )
    agents = [Agent("agent", model=model, tools=[pay])]
    bus = PostgresBus(server().url, channel=new_schema())
    with counted(APART) as sent:
        async with AgentRuntime(agents, store=store, bus=bus, mailbox=never) as runtime:
            for number in range(3):
                store.ended = asyncio.Event()
                sent.clear()
                await runtime.submit("agent", "hello", thread_id=f"thread-{number}")
                async with asyncio.timeout(30):
                    await store.ended.wait()
            counts = Sent()
            counts.texts = list(sent.texts)
    return counts


def is_look(text: str) -> bool:
    return text.startswith(LOOK) and LOCKS not in text


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("count", [1, 8])
def test_a_claim_asks_as_often_for_one_thread_as_for_many(count: int, is_known: bool) -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(count):
                thread = f"thread-{number}"
                if is_known:
                    writer = RunWriter(store, thread)
                    await writer.commit(run=run(f"before-{number}", thread_id=thread))
                    done = run(f"before-{number}", thread_id=thread, status=DONE)
                    await writer.commit(run=done)
                for place in range(2):
                    await store.enqueue(dispatch(f"d-{number}-{place}", thread))
            with counted() as sent:
                found = await store.claim("worker", TOKEN, LONG_MS, limit=count)
            assert [it.dispatch_id for it in found] == [f"d-{n}-0" for n in range(count)]
            assert sent.round_trips == CLAIM, sent.texts

    asyncio.run(check())
