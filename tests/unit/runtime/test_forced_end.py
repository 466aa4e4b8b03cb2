"""A run that is ended by force leaves behind what a normal end leaves, from the store alone."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken.contracts.errors import LeaseLost, VersionConflict
from awaken.contracts.events import RunFinish, RunStart, StepEnd, ToolCallDone
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, TicketStatus
from awaken.contracts.messages.message import (
    MessageMetadata,
    ToolCall,
    assistant,
    tool_answer,
    user,
)
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, PENDING_MESSAGES
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting, WaitingReason
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Checkout, Commit, CommitReceipt
from awaken.contracts.suspension.tickets import Ticket
from awaken.runtime.journal.bookmark import Answered, Bookmark, encode_bookmark
from awaken.runtime.suspension.forced_end import Ending, build_forced_end, never_begun
from awaken.stores.memory import MemoryStore
from awaken.testing import assert_valid_events, assert_valid_transcript
from awaken.testing.fakes import SequentialIds

from .worlds import runtime_of

CALLS = (ToolCall(id="c1", name="x"), ToolCall(id="c2", name="y"))
RUN = RunRecord(run_id="r", thread_id="t", agent_id="gone", status=RunStatus.RUNNING, steps=2)
MARK = Bookmark(step=3, is_step_open=True, message_id="m", answer=Answered())


CANCELLED = Cancelled(cause="user")


def ending(termination: Any = CANCELLED, **more: Any) -> Ending:
    return Ending(termination=termination, now_ms=7, ids=SequentialIds(), **more)


def view(run: RunRecord = RUN, **more: Any) -> Checkout:
    messages = (user("go"), assistant("let me see", CALLS), tool_answer("c1", "one"))
    fields = {
        "thread": Thread(id="t", version=4),
        "messages": messages,
        "open_run": msgspec.structs.replace(run, bookmark=encode_bookmark(MARK)),
    }
    return Checkout(**(fields | more))


def test_every_open_call_is_answered_and_the_log_ends_as_it_should() -> None:
    commit = build_forced_end(view(), ending(token="token", release=Release()))
    assert commit is not None
    (answer,) = commit.messages
    assert (answer.tool_call_id, answer.text) == ("c2", "[The run was cancelled]")
    assert answer.metadata == MessageMetadata(run_id="r", step_index=2)
    assert [type(event) for event in commit.events] == [ToolCallDone, StepEnd, RunFinish]
    assert commit.run is not None
    assert (commit.run.status, commit.run.steps) == (RunStatus.DONE, 3)
    assert commit.run.termination == Cancelled(cause="user")
    assert commit.run.final_output == "let me see"
    assert (commit.expected_version, commit.fencing_token) == (4, "token")
    assert commit.release == Release()
    assert_valid_transcript([*view().messages, *commit.messages])


def test_a_failure_says_that_calls_were_interrupted() -> None:
    commit = build_forced_end(view(), ending(Failed(message="given up")))
    assert commit is not None
    assert [it.text for it in commit.messages] == ["[Tool execution was interrupted]"]


def test_open_tickets_are_closed_decided_ones_are_left_and_held_messages_are_kept() -> None:
    waiting = Waiting(reason=WaitingReason.TOOL_PERMISSION)
    run = RunRecord(
        run_id="r", thread_id="t", agent_id="gone", status=RunStatus.WAITING, waiting=waiting
    )
    tickets = (
        Ticket(ticket_id="1", thread_id="t", run_id="r", call_id="c2", tool_name="y"),
        Ticket(
            ticket_id="0",
            thread_id="t",
            run_id="r",
            call_id="c1",
            tool_name="x",
            status=TicketStatus.DECIDED,
        ),
    )
    held = {PENDING_MESSAGES.name: PENDING_MESSAGES.encode((user("and this"),))}
    commit = build_forced_end(view(run, tickets=tickets, run_state=held), ending())
    assert commit is not None
    assert [(it.ticket_id, it.status, it.closed_because) for it in commit.tickets] == [
        ("1", TicketStatus.CLOSED, "cancelled")
    ]
    assert [it.text for it in commit.messages] == ["[The run was cancelled]", "and this"]
    assert all(it.id for it in commit.messages)
    assert [type(event) for event in commit.events] == [RunStart, ToolCallDone, RunFinish]
    assert commit.run is not None
    assert commit.run.waiting is None


def test_a_held_message_whose_id_is_used_gets_another_one_so_that_the_run_can_end() -> None:
    said, again = (msgspec.structs.replace(user(it), id="used") for it in ("go", "and this"))
    held = {PENDING_MESSAGES.name: PENDING_MESSAGES.encode((again,))}
    commit = build_forced_end(view(messages=(said,), run_state=held), ending())
    assert commit is not None
    assert [(it.text, it.id == "used") for it in commit.messages] == [("and this", False)]


def test_a_thread_without_an_open_run_has_nothing_to_end() -> None:
    assert build_forced_end(Checkout(thread=Thread(id="t")), ending()) is None


def test_a_run_that_never_began_gets_a_record_that_says_how_it_ended() -> None:
    dispatch = RunDispatch(
        dispatch_id="d", thread_id="t", run_id="r", request=RunRequest(agent_id="a")
    )
    release = Release(status=DispatchStatus.DEAD_LETTER, error="no")
    commit = never_begun(None, dispatch, ending(token="token", release=release))
    assert commit.run is not None
    assert (commit.run.run_id, commit.run.agent_id, commit.run.dispatch_id) == ("r", "a", "d")
    assert commit.messages == ()
    assert [type(event) for event in commit.events] == [RunStart, RunFinish]
    assert_valid_events(list(commit.events))
    assert (commit.release, commit.state) == (release, {})


@pytest.mark.parametrize(("stored", "kept"), [(None, "billing"), ("sales", None)])
def test_a_run_that_never_began_leaves_the_thread_to_its_agent(
    stored: str | None, kept: str | None
) -> None:
    latest = RunRecord(run_id="r0", thread_id="t", agent_id="front", active_agent_id="billing")
    state = {} if stored is None else {ACTIVE_AGENT.name: ACTIVE_AGENT.encode(stored)}
    checkout = Checkout(thread=Thread(id="t"), state=state, latest_run=latest)
    request = RunRequest(agent_id="gone")
    dispatch = RunDispatch(dispatch_id="d", thread_id="t", run_id="r", request=request)
    written = never_begun(checkout, dispatch, ending()).state.get(ACTIVE_AGENT.name)
    assert (None if written is None else ACTIVE_AGENT.decode(written)) == kept


class Contested(MemoryStore):
    """Refuses the first commits that end a run, as if somebody were faster."""

    def __init__(self, conflicts: int) -> None:
        super().__init__()
        self.conflicts = conflicts

    async def commit(self, commit: Commit) -> CommitReceipt:
        if commit.run is not None and commit.run.status is RunStatus.DONE and self.conflicts:
            self.conflicts -= 1
            raise VersionConflict(thread_id="t", expected=0, actual=1)
        return await super().commit(commit)


@pytest.mark.parametrize(("token", "error"), [(None, None), ("stale", LeaseLost)])
def test_whoever_has_no_claim_tries_again_when_somebody_was_faster(
    token: str | None, error: type[Exception] | None
) -> None:
    async def scenario() -> RunRecord | None:
        store = Contested(2 if error is None else 0)
        await store.commit(
            Commit(commit_id="1", thread_id="t", expected_version=0, committed_at=0, run=RUN)
        )
        runtime = runtime_of()
        engine = type(runtime._engine)(store, runtime.registry, runtime._engine.services)
        assert await engine.endings.end("unknown", Cancelled()) is None
        return await engine.endings.end("t", Cancelled(), token=token)

    if error is not None:
        with pytest.raises(error):
            asyncio.run(scenario())
        return
    record = asyncio.run(scenario())
    assert record is not None
    assert record.status is RunStatus.DONE
