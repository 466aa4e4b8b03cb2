"""Input for threads and runs: messages, decisions, interrupts and cancels."""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidResume
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import DeliveryOptions, DispatchStatus, InputMode
from awaken.contracts.suspension.errors import InvalidDecision
from awaken.contracts.suspension.ticket_names import find_by_call, find_by_id
from awaken.contracts.suspension.tickets import Ticket
from awaken.mailbox.receipts import SubmitReceipt
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import MODES, MailboxItem, NewInput, RunInputs, TicketDecision, messages_of
from .views import Accepted, Queued

IDEMPOTENCY_KEY = "idempotency-key"
DEFAULT_AGENT = "default"


async def send_messages(call: RouteCall) -> Reply:
    """Send messages to a thread; under the same `Idempotency-Key` they are sent once."""
    body: NewInput = call.body
    thread = await call.view.thread(call.path["thread_id"])
    agent_id = body.agent_id or (None if thread.latest_run_id else DEFAULT_AGENT)
    await check_agent(call, agent_id)
    request = RunRequest(
        thread_id=thread.id,
        agent_id=agent_id,
        messages=messages_of(body.messages),
        context=body.context,
    )
    receipt = await _send(call, request, MODES[body.mode], "messages")
    is_taken = receipt.status in (DispatchStatus.CLAIMED, DispatchStatus.ACKED)
    ids = {"run_id": receipt.run_id, "dispatch_id": receipt.dispatch_id}
    return _reply_accepted("running" if is_taken else "queued", thread.id, **ids)


async def send_inputs(call: RouteCall) -> Reply:
    """Send messages to a run: a waiting run takes them, else they are sent to its thread."""
    body: RunInputs = call.body
    run = await call.view.run(call.path["run_id"])
    mode = MODES[body.mode]
    if mode is InputMode.QUEUE and run.is_resumable_waiting:
        mode = InputMode.RESUME
    request = RunRequest(
        thread_id=run.thread_id,
        agent_id=None if mode is InputMode.RESUME else run.agent_id or None,
        messages=messages_of(body.messages),
        continue_run_id=run.run_id if mode is InputMode.RESUME else None,
    )
    receipt = await _send(call, request, mode, f"inputs:{run.run_id}")
    ids = {"run_id": run.run_id, "dispatch_id": receipt.dispatch_id}
    return _reply_accepted("inputs_accepted", run.thread_id, **ids)


async def push_mailbox(call: RouteCall) -> Reply:
    """Queue one message, as a run of its own; creates the thread if it does not exist."""
    body: MailboxItem = call.body
    thread_id = call.path["thread_id"]
    thread = await call.view.find_thread(thread_id)
    agent_id = None if thread is not None and thread.latest_run_id else DEFAULT_AGENT
    await check_agent(call, agent_id)
    request = RunRequest(thread_id=thread_id, agent_id=agent_id, messages=(user(_text(body)),))
    receipt = await _send(call, request, InputMode.QUEUE, "mailbox")
    queued = Queued(
        dispatch_id=receipt.dispatch_id, run_id=receipt.run_id, thread_id=receipt.thread_id
    )
    return as_json(queued, 201)


async def decide_on_thread(call: RouteCall) -> Reply:
    """Decide on a call that a thread's run waits for."""
    thread_id = call.path["thread_id"]
    run = await call.view.open_run(thread_id) or await call.view.latest_run(thread_id)
    if run is None:
        raise HttpError(404, "unknown_ticket", f"no run of thread '{thread_id}' waits")
    return await _decide(call, run)


async def decide_on_run(call: RouteCall) -> Reply:
    """Decide on a call that a run waits for."""
    return await _decide(call, await call.view.run(call.path["run_id"]))


async def cancel_run(call: RouteCall) -> Reply:
    """Cancel a run, wherever it executes."""
    run = await call.view.run(call.path["run_id"])
    if not await call.view.cancel_run(run.run_id):
        raise HttpError(404, "nothing_to_cancel", f"run '{run.run_id}' has ended")
    return _reply_accepted("cancel_requested", run.thread_id, run_id=run.run_id)


async def check_agent(call: RouteCall, agent_id: str | None) -> None:
    """Refuse an unknown agent: input that is queued for it would never run.

    Raises:
        UnknownAgent: It is not registered.
    """
    if agent_id is not None:
        await call.view.agent(agent_id)


async def _send(call: RouteCall, request: RunRequest, mode: InputMode, what: str) -> SubmitReceipt:
    """Send input; with a key, a repeat is recognized by its body and its route."""
    key = call.headers.get(IDEMPOTENCY_KEY)
    delivery: DeliveryOptions = {} if key is None else {"dedupe_key": key}
    try:
        return await call.view.send(request, mode, delivery, asked=[what, call.body])
    except InvalidResume as error:
        raise HttpError(404, error.code, str(error)) from error


async def _decide(call: RouteCall, run: RunRecord) -> Reply:
    body: TicketDecision = call.body
    name = body.ticket_id or body.tool_call_id
    if not name:
        message = "name the call that is decided on: ticketId or toolCallId"
        raise HttpError(400, "invalid_input", message)
    find = find_by_id if body.ticket_id else find_by_call

    def find_named(tickets: Sequence[Ticket], named: str) -> Ticket:
        ticket = find(tickets, named)
        if body.tool_call_id not in (None, "", ticket.call_id):
            problem = "ticketId and toolCallId name different calls"
            raise InvalidDecision(what="The decision", problem=problem)
        return ticket

    (receipt,) = await call.view.decide(run, {name: body.resume()}, find_named)
    return _reply_accepted("decision_submitted", **msgspec.structs.asdict(receipt))


def _reply_accepted(status: str, thread_id: str, **rest: Any) -> Reply:
    return as_json(Accepted(status=status, thread_id=thread_id, **rest), 202)


def _text(item: MailboxItem) -> str:
    match item.payload:
        case {"text": str(text)} | str(text):
            return text
        case payload:
            return msgspec.json.encode(payload).decode()
