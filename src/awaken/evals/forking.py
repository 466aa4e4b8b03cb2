"""Forks: a run goes on from any of its points, for real, on a thread of its own.

The original is only read. The fork has its messages and its state as they were at the point, opens
no ticket, and holds no lease of the original. It continues as a run does that another process left:
nothing that has a result is done again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import InvalidInput, StateError, UnknownThread
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.events import (
    AgentEvent,
    InferenceComplete,
    LoggedEvent,
    RunStart,
    StepStart,
    ToolCallDone,
    ToolCallResumed,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import NO_USAGE, Message, Role
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, TOOL_CALL_STATES
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.runs.records import ForkedAt, RunKind, RunRecord
from awaken.contracts.runs.threads import ForkPoint, Thread
from awaken.contracts.state.keys import StateKey, StateScope, StoredValue, list_living_keys
from awaken.contracts.storage.store import Checkout, Commit, Store, ToolRecord
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tenancy import namespace_in, namespace_of
from awaken.runtime.admission.forks import select_state
from awaken.runtime.engine import RunEngine
from awaken.runtime.suspension.dispatch_plan import continuation
from awaken.services.tenant_ids import hide_namespace
from awaken.services.view import TenantView

from .recorded_steps import find_first_step
from .recording import find_places, list_run_events


class ForkAt(StrictRecord, frozen=True, kw_only=True):
    """A point of a run: before the inference of a step, before its tools, or after a result."""

    step: int
    """1-based."""
    results: int | None = None
    """How many results of the step's calls the fork keeps; 0: before its tools; absent: before its
    inference."""


class ForkedRunMade(Record, frozen=True, kw_only=True):
    """A fork that was made; its run is ready to go on."""

    thread: Thread
    run: RunRecord
    is_state_exact: bool
    """Whether the fork has the state of its point; otherwise the state of the run's end."""


class _Point(msgspec.Struct, frozen=True):
    """A point in what is stored of a run."""

    seq: int
    """The last event before it."""
    kept: int
    """How many messages of the thread come before it."""
    usage: TokenUsage
    done: Sequence[tuple[int, str]]
    """The results of its step that come before it, as event numbers and call ids."""


async def fork_at(
    store: Store,
    clock: Clock,
    ids: IdSource,
    record: RunRecord,
    at: ForkAt,
    *,
    allow_effects: bool = False,
) -> ForkedRunMade:
    """Make a thread and an unfinished run as the run was at a point, in one commit.

    Effects of the fork's calls ask a person first unless `allow_effects`.

    Raises:
        UnknownThread: The run's thread was deleted.
        InvalidInput: The run has no such point.
        CannotReplay: Its log was purged, or it is a workflow's.
    """
    run_id = record.run_id
    if record.is_workflow:
        raise CannotReplay(run_id=run_id, problem="a workflow cannot be forked; reset it instead")
    checkout = await store.checkout(record.thread_id)
    if checkout is None:
        raise UnknownThread(thread_id=record.thread_id)
    events = await list_run_events(store, record)
    if events is None:
        problem = "its log was purged; fork it at its start instead"
        raise CannotReplay(run_id=run_id, problem=problem)
    point = _find_point(record, checkout.messages, events, at)
    found = await _fold_state(store, run_id, at, point)
    thread_state, run_state = (checkout.state, {}) if found is None else found
    space = namespace_in(record.thread_id)
    thread_id, new_id = space + ids.new_id(), space + ids.new_id()
    state = select_state(checkout, thread_state, point.kept)
    if record.active_agent_id is None or ACTIVE_AGENT.name not in state:
        state[ACTIVE_AGENT.name] = ACTIVE_AGENT.encode(record.agent_id)
    active = ACTIVE_AGENT.decode(state[ACTIVE_AGENT.name])
    run = msgspec.structs.replace(
        _build_run(record, at, clock.now_ms(), thread_id, new_id),
        active_agent_id=active if active != record.agent_id else None,
        usage=point.usage,
        purpose=RunKind.CHAT if allow_effects else RunKind.REPLAY,
    )
    # Tickets stay with the original: a call that waits there asks again here.
    run_state.pop(TOOL_CALL_STATES.name, None)
    commit = Commit(
        commit_id=ids.new_id(),
        thread_id=thread_id,
        expected_version=0,
        committed_at=run.created_at,
        thread=_build_thread(checkout, thread_id, point.kept, run.created_at),
        messages=tuple(_rename(it, run_id, new_id) for it in checkout.messages[: point.kept]),
        run=run,
        state={**state},
        run_state={**run_state},
        events=(RunStart(thread_id=thread_id, run_id=new_id, identity=run.identity),),
    )
    receipt = await store.commit(commit)
    assert commit.thread is not None
    thread = msgspec.structs.replace(
        commit.thread, version=receipt.version, message_count=receipt.message_count
    )
    return ForkedRunMade(thread=thread, run=run, is_state_exact=found is not None)


async def _fold_state(
    store: Store, run_id: str, at: ForkAt, point: _Point
) -> tuple[dict[str, StoredValue], dict[str, StoredValue]] | None:
    """Return the state of the thread and of the run at a point; None if it is not known exactly.

    What calls before the point did after the last commit before it is applied on top.
    """
    folded = await store.fold_state(run_id, point.seq)
    if folded.missing is not None:
        return None
    thread_state, run_state = dict(folded.thread), dict(folded.run)
    if point.done:
        found = await store.list_state_changes(run_id)
        base = max((it.event_seq for it in found.changes if it.event_seq <= point.seq), default=0)
        late = [call_id for seq, call_id in point.done if seq > base]
        updates = _list_updates(await store.list_tool_records(run_id), at.step, late)
        if not _apply_updates(thread_state, run_state, updates):
            return None
    return thread_state, run_state


async def fork_and_start(
    engine: RunEngine, record: RunRecord, at: ForkAt, *, allow_effects: bool = False
) -> ForkedRunMade:
    """Fork a stored run at a point, and let the fork go on in this process.

    Raises:
        UnknownThread: The run's thread was deleted.
        InvalidInput: The run has no such point.
        CannotReplay: Its log was purged, or it is a workflow's.
        AwakenError: The fork was made, and cannot begin here.
    """
    services = engine.services
    made = await fork_at(
        engine.store, services.clock, services.ids, record, at, allow_effects=allow_effects
    )
    await engine.start(continuation(made.run))
    return made


async def fork_here(
    view: TenantView, run_id: str, at: ForkAt, *, allow_effects: bool = False
) -> ForkedRunMade:
    """Fork a tenant's run at a point; see `fork_and_start`.

    The fork acts for the caller: whoever forks the run of another does not become that user.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
        AwakenError: It cannot be forked, or the fork cannot begin here.
    """
    stored = await view.stored_run(run_id)
    record = msgspec.structs.replace(stored, user_id=view.principal_id)
    made = await fork_and_start(view.engine, record, at, allow_effects=allow_effects)
    namespace = "" if view.tenant_id is None else namespace_of(view.tenant_id)
    return msgspec.structs.replace(
        made,
        thread=hide_namespace(namespace, made.thread),
        run=hide_namespace(namespace, made.run),
    )


def list_points(record: RunRecord, messages: Sequence[Message]) -> Iterator[ForkAt]:
    """Yield every point of a run at which it can be forked, in the order of the run."""
    _, end, last = find_places(record, messages)
    answers = {
        (it.metadata.step_index or 0) + 1: it
        for it in messages[end:last]
        if it.role is Role.ASSISTANT and it.metadata is not None
    }
    results: dict[int, int] = {}
    for it in messages[end:last]:
        if it.role is Role.TOOL and it.metadata is not None:
            step = (it.metadata.step_index or 0) + 1
            results[step] = results.get(step, 0) + 1
    for number in range(1, max(answers, default=0) + 1):
        yield ForkAt(step=number)
        answer = answers.get(number)
        if answer is not None and answer.tool_calls:
            for count in range(results.get(number, 0) + 1):
                yield ForkAt(step=number, results=count)


def _find_point(
    record: RunRecord, messages: Sequence[Message], events: Sequence[LoggedEvent], at: ForkAt
) -> _Point:
    number = find_first_step(record)
    seq, usage = record.log_start, NO_USAGE
    is_found = number == at.step and at.results is not None
    done: list[tuple[int, str]] = []
    for logged in events:
        event = logged.event
        if isinstance(event, StepStart):
            number += 1
            is_found = is_found or number == at.step
            if number > at.step or (is_found and at.results is None):
                break
        elif isinstance(event, InferenceComplete):
            usage = usage.plus(event.usage)
        call_id = _find_settled(event)
        if is_found and call_id is not None:
            if len(done) == at.results:
                break
            done.append((logged.seq, call_id))
        seq = logged.seq
    kept = _count_kept(record, messages, at, {call_id for _, call_id in done})
    if not is_found or kept is None or (at.results or 0) > len(done):
        point = (
            f"step {at.step}" if at.results is None else f"result {at.results} of step {at.step}"
        )
        problem = f"run '{record.run_id}' has no such point"
        raise InvalidInput(what=f"Fork at {point}", problem=problem)
    return _Point(seq, kept, usage, done)


def _find_settled(event: AgentEvent) -> str | None:
    """Return the call that has its result by an event, or None."""
    if isinstance(event, ToolCallResumed):
        return event.target_id
    if isinstance(event, ToolCallDone) and event.outcome is not ToolCallOutcome.SUSPENDED:
        return event.id
    return None


def _count_kept(
    record: RunRecord, messages: Sequence[Message], at: ForkAt, done: "set[str]"
) -> int | None:
    """Return how many messages come before a point; None if the answer of the step is missing."""
    _, end, last = find_places(record, messages)
    for place in range(end, last):
        message = messages[place]
        index = None if message.metadata is None else message.metadata.step_index
        step = 0 if index is None else index + 1
        if at.results is None:
            if step >= at.step and message.role in (Role.ASSISTANT, Role.TOOL):
                return place
        elif step == at.step and message.role is Role.ASSISTANT:
            kept = place + 1
            while kept < last and messages[kept].tool_call_id in done:
                kept += 1
            return kept
    return last if at.results is None else None


def _list_updates(
    records: Iterable[ToolRecord], step: int, late: Sequence[str]
) -> list[tuple[str, str, Any]]:
    known = {it.call_id: it for it in records if it.step == step}
    return [update for it in late if it in known for update in known[it].updates]


def _apply_updates(
    thread: dict[str, StoredValue],
    run: dict[str, StoredValue],
    updates: Iterable[tuple[str, str, Any]],
) -> bool:
    """Apply what calls did to the state after its last commit; False if a key is not known here."""
    for name, verb, data in updates:
        if verb not in ("update", "clear"):
            continue
        living = list_living_keys(name)
        if len(living) != 1:
            return False
        key = living[0]
        values = thread if key.scope is StateScope.THREAD else run
        if verb == "clear":
            values.pop(name, None)
            continue
        try:
            values[name] = _apply_update(key, values.get(name), data)
        except (StateError, msgspec.ValidationError):
            return False
    return True


def _apply_update(key: StateKey[Any, Any], stored: StoredValue | None, data: Any) -> StoredValue:
    value = key.default if stored is None else key.decode(stored)
    wanted = key.type if key.apply is None else key.update_type
    update = data if wanted is None else msgspec.convert(data, wanted)
    return key.encode(key.apply_update(value, update))


def _build_run(record: RunRecord, at: ForkAt, now: int, thread_id: str, run_id: str) -> RunRecord:
    """Return the record of the fork's run: executing, as if another process had left it."""
    return RunRecord(
        run_id=run_id,
        thread_id=thread_id,
        agent_id=record.agent_id,
        status=RunStatus.RUNNING,
        publication=record.publication,
        overrides=record.overrides,
        tool_choice=record.tool_choice,
        context=record.context,
        instructions=record.instructions,
        input=record.input,
        steps=at.step - 1,
        tenant_id=record.tenant_id,
        user_id=record.user_id,
        created_at=now,
        started_at=now,
        updated_at=now,
        forked_from=ForkedAt(run_id=record.run_id, step=at.step, results=at.results),
    )


def _build_thread(checkout: Checkout, thread_id: str, kept: int, now: int) -> Thread:
    source = checkout.thread
    last = checkout.messages[kept - 1].id if kept else None
    return Thread(
        id=thread_id,
        tenant_id=source.tenant_id,
        resource_id=source.resource_id,
        forked_from=ForkPoint(thread_id=source.id, message_id=last),
        metadata=msgspec.structs.replace(source.metadata, created_at=None),
    ).touch(now)


def _rename(message: Message, was: str, run_id: str) -> Message:
    """Return a message of the original run as one of the fork's run; others are shared."""
    metadata = message.metadata
    if metadata is None or metadata.run_id != was:
        return message
    named = msgspec.structs.replace(metadata, run_id=run_id)
    return msgspec.structs.replace(message, metadata=named)
