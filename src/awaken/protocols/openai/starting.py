"""From a request to a run, and which thread it is for.

In both APIs: the one that it names (`previous_response_id`, `conversation`, `X-Thread-Id`), where
only what comes after the last answer is new; else that of the waiting run whose calls it answers,
for call ids end with `~` and the run's id; else a new one, which begins with the history that the
client sends. A run that waits takes all its answers at once, or none. Each reply names its thread
in `X-Thread-Id`. Everything is stored, whatever `store` says.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from urllib.parse import quote, unquote

from msgspec.structs import replace

from awaken.contracts import errors, lifecycle, queries
from awaken.contracts.dispatch import InputMode
from awaken.contracts.messages import Message, Role, system
from awaken.contracts.runs import RunRecord, RunRequest
from awaken.contracts.suspension import Ticket, ToolCallResume
from awaken.contracts.threads import Thread
from awaken.services.view import StartedRun
from awaken.transport.problems import Problem
from awaken.transport.routes import Call

from .answer import outside_id
from .wire import bad_request

RUNS_MAX = 20
"""How many runs the answers of one request may name; all but one of them are over."""
Answers = Mapping[str, ToolCallResume]
"""What a client answers, by the ids that it has for calls and approvals."""

Begun = tuple[StartedRun, int | None]
"""A run that answers, and where in the log its answer begins; None is the run's beginning."""


def thread_header(thread_id: str) -> tuple[tuple[bytes, bytes]]:
    """Tells a client which thread it talks on."""
    return ((b"x-thread-id", quote(thread_id).encode()),)


def named_thread(call: Call) -> str | None:
    """The thread that a client wants to talk on."""
    return unquote(call.headers.get("x-thread-id", "")) or None


async def begin(
    call: Call, asked: RunRequest, approvals: Answers, instructions: str, mode: InputMode
) -> Begun:
    """Start a run now or queue it, or let one go on that waits for the answers.

    Raises:
        Problem: The request makes no sense, or answers are missing.
        AwakenError: The run cannot be started; nothing was written.
    """
    view = call.view
    if asked.agent_id not in view.agents():
        raise Problem(404, "model_not_found", f"There is no agent '{asked.agent_id}'.")
    history, results, fresh = _divided(asked.messages)
    answers = {**{it.tool_call_id or "": _output(it) for it in results}, **approvals}
    thread = None if asked.thread_id is None else await view.find_thread(asked.thread_id)
    waiting = await _waiting(call, thread, answers if asked.thread_id is None else ())
    if waiting is not None:
        return await _go_on(call, waiting, answers, fresh)
    is_kept = asked.thread_id is None and bool(history)
    if (results and not is_kept) or not (fresh or results):
        named = ", ".join(islice(answers, 5)) or "it"
        raise bad_request(f"There is nothing new; no call waits for {named}.")
    if is_kept:
        thread = await view.begin_thread(_sound([*history, *results]))
        asked = replace(asked, thread_id=thread.id)
    if instructions and not (thread and await _is_told(call, thread.id, instructions)):
        fresh = [system(instructions), *fresh]
    asked = replace(asked, messages=tuple(fresh))
    if mode is not InputMode.QUEUE:
        return await view.start(asked), None
    receipt = await view.send(asked, mode)
    stream = await view.follow_run(receipt.run_id)
    return StartedRun(run_id=receipt.run_id, thread_id=receipt.thread_id, stream=stream), None


def _divided(messages: Sequence[Message]) -> tuple[list[Message], ...]:
    """The history up to the last answer, then the results and the messages that are new."""
    end = max((at for at, it in enumerate(messages, 1) if it.role is Role.ASSISTANT), default=0)
    results = [it for it in messages[end:] if it.role is Role.TOOL]
    fresh = [it for it in messages[end:] if it.role is not Role.TOOL]
    return list(messages[:end]), results, fresh


def _output(message: Message) -> ToolCallResume:
    return ToolCallResume(decision_id="", result=message.text)


async def _waiting(call: Call, thread: Thread | None, answers: Iterable[str]) -> RunRecord | None:
    """The run that waits: on the thread that is named, else the one that the answers name."""
    named = {name.rpartition("~")[2] for name in answers if "~" in name}
    if len(named) > RUNS_MAX:
        raise bad_request(f"The outputs are for more than {RUNS_MAX} responses; send one's.")
    for run_id in named if thread is None else {thread.open_run_id}:
        with suppress(errors.UnknownRun):
            record = await call.view.run(run_id or "")
            if record.status is lifecycle.RunStatus.WAITING:
                return record
    return None


async def _go_on(call: Call, waiting: RunRecord, answers: Answers, fresh: list[Message]) -> Begun:
    view, run_id = call.view, waiting.run_id
    thread = await view.thread(waiting.thread_id)
    tickets = [it for it in await view.tickets(thread.id) if it.run_id == run_id]
    if not tickets and not fresh:
        raise bad_request("There is nothing new; the run waits for a message or its own tasks.")
    decisions = {it.ticket_id: _decision(call, it, answers) for it in tickets}
    request = RunRequest(messages=tuple(fresh))
    stream = await view.decide_and_follow(waiting, decisions, request)
    return StartedRun(run_id=run_id, thread_id=thread.id, stream=stream), thread.event_seq


def _decision(call: Call, ticket: Ticket, answers: Answers) -> ToolCallResume:
    public = outside_id(ticket.call_id, ticket.run_id)
    given = answers.get(public) or answers.get(ticket.call_id)
    if given is None:
        raise bad_request(f"No tool output found for function call {public}.", "missing_output")
    call.check_may_answer([ticket], [given])
    return given


async def _is_told(call: Call, thread_id: str, instructions: str) -> bool:
    """Whether the thread has the instructions from an earlier turn."""
    query = queries.MessageQuery(order=queries.Order.DESC, limit=queries.LIMIT_MAX)
    known = [it.message for it in (await call.view.messages(thread_id, query)).items]
    return any(it.role is Role.SYSTEM and it.text == instructions for it in known)


def _sound(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The history, in which each call has its one result right behind it, without the rest."""
    results = {it.tool_call_id: it for it in messages if it.role is Role.TOOL}
    sound: list[Message] = []
    for message in messages:
        found = {it.id: it for it in message.tool_calls or () if it.id.strip() and it.id in results}
        if message.role is not Role.TOOL and (found or message.content):
            sound.append(replace(message, tool_calls=tuple(found.values()) or None))
            sound += [results.pop(call_id) for call_id in found]
    return tuple(sound)
