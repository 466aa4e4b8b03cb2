"""Starts or resumes a run for a request, and finds its thread.

The thread is the one that the request names (`conversation`, `X-Thread-Id`), where only messages
after the last answer are new; with `previous_response_id` that of the response, or a fork; else
that of the waiting run whose calls it answers (call ids end with `~` and the run's id); else a new
one with the client's history. A waiting run takes all its answers at once, or none. Each reply
names its thread in `X-Thread-Id`. Everything is stored, whatever `store` says.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from urllib.parse import quote, unquote

import msgspec
from msgspec.structs import replace

from awaken.contracts import errors, lifecycle
from awaken.contracts.identity import RunMode
from awaken.contracts.messages.message import Message, Role, system
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage import queries
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import DeleteStrategy
from awaken.contracts.suspension.tickets import Asks, Ticket, ToolCallResume
from awaken.runtime.admission.forks import Fork
from awaken.services.view import StartedRun
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .answer import inside_id, outside_id
from .decode import is_own_call
from .previous import Previous, last_message
from .wire import bad_request

RUNS_MAX = 20
"""How many runs the answers of one request may name; at most one of them still waits."""
Answers = Mapping[str, ToolCallResume]
"""The client's answers, by its ids of calls and approvals."""

Begun = tuple[StartedRun, int | None]
"""A run, and the start of its answer in the log; None is the start of the run."""


def thread_header(thread_id: str) -> tuple[tuple[bytes, bytes]]:
    """The header that names the thread of a reply."""
    return ((b"x-thread-id", quote(thread_id).encode()),)


def read_thread_header(call: RouteCall) -> str | None:
    """The thread that the client names in a header."""
    return unquote(call.headers.get("x-thread-id", "")) or None


async def check_model(call: RouteCall, model_id: str) -> None:
    """Refuse a model that is not an agent.

    Raises:
        HttpError: There is no such agent.
    """
    try:
        await call.view.agent(model_id)
    except errors.UnknownAgent as error:
        raise HttpError(404, "model_not_found", f"There is no agent '{model_id}'.") from error


async def begin(
    call: RouteCall,
    asked: RunRequest,
    approvals: Answers,
    instructions: str,
    mode: InputMode,
    previous: Previous | None = None,
) -> Begun:
    """Start a run or queue it, or resume a run that waits for the answers.

    Raises:
        HttpError: The request has nothing new, or answers are missing.
        AwakenError: The run cannot be started; nothing was written.
    """
    view = call.view
    await check_model(call, asked.agent_id or "")
    history, results, fresh = _split_messages(asked.messages)
    outputs = {it.tool_call_id or "": _output(it) for it in results}
    answers = {**outputs, **approvals}
    if previous is not None:
        if _hears(previous.run, fresh, answers):
            return await _tell_workflow(
                call, replace(asked, messages=tuple(fresh)), previous.run, mode
            )
        if previous.waits:
            with suppress(errors.AlreadyDecided, errors.InvalidResume):
                return await _resume_run(call, previous.run, (outputs, approvals), fresh)
        if not (fresh or results):
            raise bad_request("There is nothing new.")
        if instructions and not await _has_instructions(call, previous.thread.id, instructions):
            fresh = [system(instructions), *fresh]
        asked = replace(asked, messages=tuple(fresh))
        given = {inside_id(it.tool_call_id or ""): it.text for it in results}
        return await _continue(call, asked, previous, given, mode)
    thread = None if asked.thread_id is None else await view.find_thread(asked.thread_id)
    waiting = await _find_waiting_run(call, thread, answers if asked.thread_id is None else ())
    if waiting is not None and _hears(waiting, fresh, answers):
        return await _tell_workflow(call, replace(asked, messages=tuple(fresh)), waiting, mode)
    if waiting is not None:
        return await _resume_run(call, waiting, (outputs, approvals), fresh)
    is_kept = asked.thread_id is None and bool(history)
    if (results and not is_kept) or not (fresh or results):
        named = ", ".join(islice(answers, 5)) or "it"
        raise bad_request(f"There is nothing new; no call waits for {named}.")
    if is_kept:
        asked = await view.begin_thread(_pair_results([*history, *results]), asked)
    on = asked.thread_id
    if instructions and not (on and await _has_instructions(call, on, instructions)):
        fresh = [system(instructions), *fresh]
    asked = replace(asked, messages=tuple(fresh))
    return await _start(call, asked, mode), None


def _hears(run: RunRecord, fresh: Sequence[Message], answers: Answers) -> bool:
    """Whether what is said is an event of a waiting workflow: it asks for no answer first."""
    is_waiting = run.is_workflow and run.status is lifecycle.RunStatus.WAITING
    return is_waiting and bool(fresh) and not answers


async def _tell_workflow(
    call: RouteCall, asked: RunRequest, run: RunRecord, mode: InputMode
) -> Begun:
    thread = await call.view.thread(run.thread_id)
    return await _start(call, replace(asked, thread_id=thread.id), mode), thread.event_seq


async def _continue(
    call: RouteCall,
    asked: RunRequest,
    previous: Previous,
    answers: Mapping[str, str],
    mode: InputMode,
) -> Begun:
    """Continue the thread if nothing came after the response, else a fork of it."""
    view, thread = call.view, previous.thread
    if previous.is_newest and not answers and mode is not InputMode.QUEUE:
        here = replace(asked, thread_id=thread.id, expected_messages=thread.message_count)
        # Another request may continue from the same response at the same moment.
        with suppress(errors.ThreadBusy, errors.VersionConflict):
            return await view.start(here), None
    end = await last_message(call, previous)
    branch = await view.fork(thread.id, Fork(at=end, answers=answers))
    try:
        return await _start(call, replace(asked, thread_id=branch.id), mode), None
    except errors.AwakenError:
        await view.delete_thread(branch.id, DeleteStrategy.DETACH)
        raise


async def _start(call: RouteCall, asked: RunRequest, mode: InputMode) -> StartedRun:
    view = call.view
    if mode is not InputMode.QUEUE:
        return await view.start(asked)
    receipt = await view.send(replace(asked, run_mode=RunMode.BACKGROUND), mode)
    stream = await view.follow_run(receipt.run_id)
    return StartedRun(run_id=receipt.run_id, thread_id=receipt.thread_id, stream=stream)


def _split_messages(messages: Sequence[Message]) -> tuple[list[Message], ...]:
    """Split messages into the history up to the last answer, new results and new messages."""
    end = max((at for at, it in enumerate(messages, 1) if _is_past(it)), default=0)
    results = [it for it in messages[end:] if it.role is Role.TOOL]
    fresh = [it for it in messages[end:] if it.role is not Role.TOOL]
    return list(messages[:end]), results, fresh


def _is_past(message: Message) -> bool:
    is_own_result = message.role is Role.TOOL and is_own_call(message.tool_call_id)
    return message.role is Role.ASSISTANT or is_own_result


def _output(message: Message) -> ToolCallResume:
    """Read the output of a client's tool; in this protocol it is always text."""
    return ToolCallResume(decision_id="", result=message.text, is_text=True)


async def _find_waiting_run(
    call: RouteCall, thread: Thread | None, answers: Iterable[str]
) -> RunRecord | None:
    """Find the waiting run: on the named thread, else the one that the answers name."""
    named = {name.rpartition("~")[2] for name in answers if "~" in name}
    if len(named) > RUNS_MAX:
        raise bad_request(f"The outputs are for more than {RUNS_MAX} responses; send one's.")
    for run_id in named if thread is None else {thread.open_run_id}:
        with suppress(errors.UnknownRun):
            record = await call.view.run(run_id or "")
            if record.status is lifecycle.RunStatus.WAITING:
                return record
    return None


async def _resume_run(
    call: RouteCall, waiting: RunRecord, answers: tuple[Answers, Answers], fresh: list[Message]
) -> Begun:
    view, run_id = call.view, waiting.run_id
    thread = await view.thread(waiting.thread_id)
    tickets = [it for it in await view.tickets(thread.id) if it.run_id == run_id]
    if not tickets and not fresh:
        raise bad_request("There is nothing new; the run waits for a message or its own tasks.")
    decisions = {it.ticket_id: _decision(call, it, *answers) for it in tickets}
    request = RunRequest(messages=tuple(fresh))
    stream = await view.decide_and_follow(waiting, decisions, request)
    return StartedRun(run_id=run_id, thread_id=thread.id, stream=stream), thread.event_seq


def _decision(
    call: RouteCall, ticket: Ticket, outputs: Answers, approvals: Answers
) -> ToolCallResume:
    """Find the answer to a ticket: outputs answer calls, approvals answer approval requests.

    A ticket that is shown as a call is answered by an output with the call's id; an output never
    answers a ticket that is shown as an approval request.
    """
    is_answer = ticket.question_kind is Asks.ANSWER
    own = ticket.call_id if is_answer else ticket.ticket_id
    answers, public = outputs if is_answer else approvals, outside_id(own, ticket.run_id)
    given = answers.get(public) or answers.get(own)
    if given is None:
        what = "tool output found for function call" if is_answer else "answer found for approval"
        raise bad_request(f"No {what} {public}.", "missing_output")
    call.check_may_answer([ticket], [given])
    if is_answer and ticket.suspension.response_schema is not None:
        with suppress(msgspec.DecodeError):
            return replace(given, result=msgspec.json.decode(str(given.result)))
    return given


async def _has_instructions(call: RouteCall, thread_id: str, instructions: str) -> bool:
    """Whether the thread has these instructions from an earlier turn."""
    query = queries.MessageQuery(order=queries.Order.DESC, limit=queries.LIMIT_MAX)
    known = [it.message for it in (await call.view.messages(thread_id, query)).items]
    return any(it.role is Role.SYSTEM and it.text == instructions for it in known)


def _pair_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put each call's result right after it; calls and results without a partner are dropped."""
    results = {it.tool_call_id: it for it in messages if it.role is Role.TOOL}
    sound: list[Message] = []
    for message in messages:
        found = {it.id: it for it in message.tool_calls or () if it.id.strip() and it.id in results}
        if message.role is not Role.TOOL and (found or message.content):
            sound.append(replace(message, tool_calls=tuple(found.values()) or None))
            sound += [results.pop(call_id) for call_id in found]
    return tuple(sound)
