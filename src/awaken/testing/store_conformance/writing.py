"""Short ways to write commits and to see what they did. Knows ports only, no store."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from awaken.contracts.lifecycle import Cancelled, RunStatus, TicketStatus
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting, WaitingReason
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.dispatch import Claim, DispatchStatus, LeaseReport, RunDispatch
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    DispatchQuery,
    MessageQuery,
    RunQuery,
    ThreadQuery,
)
from awaken.contracts.storage.store import Commit, CommitReceipt, Store, ToolRecord
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

StoreCheck = Callable[[Store], Coroutine[Any, Any, None]]
ProfileCheck = Callable[[ProfileStore], Coroutine[Any, Any, None]]
E = TypeVar("E", bound=Exception)

THREAD, RUN = "thread-1", "run-1"
CREATED, RUNNING = RunStatus.CREATED, RunStatus.RUNNING
WAITING, DONE = RunStatus.WAITING, RunStatus.DONE
QUEUED, CLAIMED = DispatchStatus.QUEUED, DispatchStatus.CLAIMED
SHORT_MS, LONG_MS = 40, 600_000
"""A lease that a check lets run out, and one that lasts longer than any check."""
TIME_BOUND_S = 30


class Writer:
    """Commits to one thread, one version after another."""

    def __init__(self, store: Store, thread_id: str = THREAD) -> None:
        self.store = store
        self.thread_id = thread_id
        self.version = 0

    def next(self, **parts: Any) -> Commit:
        """Build the next commit without sending it."""
        at = self.version + 1
        fields: dict[str, Any] = {
            "commit_id": f"{self.thread_id}-commit-{at}",
            "thread_id": self.thread_id,
            "expected_version": self.version,
            "committed_at": 1000 * at,
        }
        return Commit(**(fields | parts))

    async def commit(self, **parts: Any) -> CommitReceipt:
        """Send the next commit and move on to the version it made."""
        receipt = await self.store.commit(self.next(**parts))
        self.version = receipt.version
        return receipt

    async def expect_refusal(self, error: type[E], **parts: Any) -> E:
        """Send a commit that must be refused with this error and change nothing."""
        before = await read_everything(self.store)
        raised = await refusal(error, self.store.commit(self.next(**parts)))
        assert await read_everything(self.store) == before, f"{raised!r} was raised after a change"
        return raised


async def refusal(error: type[E], work: Awaitable[object]) -> E:
    """Return the error that the work must end with."""
    try:
        outcome = await work
    except error as raised:
        return raised
    raise AssertionError(f"expected {error.__name__}, got {outcome!r}")


async def read_everything(store: Store) -> list[object]:
    """Read all that a small store shows through its ports."""
    threads = await store.list_threads(ThreadQuery(limit=LIMIT_MAX))
    runs = await store.list_runs(RunQuery(limit=LIMIT_MAX))
    seen: list[object] = [threads, runs, await store.list_tickets()]
    for thread in threads.items:
        seen.append(await store.checkout(thread.id))
        seen.append(await store.list_messages(thread.id, MessageQuery(limit=LIMIT_MAX)))
        seen.append(await store.list_events(thread.id))
    seen.extend([await store.list_tool_records(run.run_id) for run in runs.items])
    seen.extend([await store.find_checkpoint(run.run_id) for run in runs.items])
    seen.append(await store.list_dispatches(DispatchQuery(limit=LIMIT_MAX)))
    seen.append(await store.list_outbox())
    seen.append(await store.list_dead_outbox())
    return seen


async def elapse(store: Store, ms: int) -> None:
    """Let the store's time pass: at once where it has a clock to advance, else by waiting."""
    advance = getattr(getattr(store, "clock", None), "advance", None)
    if advance is not None:
        advance(ms)
        return
    until = await store.now_ms() + ms + 1
    async with asyncio.timeout(TIME_BOUND_S):
        while True:
            left = until - await store.now_ms()
            if left <= 0:
                return
            await asyncio.sleep(left / 1000)


async def extend(store: Store, *tokens: str, lease_ms: int = LONG_MS) -> tuple[LeaseReport, ...]:
    """Extend leases as a worker does: in a thread of its own, with a keeper of its own."""

    def work() -> tuple[LeaseReport, ...]:
        keeper = store.lease_keeper()
        try:
            return keeper.extend(tokens, lease_ms)
        finally:
            keeper.close()

    return await asyncio.to_thread(work)


async def queue(store: Store, *names: str, **fields: Any) -> list[RunDispatch]:
    """Queue dispatches of these ids, one after the other."""
    return [await store.enqueue(dispatch(name, **fields)) for name in names]


async def claim(store: Store, lease_ms: int = LONG_MS, token: str = "token-1") -> RunDispatch:
    """Claim the dispatch that is next; there must be one."""
    found = await store.claim("worker", token, lease_ms)
    assert len(found) == 1, "nothing was claimed"
    return found[0]


async def claim_ids(store: Store, limit: int = 1, token: str = "token-n") -> list[str]:
    """Claim what is due and return its ids."""
    found = await store.claim("worker", token, LONG_MS, limit=limit)
    return [dispatch.dispatch_id for dispatch in found]


async def find(store: Store, dispatch_id: str) -> RunDispatch:
    """Return a dispatch that must exist."""
    found = await store.find_dispatch(dispatch_id)
    assert found is not None, f"dispatch {dispatch_id} is gone"
    return found


def dispatch(dispatch_id: str, thread_id: str = THREAD, **fields: Any) -> RunDispatch:
    """Build a dispatch that asks for something of its own."""
    known: dict[str, Any] = {
        "dispatch_id": dispatch_id,
        "thread_id": thread_id,
        "run_id": f"run-of-{dispatch_id}",
        "request": RunRequest(
            agent_id="agent", thread_id=thread_id, messages=(build_user_message("m-1"),)
        ),
        "request_hash": f"hash of {dispatch_id}",
    }
    return RunDispatch(**(known | fields))


def claim_fields(token: str = "token-f", lease_ms: int = LONG_MS) -> dict[str, Any]:
    """The parts of a commit that takes its thread."""
    return {"fencing_token": token, "claim": Claim(worker_id="process", lease_ms=lease_ms)}


def run(run_id: str = RUN, status: RunStatus = RUNNING, **fields: Any) -> RunRecord:
    """Build a run record; a waiting one gets a waiting state."""
    if status is WAITING:
        fields.setdefault("waiting", Waiting(reason=WaitingReason.TOOL_PERMISSION))
    known: dict[str, Any] = {
        "run_id": run_id,
        "thread_id": THREAD,
        "agent_id": "agent",
        "status": status,
    }
    return RunRecord(**(known | fields))


def build_cancelled_record(run_id: str = RUN, cause: str = "user", **fields: Any) -> RunRecord:
    """Build the last record of a run that was cancelled."""
    return run(run_id, DONE, termination=Cancelled(cause=cause), **fields)


def build_user_message(message_id: str | None, text: str = "hello", **fields: Any) -> Message:
    """Build a user message."""
    known: dict[str, Any] = {"role": Role.USER, "id": message_id, "content": (Text(text=text),)}
    return Message(**(known | fields))


def build_call_message(message_id: str, *call_ids: str, role: Role = Role.ASSISTANT) -> Message:
    """Build an assistant message that asks for calls."""
    calls = tuple(ToolCall(id=call_id, name="search", arguments={"q": 1}) for call_id in call_ids)
    return Message(role=role, id=message_id, tool_calls=calls)


def build_result_message(message_id: str, call_id: str | None) -> Message:
    """Build the result of a call."""
    content = (Text(text=f"result of {call_id}"),)
    return Message(role=Role.TOOL, id=message_id, tool_call_id=call_id, content=content)


def ticket(
    ticket_id: str, call_id: str, status: TicketStatus = TicketStatus.OPEN, **fields: Any
) -> Ticket:
    """Build a ticket; a decided one gets a decision."""
    if status is TicketStatus.DECIDED:
        fields.setdefault("decision", ToolCallResume(decision_id="decision-1"))
    known: dict[str, Any] = {
        "thread_id": THREAD,
        "run_id": RUN,
        "tool_name": "search",
        "status": status,
    }
    return Ticket(**(known | {"ticket_id": ticket_id, "call_id": call_id} | fields))


def tool_record(call_id: str, **fields: Any) -> ToolRecord:
    """Build a journal entry."""
    known: dict[str, Any] = {"run_id": RUN, "call_id": call_id, "step": 0, "tool_name": "search"}
    return ToolRecord(**(known | fields))


def value(json: str, version: int = 1) -> StoredValue:
    """Build a stored state value."""
    return StoredValue(version=version, data=msgspec.Raw(json.encode()))


async def suspend_run(store: Store, *call_ids: str) -> Writer:
    """Leave a run waiting on calls, each with a ticket `ticket-<call id>`."""
    writer = Writer(store)
    await writer.commit(
        messages=(build_user_message("m-1"), build_call_message("m-2", *call_ids)), run=run()
    )
    tickets = tuple(ticket(f"ticket-{call_id}", call_id) for call_id in call_ids)
    await writer.commit(run=run(status=WAITING), tickets=tickets)
    return writer
