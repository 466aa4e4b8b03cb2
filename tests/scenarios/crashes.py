"""Processes that die: a store that stops answering at a chosen commit, and whoever goes on.

The memory store outlives the processes that use it. A process reaches it through a `Line`, which
is cut before or after one of its commits: from then on nothing of that process gets through.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    InputMode,
    Limits,
    Message,
    RunRequest,
    RunResult,
    ToolCallDone,
    user,
)
from awaken.contracts.models.stream_recovery import INTERRUPTED_PROMPT
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import Lease, LeaseHolder
from awaken.stores import Claim, Commit, CommitReceipt, MemoryStore, RunDispatch, RunRecord
from awaken.testing import Entry, LoopClock, ScriptedModel, assert_valid_transcript

LEASE_MS = 30_000


class Dead(BaseException):
    """The process that hears this is dead."""


class Line:
    """One process's way to the store; cut for good before or after its n-th commit."""

    def __init__(
        self, store: MemoryStore, *, cut_before: int | None = None, cut_after: int | None = None
    ) -> None:
        self._store = store
        self._cut_before = cut_before
        self._cut_after = cut_after
        self.is_cut = False
        self.commits: list[Commit] = []
        self.checkpoints = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def cut(self) -> None:
        self.is_cut = True

    async def commit(self, commit: Commit) -> CommitReceipt:
        self._answer()
        await asyncio.sleep(0)
        self._answer()
        if len(self.commits) + 1 == self._cut_before:
            self.cut()
            self._answer()
        receipt = await self._store.commit(commit)
        self.commits.append(commit)
        if len(self.commits) == self._cut_after:
            self.cut()
            self._answer()
        await asyncio.sleep(0)
        self._answer()
        return receipt

    async def save_checkpoint(self, checkpoint: Any, fencing_token: str | None = None) -> None:
        if not self.is_cut:
            await self._store.save_checkpoint(checkpoint, fencing_token)
            self.checkpoints += 1

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        self._answer()
        return await self._store.find_commit(commit_id, thread_id)

    def _answer(self) -> None:
        if self.is_cut:
            raise Dead


class Book:
    """A lease book whose keeper is the test."""

    patience_ms = 0

    def __init__(self) -> None:
        self.opened = 0
        self.watched: dict[str, LeaseHolder] = {}

    def open(self, _thread_id: str) -> Lease:
        self.opened += 1
        claim = Claim(worker_id="here", lease_ms=LEASE_MS)
        return Lease(token=f"lease {id(self)} {self.opened}", claim=claim)

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        self.watched[lease.token] = run

    def forget(self, lease: Lease) -> None:
        self.watched.pop(lease.token, None)


class Process:
    """An engine with one agent "a" on a line of its own; its model answers by what it is shown."""

    def __init__(
        self,
        store: MemoryStore,
        entries: Sequence[Entry] = (),
        *,
        limits: Limits | None = None,
        cut_before: int | None = None,
        cut_after: int | None = None,
        others: Mapping[str, dict[str, Any]] | None = None,
        **agent: Any,
    ) -> None:
        self.line = Line(store, cut_before=cut_before, cut_after=cut_after)
        self.book = Book()
        self.asked = 0

        def answer(request: InferenceRequest) -> Any:
            self.asked += 1
            messages = request.messages
            if messages[-1].text == INTERRUPTED_PROMPT:
                messages = messages[:-2]
            said = [it for it in messages if it.role is Role.ASSISTANT]
            entry = entries[len(said)]
            return entry(request) if callable(entry) else entry

        known = {"a": agent, **(others or {})} if entries else {}
        model = ScriptedModel([answer], cycle=True)
        agents = [Agent(id_, **{"model": model, **options}) for id_, options in known.items()]
        runtime = AgentRuntime(agents, store=store, limits=limits or Limits(), clock=LoopClock())
        self.engine = RunEngine(
            self.line,  # type: ignore[arg-type]
            runtime.registry,
            runtime._engine.services,
            self.book,
        )

    async def claim(self) -> RunDispatch:
        """Claim the next dispatch that is due."""
        token = self.engine.services.ids.new_id()
        (dispatch,) = await self.line.claim("here", token, LEASE_MS)
        return dispatch

    async def execute_next(self) -> RunResult:
        return await self.engine.execute(await self.claim())


def shared_store() -> MemoryStore:
    return MemoryStore(clock=LoopClock(), is_shared=True)


def input_of(
    text: str = "go",
    *,
    run_id: str = "r",
    mode: InputMode = InputMode.QUEUE,
    max_attempts: int = 5,
    **request: Any,
) -> RunDispatch:
    """A dispatch of one message for thread "t"."""
    asked = RunRequest(agent_id="a", messages=(user(text),), **request)
    return RunDispatch(
        dispatch_id=f"d-{run_id}-{text}",
        thread_id="t",
        run_id=run_id,
        request=asked,
        mode=mode,
        max_attempts=max_attempts,
    )


async def after_the_lease(store: MemoryStore) -> tuple[RunDispatch, ...]:
    """Let the lease of a dead process run out, and queue what it left."""
    await asyncio.sleep(LEASE_MS / 1000 + 1)
    return await store.reclaim()


async def history(store: MemoryStore, run_id: str = "r") -> dict[str, Any]:
    """Everything durable of a run, without ids, times and counters of attempts."""
    checkout = await store.checkout("t")
    assert checkout is not None
    assert_valid_transcript(list(checkout.messages), ())
    record = await store.load_run(run_id)
    events = [it.event for it in await store.list_events("t")]
    return {
        "messages": [_message(it) for it in checkout.messages],
        "events": [_event(it) for it in events],
        "state": {name: bytes(value.data) for name, value in checkout.state.items()},
        "record": _record(record),
    }


def _message(message: Message) -> dict[str, Any]:
    return _without(msgspec.to_builtins(message), "id")


def _event(event: AgentEvent) -> dict[str, Any]:
    ids = ("message_id", "ticket_id", "identity")
    # What is done again after a crash is done at another time.
    times = ("started_at", "duration_ms", "first_token_ms", "attempts")
    told = _without(msgspec.to_builtins(event), *ids, *times)
    if isinstance(event, ToolCallDone) and event.result.suspension is not None:
        told["result"]["suspension"]["suspension"].pop("id")
    return told


def _record(record: RunRecord | None) -> dict[str, Any]:
    kept = ("run_id", "status", "termination", "final_output", "steps", "usage", "waiting")
    return {name: getattr(record, name) for name in kept}


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: kept for name, kept in value.items() if name not in names}


def kinds(history: dict[str, Any]) -> list[str]:
    """The kinds of the logged events, in order."""
    return [event["event_type"] for event in history["events"]]


def texts(history: dict[str, Any]) -> list[str]:
    return ["".join(part.get("text", "") for part in it["content"]) for it in history["messages"]]


Judge = Callable[[dict[str, Any], dict[str, Any]], None]


def points(commits: int) -> Iterable[dict[str, int]]:
    """Every moment at which a process of so many commits can die."""
    for number in range(1, commits + 1):
        yield {"cut_before": number}
        yield {"cut_after": number}
