"""The operations: run an agent, attach again, stop, and read the messages.

Who attaches without a cursor gets a stream that an official client can begin with: RUN_STARTED, a
MESSAGES_SNAPSHOT of what was said before, and the run anew, so that it drops what it had half
received. Who names a cursor gets exactly what follows it, in the middle of a run as well. A run
that goes on keeps its id, whatever `runId` came with the answers; a plain message instead of a
decision begins a new run and cancels the one that waits.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidResume, UnknownRun, UnknownTicket
from awaken.contracts.identity import Adapter, present
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.queries import LIMIT_MAX, MessageQuery, Order, VisibilityFilter, at_cursor
from awaken.contracts.record import Record
from awaken.contracts.runs import OnBusy, RunRecord, RunRequest
from awaken.contracts.suspension import ToolCallResume
from awaken.contracts.threads import Thread
from awaken.services.following import EventStream
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import Problem
from awaken.transport.routes import Access, ApiRoute, Call
from awaken.transport.sse import EventStreamReply
from awaken.transport.stopping import cancel_thread, interrupt_thread

from .encoder import AgUiEncoder
from .inputs import (
    RunAgentInput,
    decisions,
    frontend_context,
    is_before_first,
    new_messages,
    spoken,
)
from .messages import wire_messages
from .renewing import RenewingStream


class Place(Record, frozen=True, kw_only=True):
    """Where to read on; in a stream `Last-Event-ID` says the same."""

    cursor: str | None = None
    limit: int = 50


class Attaching(Record, frozen=True, kw_only=True, rename="camel"):
    """Where in the log a stream begins, and for which generation of clients it is."""

    cursor: str | None = None
    protocol_version: str | None = None
    """Absent: nothing is sent that clients before 1.0 refuse."""


async def run_agent(call: Call) -> Reply:
    """Run an agent on what is new, or let a run go on with what was decided.

    A `runId` that is free becomes the run's id. When it is taken and nothing new was said, it is
    the same request again, which gets the same run; else the run gets an id of its own.
    """
    body: RunAgentInput = call.body
    thread_id = present(call.path.get("thread_id") or body.thread_id)
    thread = await call.view.find_thread(thread_id) if thread_id else None
    # The run that a message continues; it keeps its id.
    open_run = await call.view.open_run(thread.id) if thread is not None else None
    same = open_run.run_id if open_run and _takes_messages(open_run) else ""
    said = (*new_messages(body, await _known(call, thread)), *spoken(body, same))
    request = RunRequest(
        thread_id=thread_id,
        agent_id=call.path.get("agent_id") or body.agent_id,
        messages=(*frontend_context(body), *said) if said else (),
        frontend_tools=body.frontend_tools,
        adapter=Adapter.AG_UI,
        run_id_hint=None if same else present(body.run_id) or call.view.new_id(),
        on_busy=_on_busy(open_run),
    )
    tickets = await call.view.tickets(thread.id) if thread and body.results else ()
    decided = {name: it for name, it in decisions(body, tickets).items() if name != same}
    if decided:
        return await _decide(call, thread, request, decided)
    if not said:
        return await _again(call, thread)
    try:
        started = await call.view.start(request)
    except InvalidResume:
        own = msgspec.structs.replace(request, run_id_hint=call.view.new_id())
        started = await call.view.start(own)
    return _told(call, started.stream)


async def attach(call: Call) -> Reply:
    """Follow the open or latest run from a cursor, or anew from its start; 204 if there is none."""
    thread = await call.view.thread(call.path["thread_id"])
    run = await call.view.open_run(thread.id) or await call.view.latest_run(thread.id)
    after = call.cursor(call.query.cursor)
    following = () if after is None else await call.view.events(thread.id, after, 1)
    is_all_said = after is not None and not following
    if run is None or (is_all_said and run.status is RunStatus.DONE):
        return Bytes(204)
    # The reader may have left during an earlier run: it gets the rest of that one.
    run_id = (following[0].run_id if following else None) or run.run_id
    return _told(call, await call.view.follow_run(run_id, after), is_anew=after is None)


async def list_messages(call: Call) -> Reply:
    """List a thread's messages in AG-UI form, oldest first, without what only the model reads."""
    query = MessageQuery(limit=call.query.limit, visibility=VisibilityFilter.EXTERNAL)
    query = at_cursor(query, call.query.cursor) if call.query.cursor else query
    page = await call.view.messages(call.path["thread_id"], query)
    told = {"messages": wire_messages(it.message for it in page.items), "total": page.total}
    return as_json(told | {"has_more": page.has_more, "next_cursor": page.next_cursor})


async def _known(call: Call, thread: Thread | None) -> set[str] | None:
    """Which of the client's messages the thread has; None if it has no messages at all.

    The newest ones are enough, so that a long thread is not read for a short answer.
    """
    if thread is None or thread.message_count == 0:
        return None
    wanted = {it.id for it in call.body.messages if it.id}
    query = MessageQuery(order=Order.DESC, limit=LIMIT_MAX)
    while True:
        page = await call.view.messages(thread.id, query)
        found = wanted & {it.message_id for it in page.items}
        if found or page.next_cursor is None or len(wanted) < 2:
            return found
        query = at_cursor(query, page.next_cursor)


async def _decide(
    call: Call, thread: Thread | None, request: RunRequest, decided: dict[str, ToolCallResume]
) -> Reply:
    view = call.view
    if call.body.answers:
        call.require(Access.DECIDE)
    if thread is None or thread.latest_run_id is None:
        raise UnknownTicket(ticket_id=next(iter(decided)))
    target = await view.run(thread.open_run_id or thread.latest_run_id)
    # The client has the results that it gives, and would show them twice.
    given = decided.keys() & call.body.results.keys()
    if target.status is not RunStatus.WAITING and not request.messages:
        # The same answers again, or late ones: a stream must begin where its run began.
        call.require(Access.READ)
        await view.decide(target, decided)
        return _told(call, await view.follow_run(target.run_id), is_anew=True)
    return _told(call, await view.decide_and_follow(target, decided, request), given)


async def _again(call: Call, thread: Thread | None) -> Reply:
    """The same request once more, or one that asks for nothing."""
    try:
        run = await call.view.run(call.body.run_id or "")
    except UnknownRun:
        run = None
    if run is None or thread is None or run.thread_id != thread.id:
        raise Problem(400, "invalid_input", "at least one message is required")
    call.require(Access.READ)
    return _told(call, await call.view.follow_run(run.run_id), is_anew=True)


def _on_busy(open_run: RunRecord | None) -> OnBusy:
    """A run that waits makes way for a message; one that executes comes to its end first."""
    is_waiting = open_run is not None and open_run.status is RunStatus.WAITING
    return OnBusy.INTERRUPT if is_waiting else OnBusy.QUEUE


def _takes_messages(run: RunRecord) -> bool:
    """Whether the run waits and has no ticket, so that a message takes nobody's decision away."""
    return run.awaits_message or run.awaits_tasks


def _told(
    call: Call, stream: EventStream, given: Collection[str] = (), *, is_anew: bool = False
) -> Reply:
    renewing = RenewingStream(call.view, stream, is_anew=is_anew)
    if isinstance(call.body, RunAgentInput):
        is_strict = call.body.is_strict
    else:
        is_strict = is_before_first(call.query.protocol_version)
    return EventStreamReply(renewing, AgUiEncoder(given, is_strict=is_strict))


def _route(
    way: str, handle: Callable[[Call], Awaitable[Reply]], access: Access, **told: Any
) -> ApiRoute:
    method, path = way.split(" ")
    told |= {"method": method, "path": f"/v1/ag-ui/{path}", "tag": "ag-ui"}
    summary = (handle.__doc__ or "").partition("\n")[0]
    return ApiRoute(handle=handle, access=access, summary=summary, **told)


_RUN: dict[str, Any] = {"body": RunAgentInput, "reply": bytes}
_DONE: dict[str, Any] = {"reply": dict[str, Any], "status": 202}

_ATTACH = {
    "query": Attaching,
    "reply": bytes,
    "headers": ("Last-Event-ID",),
    "statuses": {204: None},
}
ROUTES = (
    _route("POST run", run_agent, Access.INVOKE, **_RUN),
    _route("POST threads/{thread_id}/runs", run_agent, Access.INVOKE, **_RUN),
    _route("POST agents/{agent_id}/runs", run_agent, Access.INVOKE, **_RUN),
    _route("POST threads/{thread_id}/interrupt", interrupt_thread, Access.INVOKE, **_DONE),
    _route("POST threads/{thread_id}/cancel", cancel_thread, Access.INVOKE, **_DONE),
    _route("GET threads/{thread_id}/messages", list_messages, Access.READ, query=Place, reply=dict),
    _route("GET threads/{thread_id}/stream", attach, Access.READ, **_ATTACH),
)
