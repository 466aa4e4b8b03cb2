"""Forking a thread at a message or at a run: a new thread that begins with messages of another.

The other thread is only read. A branch at a message begins with the newest state, and one at a run
with the state that the run found, if the store has kept it. State that belongs to the other thread
alone is left out: its tasks, and its conversations with remote agents.
"""

from collections.abc import Mapping, Sequence

import msgspec

from awaken.contracts.backends.requests import REMOTE_TARGETS
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import RecordNotFound, UnknownThread
from awaken.contracts.identity import normalize_id
from awaken.contracts.messages.message import Message, Role, Visibility, tool_answer
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, BACKEND_OUTPUT
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import ForkPoint, Thread
from awaken.contracts.state.context_state import CONTEXT_STATE
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.store import Checkout, Commit, Store
from awaken.contracts.tasks import BACKGROUND_TASKS
from awaken.contracts.tenancy import namespace_in

NOT_EXECUTED = "[Not executed on this branch]"
_OWN = frozenset(it.name for it in (BACKGROUND_TASKS, REMOTE_TARGETS, BACKEND_OUTPUT))
"""State keys that refer to work of the other thread."""
_NO_ANSWERS: Mapping[str, str] = {}


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """Where to fork, and the results of calls that are open there."""

    at: str | None = None
    """The last message that the branch has; absent: the newest message."""
    before: str | None = None
    """Instead of `at`: the first message that the branch does not have."""
    answers: Mapping[str, str] = _NO_ANSWERS
    """Results for calls that are open at that point, by call id; others count as not executed."""


async def fork_thread(
    store: Store, clock: Clock, ids: IdSource, thread_id: str, fork: Fork
) -> Thread:
    """Make a branch of a thread in one commit; it has no run, no ticket and no lease.

    Raises:
        UnknownThread: There is no such thread.
        RecordNotFound: It has no such message.
    """
    checkout = await store.checkout(thread_id)
    if checkout is None:
        raise UnknownThread(thread_id=thread_id)
    kept = _select_messages(checkout, fork)
    state = select_state(checkout, checkout.state, len(kept))
    made = _build_branch(clock, ids, checkout.thread, kept, fork.answers, state)
    return await _write_branch(store, made)


class ForkedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The branch of a thread before one of its runs, and what the run had as input."""

    thread: Thread
    messages: tuple[Message, ...]
    is_state_exact: bool
    """Whether the branch has the state that the run found; otherwise it has the newest state."""


async def fork_before_run(
    store: Store, clock: Clock, ids: IdSource, record: RunRecord
) -> ForkedRun:
    """Make a branch of a run's thread as it was before the input of the run; see `fork_thread`.

    The branch continues with the run's agent.

    Raises:
        UnknownThread: The thread was deleted.
    """
    checkout = await store.checkout(record.thread_id)
    if checkout is None:
        raise UnknownThread(thread_id=record.thread_id)
    messages, begin, end = checkout.messages, record.input.from_seq, record.input.to_seq
    if begin is None or end is None:
        # It began without input: by a decision, or to go on with what the thread has.
        of_run = (n for n, it in enumerate(messages) if _run_of(it) == record.run_id)
        begin = end = next(of_run, len(messages))
    else:
        begin -= 1
    kept = messages[:begin]
    then = await store.fold_state(record.run_id, record.log_start)
    is_exact = then.missing is None
    state = select_state(checkout, then.thread if is_exact else checkout.state, begin)
    state[ACTIVE_AGENT.name] = ACTIVE_AGENT.encode(record.agent_id)
    made = _build_branch(clock, ids, checkout.thread, kept, _NO_ANSWERS, state)
    return ForkedRun(
        thread=await _write_branch(store, made),
        messages=tuple(messages[begin:end]),
        is_state_exact=is_exact,
    )


def _build_branch(
    clock: Clock,
    ids: IdSource,
    source: Thread,
    kept: Sequence[Message],
    answers: Mapping[str, str],
    state: dict[str, StoredValue],
) -> Commit:
    """Return the commit that makes a branch; `answers` are those of `Fork`."""
    now = clock.now_ms()
    point = ForkPoint(thread_id=source.id, message_id=kept[-1].id if kept else None)
    branch = Thread(
        id=namespace_in(source.id) + ids.new_id(),
        tenant_id=source.tenant_id,
        resource_id=source.resource_id,
        forked_from=point,
        metadata=msgspec.structs.replace(source.metadata, created_at=None),
    ).touch(now)
    return Commit(
        commit_id=ids.new_id(),
        thread_id=branch.id,
        expected_version=0,
        committed_at=now,
        thread=branch,
        messages=_whole(kept, answers, ids),
        state={**state},
    )


async def _write_branch(store: Store, commit: Commit) -> Thread:
    receipt, branch = await store.commit(commit), commit.thread
    assert branch is not None
    return msgspec.structs.replace(
        branch, version=receipt.version, message_count=receipt.message_count
    )


def _select_messages(checkout: Checkout, fork: Fork) -> Sequence[Message]:
    messages, wanted = checkout.messages, fork.before or fork.at
    if wanted is None:
        return messages
    places = (place for place, message in enumerate(messages) if message.id == wanted)
    place = next(places, None)
    if place is None:
        raise RecordNotFound(kind="Message", record_id=wanted)
    return messages[: place + 1] if fork.before is None else messages[: _begin(messages, place)]


def _begin(messages: Sequence[Message], place: int) -> int:
    """Return where the input of a message begins, including hidden messages for the model."""
    run_id = _run_of(messages[place])
    while place and _is_hidden_input(messages[place - 1], run_id):
        place -= 1
    return place


def _is_hidden_input(message: Message, run_id: str | None) -> bool:
    is_hidden = message.role is Role.SYSTEM and message.visibility is Visibility.INTERNAL
    return is_hidden and run_id is not None and _run_of(message) == run_id


def _run_of(message: Message) -> str | None:
    return None if message.metadata is None else message.metadata.run_id


def _whole(
    kept: Sequence[Message], answers: Mapping[str, str], ids: IdSource
) -> tuple[Message, ...]:
    """Return the messages, with a result added for each open call."""
    # Only in the last turn: some models use the same call ids in every step.
    turn = kept[_last_turn(kept) :]
    answered = {message.tool_call_id for message in turn if message.role is Role.TOOL}
    calls = [call.id for message in turn for call in message.tool_calls or ()]
    added = [
        msgspec.structs.replace(
            tool_answer(call_id, answers.get(call_id, NOT_EXECUTED)), id=ids.new_id()
        )
        for call_id in calls
        if call_id not in answered
    ]
    return (*kept, *added)


def _last_turn(kept: Sequence[Message]) -> int:
    """Return the place of the latest answer; every call before it has its result."""
    places = (place for place in reversed(range(len(kept))) if kept[place].role is Role.ASSISTANT)
    return next(places, 0)


def select_state(
    checkout: Checkout, values: Mapping[str, StoredValue], count: int
) -> dict[str, StoredValue]:
    """Return the state of a branch with so many messages, without what is the thread's alone."""
    state = {name: value for name, value in values.items() if name not in _OWN}
    if (stored := state.get(CONTEXT_STATE.name)) is not None:
        context = CONTEXT_STATE.decode(stored)
        cut = context.cut if context.cut is not None and context.cut.place < count else None
        marks = tuple(mark for mark in context.marks if mark.place < count)
        kept = msgspec.structs.replace(context, marks=marks, cut=cut)
        state[CONTEXT_STATE.name] = CONTEXT_STATE.encode(kept)
    latest = checkout.latest_run
    if ACTIVE_AGENT.name not in state and latest is not None and normalize_id(latest.agent_id):
        # A branch has no run that names its agent.
        state[ACTIVE_AGENT.name] = ACTIVE_AGENT.encode(latest.agent_id)
    return state
