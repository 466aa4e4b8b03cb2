"""Recordings of runs, made from the store: the log is the recording, nothing is switched on before.

A recording of a run that has ended never changes. One of a run that executes shows what was
durable when it was made; the store is read again if the thread moved meanwhile.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.errors import AwakenError, CursorExpired, UnknownRun
from awaken.contracts.evals.errors import CannotRecord, CannotReplay
from awaken.contracts.evals.recordings import (
    RecordedConfig,
    RecordedRun,
    RecordedState,
    Recording,
)
from awaken.contracts.events import LoggedEvent, RunStart
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import Message
from awaken.contracts.plugins.loop_state import REQUEST_OPTIONS, RequestOptions
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.state_history import FoldedState, MissingHistory
from awaken.contracts.storage.store import Store
from awaken.runtime.admission.worlds import WorldSource
from awaken.runtime.children.child_threads import threads_below
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import ResolvedAgent

from .recorded_steps import LoggedRun, build_steps, is_recorded_key
from .recording_files import check_size
from .result_digests import digest_journal

READS_MAX = 5
"""How often a run is read again because it went on meanwhile."""
DEPTH_MAX = 8
"""How deep children are recorded inside of their parents."""


class Recorder:
    """Makes recordings of the runs of one store."""

    def __init__(
        self,
        store: Store,
        registry: RegistryHandle,
        version: str,
        worlds: WorldSource | None = None,
    ) -> None:
        """`worlds` opens the worlds of recorded runs: their agents are what a variant made them."""
        self._store = store
        self._registry = registry
        self._version = version
        self._worlds = worlds

    async def record(self, run_id: str) -> Recording:
        """Record a run and the runs below it; what is not stored any more is named in the result.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It has not begun, its thread was deleted, it does not stop changing, or
                the recording is too large.
        """
        made = await self._record(run_id, 0)
        check_size(made)
        return made

    async def _record(self, run_id: str, depth: int) -> Recording:
        for _ in range(READS_MAX):
            record = await self._store.load_run(run_id)
            if record is None:
                raise UnknownRun(run_id=run_id)
            if record.started_at is None:
                raise CannotRecord(run_id=run_id, problem="it has not begun")
            made = await self._read(record, depth)
            again = await self._store.load_run(run_id)
            if again == record:
                return made
        raise CannotRecord(run_id=run_id, problem="it changes faster than it is read; try again")

    async def _read(self, record: RunRecord, depth: int) -> Recording:
        checkout = await self._store.checkout(record.thread_id)
        if checkout is None:
            raise CannotRecord(run_id=record.run_id, problem="its thread was deleted")
        incomplete: list[str] = []
        events = await self._list_events(record, incomplete)
        begin, end, last = find_places(record, checkout.messages)
        states = await self._fold_states(record, incomplete)
        children = {} if depth >= DEPTH_MAX else await self._list_children(record, depth)
        journal = await self._store.list_tool_records(record.run_id)
        run = LoggedRun(
            record=record,
            events=events,
            messages=checkout.messages[end:last],
            tool_records=journal,
            tickets=await self._store.list_run_tickets(record.thread_id, record.run_id),
            states=states,
            children=children,
        )
        start = states[0][1]
        kept = tuple(map(msgspec.to_builtins, journal)) if record.is_workflow else ()
        return Recording(
            run=_describe_run(record, _find_options(states)),
            config=await self._describe_config(record, incomplete),
            history=tuple(checkout.messages[:begin]),
            input=tuple(checkout.messages[begin:end]),
            state=RecordedState(thread=start.thread, run=start.run),
            steps=build_steps(run),
            journal=kept,
            journal_digests=digest_journal(kept),
            incomplete=tuple(incomplete),
        )

    async def _list_events(
        self, record: RunRecord, incomplete: list[str]
    ) -> tuple[LoggedEvent, ...]:
        found = await list_run_events(self._store, record)
        if found is None:
            incomplete.append("the log was purged: digests, times, results and state of calls")
        return found or ()

    async def _fold_states(
        self, record: RunRecord, incomplete: list[str]
    ) -> tuple[tuple[int, FoldedState], ...]:
        """Return the state before the run, and after each commit that changed state of its agent.

        Each comes with the last event of its commit. What only the runtime keeps for itself is not
        folded: the loop makes it again.
        """
        first = await self._store.fold_state(record.run_id, record.log_start)
        changes = await self._store.list_state_changes(record.run_id)
        missing = first.missing or changes.missing
        if missing is not None:
            why = "purged" if missing is MissingHistory.PURGED else "not kept (history='lean')"
            incomplete.append(f"state: {why}")
        found = [(record.log_start, first)]
        for change in changes.changes:
            if any(is_recorded_key(it) for it in (*change.thread, *change.run)):
                folded = await self._store.fold_state(record.run_id, change.event_seq)
                found.append((change.event_seq, folded))
        return tuple(found)

    async def _list_children(
        self, record: RunRecord, depth: int
    ) -> dict[str, tuple[Recording, ...]]:
        """Return the recordings of the runs that calls of the run started, by call id."""
        found: dict[str, list[Recording]] = {}
        for thread in await threads_below(self._store, record.thread_id):
            run_id = thread.latest_run_id
            below = None if run_id is None else await self._store.load_run(run_id)
            is_own = below is not None and below.parent_run_id == record.run_id
            if below is not None and is_own and below.started_at is not None:
                made = await self._record(below.run_id, depth + 1)
                found.setdefault(below.parent_tool_call_id or "", []).append(made)
        return {
            call_id: tuple(sorted(them, key=lambda it: (it.run.created_at, it.run.run_id)))
            for call_id, them in found.items()
        }

    async def _describe_config(self, record: RunRecord, incomplete: list[str]) -> RecordedConfig:
        named = (record.agent_id, record.active_agent_id)
        agents: dict[str, ResolvedAgent] = {}
        for agent_id in dict.fromkeys(it for it in named if it):
            try:
                agents[agent_id] = await self._resolve(record, agent_id)
            except CannotReplay:
                # Without its world nothing says what the agent was.
                incomplete.append(f"the configuration of '{agent_id}': the world is gone")
            except AwakenError:
                # The agent is gone, or cannot be resolved here: the rest is worth recording.
                continue
        models = {route.id: route.spec for it in agents.values() for route in it.models}
        tools = {name: tool.descriptor for it in agents.values() for name, tool in it.tools.items()}
        return RecordedConfig(
            awaken=self._version,
            publication=record.publication,
            agents={agent_id: it.spec for agent_id, it in agents.items()},
            instructions=record.instructions or {},
            models=tuple(models.values()),
            tools=tuple(tools[name] for name in sorted(tools)),
            tools_of={agent_id: it.tool_ids for agent_id, it in agents.items()},
        )

    async def _resolve(self, record: RunRecord, agent_id: str) -> ResolvedAgent:
        """Return an agent as the run had it: in a world, with what the variant changed."""
        if record.world is None or self._worlds is None:
            return await self._registry.resolve(agent_id, record.publication)
        pinned = await self._registry.pin(agent_id, record.publication)
        return (await self._worlds.open(record.world, pinned)).snapshot.resolve(agent_id)


async def list_run_events(store: Store, record: RunRecord) -> tuple[LoggedEvent, ...] | None:
    """Return all events of a run; None if some of them were purged."""
    found: list[LoggedEvent] = []
    after = record.log_start
    try:
        while page := await store.list_events(record.thread_id, after=after):
            after = page[-1].seq
            own = [it for it in page if it.run_id == record.run_id]
            if found and not own:
                # Runs of a thread follow each other.
                break
            found += own
    except CursorExpired:
        return None
    # The log of a thread's first run has no place before it that could be missed.
    is_whole = bool(found) and isinstance(found[0].event, RunStart)
    return tuple(found) if is_whole else None


def find_places(record: RunRecord, messages: Sequence[Message]) -> tuple[int, int, int]:
    """Return where the run's input begins, where it ends, and where the run's messages end."""
    own = [n for n, it in enumerate(messages) if _run_of(it) == record.run_id]
    last = own[-1] + 1 if own else len(messages)
    begin, end = record.input.from_seq, record.input.to_seq
    if begin is None or end is None:
        # It began without input: to go on with what the thread has.
        first = own[0] if own else len(messages)
        return first, first, max(first, last)
    return begin - 1, end, max(end, last)


def _run_of(message: Message) -> str | None:
    return None if message.metadata is None else message.metadata.run_id


def _find_options(states: Sequence[tuple[int, FoldedState]]) -> RequestOptions:
    for _, folded in states:
        if (stored := folded.run.get(REQUEST_OPTIONS.name)) is not None:
            return REQUEST_OPTIONS.decode(stored)
    return RequestOptions()


def _describe_run(record: RunRecord, options: RequestOptions) -> RecordedRun:
    is_waiting = record.status is RunStatus.WAITING
    waiting = record.waiting
    return RecordedRun(
        run_id=record.run_id,
        thread_id=record.thread_id,
        agent_id=record.agent_id,
        active_agent_id=record.active_agent_id,
        parent_call_id=record.parent_tool_call_id,
        kind=record.kind,
        is_workflow=record.is_workflow,
        termination=None if is_waiting else record.termination,
        is_open=record.status is not RunStatus.DONE,
        waits_for=str(waiting.reason) if is_waiting and waiting is not None else None,
        final_output=record.final_output,
        usage=record.usage,
        cost_usd=record.usage.cost_usd,
        context=record.context,
        overrides=record.overrides or options.overrides,
        tool_choice=record.tool_choice,
        frontend_tools=options.frontend_tools,
        session_tools=options.session_tools,
        output_schema=options.output_schema,
        budgets=options.budgets,
        created_at=record.created_at,
        duration_ms=record.duration_ms,
        tenant_id=record.tenant_id,
        user_id=record.user_id,
        begun_by=record.begun_by,
    )
