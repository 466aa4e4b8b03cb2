"""Continuing a run by another request: what the request changes, and when it is refused."""

from collections.abc import Mapping

import msgspec

from awaken.contracts.backends.backend import BackendCapabilities, check_root_request
from awaken.contracts.errors import InvalidResume, UnsupportedFeature
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.models.budgets import RUN_LEDGER
from awaken.contracts.plugins.loop_state import (
    STOP_STATS,
    TOOL_CALL_STATES,
    StopStats,
)
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.store import Checkout, Store
from awaken.contracts.suspension.tickets import Ticket, ToolCallState
from awaken.runtime.journal.bookmark import read_bookmark
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.run import Run
from awaken.runtime.state.store import StateStore
from awaken.runtime.suspension.recovery import restore


class CannotGoOn(UnsupportedFeature):
    """A message arrived for a run that waits at a backend without state between turns."""

    template = (
        "agent '{agent_id}' backend does not support: {features}; run '{run_id}' cannot go on: "
        "send the message without naming the run and a new one begins, or cancel it"
    )
    run_id: str


def check_capabilities(
    capabilities: BackendCapabilities,
    agent_id: str,
    request: RunRequest,
    previous: RunRecord | None,
) -> None:
    """Refuse a request that the agent's backend cannot serve, before anything is written.

    Raises:
        UnsupportedFeature: Names every missing capability.
        CannotGoOn: Only resuming the run is unsupported; a new run could start.
    """
    # A recovered run needs no more capabilities of its backend than it did before.
    continues = previous is not None and previous.status is not RunStatus.RUNNING
    try:
        check_root_request(capabilities, agent_id, request, continues=continues)
    except UnsupportedFeature as error:
        is_message = bool(request.messages) and not request.is_quiet
        if previous is None or error.features != "continuation" or not is_message:
            raise
        features, run_id = error.features, previous.run_id
        raise CannotGoOn(agent_id=agent_id, features=features, run_id=run_id) from None


async def check_queued_start(store: Store, agent: ResolvedAgent, request: RunRequest) -> None:
    """Refuse a request for later with which no run of its agent could begin.

    A request may also continue the open run of its thread, which has a context; to that of a
    workflow its messages are events.

    Raises:
        InvalidContext: The context does not fit.
        InvalidWorkflowInput: The messages do not fit the parameters of the workflow.
    """
    continues = False
    if request.thread_id is not None and (request.context is None or agent.workflow is not None):
        checkout = await store.checkout(request.thread_id)
        continues = checkout is not None and checkout.open_run is not None
    if agent.context is not None and not (continues and request.context is None):
        agent.context.decode(agent.spec.id, request.context)
    if agent.workflow is not None and not continues:
        agent.workflow.read_arguments(request.messages)


def continue_record(request: RunRequest, previous: RunRecord) -> RunRecord:
    """Return the record of a continued run, with the dispatch whose input it has taken in.

    A run that waited resumes by another request and takes over that request's session and
    transport. Messages from tasks and other agents come from no session. With a message of another
    user it acts for that user from then on: what it finds and spends is not the first one's.
    """
    dispatch_id = request.dispatch_id or previous.dispatch_id
    is_told = bool(request.messages) and all(it.sender is not None for it in request.messages)
    if previous.status is not RunStatus.WAITING or is_told:
        return msgspec.structs.replace(previous, dispatch_id=dispatch_id)
    user_id = (request.user_id if request.messages else None) or previous.user_id
    record = msgspec.structs.replace(
        previous,
        dispatch_id=dispatch_id,
        session_id=request.session_id,
        transport_request_id=request.transport_request_id,
        user_id=user_id,
    )
    if user_id != previous.user_id and not previous.begun_by:
        # The code of a workflow sees the first one in every replay: its recorded steps may name
        # that user. And nothing that the first one said is taken for words of the other.
        record = msgspec.structs.replace(record, begun_by=(previous.user_id,))
    return record


def carry_over(run: Run, previous: RunRecord, answer: Message | None) -> Run:
    """Restore what a continued run has from its earlier activation."""
    run.is_continued = previous.status is RunStatus.WAITING
    # Messages that were sent to a task while it was not executing are for this run only.
    run.has_input = previous.task is not None
    if answer is not None:
        # It is still in the step of its latest answer, which the stop rules check.
        run.response, run.step.calls = answer.text, answer.tool_calls or ()
    return run


def continue_identity(request: RunRequest, record: RunRecord, agent_id: str) -> RunIdentity:
    """Return the identity of a run while it executes for a request."""
    return msgspec.structs.replace(
        record.identity,
        active_agent_id=agent_id if agent_id != record.agent_id else None,
        dispatch_id=request.dispatch_id,
        session_id=request.session_id,
        transport_request_id=request.transport_request_id,
        run_mode=request.run_mode,
        adapter=request.adapter,
    )


def restore_counters(state: StateStore, record: RunRecord) -> tuple[StopStats, int]:
    """Return the run's counters, and how long it has executed before."""
    stats: StopStats = state.get(STOP_STATS)
    if not stats.rounds and record.steps:
        stats = msgspec.structs.replace(stats, rounds=record.steps)
    if RUN_LEDGER.name not in state.values:
        return stats, stats.active_ms
    # After a crash in a step the ledger has counted time that the statistics have not.
    return stats, max(stats.active_ms, state.get(RUN_LEDGER).spent.ms)


def own_tickets(
    checkout: Checkout, agent: ResolvedAgent, open_calls: Mapping[str, ToolCall], state: StateStore
) -> dict[str, Ticket]:
    """Return the tickets that the run can act on, by call, and set their calls' states."""
    # The questions of a remote agent are about calls that only the remote side knows.
    # The transcript has no open calls of a workflow, whose branches suspend independently.
    was_workflow = checkout.open_run is not None and checkout.open_run.is_workflow
    is_model = agent.is_local and agent.workflow is None and not was_workflow
    is_known = open_calls.__contains__ if is_model else lambda _: True
    tickets = {ticket.call_id: ticket for ticket in checkout.tickets if is_known(ticket.call_id)}
    if tickets:
        state.update(TOOL_CALL_STATES, tuple(map(ToolCallState.of, tickets.values())))
    return tickets


def stays_with_agent(request: RunRequest, checkout: Checkout, previous: RunRecord) -> bool:
    """Whether a continued run starts with work that its current agent has left."""
    if previous.is_workflow:
        return True
    if previous.status is not RunStatus.WAITING:
        return previous.status is RunStatus.RUNNING
    if request.decisions or any(it.status is TicketStatus.DECIDED for it in checkout.tickets):
        return True
    # A message from a person supersedes the calls, with any agent.
    return all(message.sender is not None for message in request.messages)


async def find_continued(store: Store, request: RunRequest, checkout: Checkout) -> RunRecord | None:
    """Return the run that the request continues: the one it names, else a waiting one."""
    wanted = request.continue_run_id
    waiting = checkout.open_run
    if waiting is not None and waiting.waiting is not None:
        # A held run goes on where it was: it has another publication, or is usable here.
        waiting = waiting.release_hold()
    if wanted is None:
        if request.run_id_hint or request.dispatch_id_hint:
            return None
        return waiting if waiting is not None and waiting.is_resumable_waiting else None
    if waiting is not None and waiting.run_id == wanted:
        if request.decisions and not waiting.is_resumable_waiting:
            raise InvalidResume(run_id=wanted, problem="it is not waiting")
        return waiting
    record = await store.load_run(wanted)
    if record is None or record.thread_id != checkout.thread.id:
        raise InvalidResume(run_id=wanted, problem="it does not exist on this thread")
    if record.status is RunStatus.DONE:
        raise InvalidResume(run_id=wanted, problem="it has ended")
    return record


async def restore_left_run(
    store: Store, run: Run, previous: RunRecord | None, checkout: Checkout
) -> None:
    """Set a run to the point where another process left it, and cancel one that has to be."""
    if previous is None:
        return
    run_id = run.identity.run_id
    if previous.status is RunStatus.RUNNING:
        restore(
            run,
            read_bookmark(run.record.bookmark),
            # A workflow loads the records of all its steps itself.
            () if run.agent.workflow else await store.list_tool_records(run_id),
            await store.find_checkpoint(run_id) if store.is_shared else None,
        )
    if checkout.cancel_cause is not None:
        run.token.cancel(checkout.cancel_cause)
