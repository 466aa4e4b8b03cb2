"""What tests of the mailbox share: a mailbox over a slow store, and runs played by hand."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from awaken import Cancelled, MailboxConfig, Message, RunRequest, RunStatus, SubmitReceipt, user
from awaken.buses.memory import MemoryBus
from awaken.contracts.messages.message import as_blocks
from awaken.mailbox.mailbox import Mailbox
from awaken.messages import Role, ToolCall
from awaken.stores import (
    Commit,
    CommitReceipt,
    DispatchQuery,
    DispatchStatus,
    MemoryStore,
    Release,
    RunDispatch,
    RunRecord,
    Signal,
    Waiting,
    WaitingReason,
)
from awaken.testing import FakeClock, SequentialIds, assert_valid_transcript
from awaken.tools import Asks, Ticket, ToolCallResume

from .worlds import simulated


class SlowStore(MemoryStore):
    """A store that takes its time, so that others get in between."""

    async def enqueue(self, dispatch: RunDispatch, **options: Any) -> RunDispatch:
        await asyncio.sleep(0)
        stored = await super().enqueue(dispatch, **options)
        await asyncio.sleep(0)
        return stored

    async def find_ticket(self, ticket_id: str) -> Ticket | None:
        await asyncio.sleep(0)
        return await super().find_ticket(ticket_id)

    async def load_run(self, run_id: str) -> RunRecord | None:
        found = await super().load_run(run_id)
        await asyncio.sleep(0)
        return found

    async def commit(self, commit: Commit) -> CommitReceipt:
        await asyncio.sleep(0)
        return await super().commit(commit)


class Post:
    """A mailbox over a memory store, a clock that a test moves, and all signals it sent."""

    def __init__(self, store: type[MemoryStore] = SlowStore, **config: Any) -> None:
        self.clock = FakeClock()
        self.store = store(clock=self.clock, is_shared=True)
        self.bus = MemoryBus()
        self.signals: list[Signal] = []
        self.mailbox = Mailbox(
            self.store, self.bus, self.clock, SequentialIds(), MailboxConfig(**config)
        )
        self._version: dict[str, int] = {}

    async def open(self) -> "Post":
        await self.bus.open()
        self.bus.subscribe(self.signals.append)
        return self

    async def submit(self, text: str = "hi", thread: str | None = "t", **options: Any) -> Any:
        request = RunRequest(thread_id=thread, messages=(user(text),))
        return await self.mailbox.submit(request, **options)

    async def dispatches(self, thread_id: str = "t") -> tuple[RunDispatch, ...]:
        return (await self.store.list_dispatches(DispatchQuery(thread_id=thread_id))).items

    async def status_of(self, receipt: SubmitReceipt) -> DispatchStatus:
        found = await self.mailbox.status(receipt.dispatch_id)
        assert found is not None
        return found.status

    async def claim(self, limit: int = 1) -> tuple[RunDispatch, ...]:
        return await self.store.claim("w", self.mailbox.services.ids.new_id(), 1000, limit=limit)

    async def write(self, thread_id: str, token: str | None = None, **parts: Any) -> None:
        thread = await self.store.load_thread(thread_id)
        version = thread.version if thread is not None else 0
        await self.store.commit(
            Commit(
                commit_id=f"{thread_id}:{version + 1}",
                thread_id=thread_id,
                expected_version=version,
                committed_at=self.clock.now_ms(),
                fencing_token=token,
                **parts,
            )
        )

    async def begin_run(
        self, token: str | None = None, run_id: str = "r", calls: int = 1, thread_id: str = "t"
    ) -> None:
        """A run in the middle of its calls, each with an open ticket."""
        asked = tuple(ToolCall(id=f"c{n}", name="ask", arguments={}) for n in range(calls))
        await self.write(
            thread_id,
            token,
            messages=(
                Message(role=Role.USER, id=f"{run_id}-q", content=as_blocks("q")),
                Message(role=Role.ASSISTANT, id=f"{run_id}-a", content=(), tool_calls=asked),
            ),
            run=RunRecord(
                run_id=run_id, thread_id=thread_id, agent_id="a", status=RunStatus.RUNNING
            ),
            tickets=tuple(
                Ticket(
                    ticket_id=f"{run_id}-{call.id}",
                    thread_id=thread_id,
                    run_id=run_id,
                    call_id=call.id,
                    tool_name="ask",
                    asks=Asks.ANSWER,
                )
                for call in asked
            ),
        )

    async def suspend_run(self, token: str | None = None, run_id: str = "r") -> None:
        waiting = Waiting(reason=WaitingReason.TOOL_PERMISSION)
        await self.write(
            "t",
            token,
            run=RunRecord(
                run_id=run_id,
                thread_id="t",
                agent_id="a",
                status=RunStatus.WAITING,
                waiting=waiting,
            ),
            release=Release() if token is not None else None,
        )

    async def wait_for_decisions(self, calls: int = 1) -> None:
        """A run of thread "t" that waits."""
        await self.begin_run(calls=calls)
        await self.suspend_run()

    async def begin_claimed_run(self, calls: int = 1) -> RunDispatch:
        """A run of thread "t" that somebody executes under a claim, with open tickets."""
        await self.submit()
        (claimed,) = await self.claim()
        await self.begin_run(claimed.claim_token, claimed.run_id, calls)
        return claimed


def played(scenario: Callable[[Post], Coroutine[Any, Any, None]], **config: Any) -> Post:
    async def playing() -> Post:
        post = await Post(**config).open()
        await scenario(post)
        return post

    return simulated(playing)


def decision(answer: str = "yes", **options: Any) -> ToolCallResume:
    return ToolCallResume(decision_id=f"d-{answer}", result=answer, **options)


async def gathered(count: int, make: Callable[[int], Coroutine[Any, Any, Any]]) -> list[Any]:
    return list(await asyncio.gather(*(make(n) for n in range(count)), return_exceptions=True))


async def assert_cancelled(post: Post, cause: str = "user") -> None:
    run = await post.store.load_run("r")
    checkout = await post.store.checkout("t")
    assert run is not None
    assert checkout is not None
    assert run.status is RunStatus.DONE
    assert run.termination == Cancelled(cause=cause)
    assert checkout.open_run is None
    assert await post.store.list_tickets("t") == ()
    assert_valid_transcript(list(checkout.messages))
