"""The operations: run an agent, attach again, stop, and read the messages.

A client that attaches without a cursor gets a stream that an official client can begin with:
RUN_STARTED, a MESSAGES_SNAPSHOT of the messages before, and the run from its start, which replaces
what the client had received. A client with a cursor gets exactly the events after it, also in the
middle of a run. A resumed run keeps its id, whatever `runId` came with the answers; a plain message
instead of a decision starts a new run and cancels the waiting one.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidResume, UnknownRun, UnknownTicket
from awaken.contracts.identity import Adapter, normalize_id
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import MessageRecord
from awaken.contracts.record import Record
from awaken.contracts.runs.records import OnBusy, RunRecord, RunRequest, context_in
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    MessageQuery,
    Order,
    VisibilityFilter,
    at_cursor,
)
from awaken.contracts.suspension.ticket_names import find_ticket
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.services.event_streams import EventStream
from awaken.services.histories import CopiedMessage, ThreadCopy, compare_copy, start_branch
from awaken.services.view import StartedRun
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, ApiRoute, RouteCall
from awaken.transport.sse import EventStreamReply
from awaken.transport.stop_routes import cancel_chat, interrupt_chat

from .encoder import AgUiEncoder
from .inputs import (
    RunAgentInput,
    build_answer_messages,
    decisions,
    frontend_context,
    input_of,
    is_before_first,
    is_input,
    new_messages,
)
from .messages import wire_messages
from .snapshot_stream import SnapshotStream


class Place(Record, frozen=True, kw_only=True):
    """Where to continue; in a stream `Last-Event-ID` means the same."""

    cursor: str | None = None
    limit: int = 50


class AgUiAttachQuery(Record, frozen=True, kw_only=True, rename="camel"):
    """Where in the log a stream begins, and the client's protocol version."""

    cursor: str | None = None
    protocol_version: str | None = None
    """Absent: the stream has nothing that clients before 1.0 refuse."""


async def run_agent(call: RouteCall) -> Reply:
    """Run an agent on new messages, or resume a run with decisions.

    An unused `runId` becomes the run's id. If it is taken and there is no new message, the request
    is a repeat and gets the same run; else the run gets another id. A history that continues from
    an earlier message than the thread does means a branch.
    """
    body: RunAgentInput = call.body
    chat_id = _chat_id(call)
    thread = await call.view.find_branch(chat_id) if chat_id else None
    # The run that a message continues; it keeps its id.
    open_run = await call.view.open_run(thread.id) if thread is not None else None
    same = open_run.run_id if open_run and _takes_messages(open_run) else ""
    copy = await _copy(call, thread)
    said = (
        *new_messages(body, await _find_known_ids(call, copy)),
        *build_answer_messages(body, same),
    )
    request = RunRequest(
        thread_id=chat_id if thread is None else thread.id,
        agent_id=call.path.get("agent_id") or body.agent_id,
        messages=(*frontend_context(body), *said) if said else (),
        frontend_tools=body.frontend_tools,
        context=context_in(body.forwarded_props),
        adapter=Adapter.AG_UI,
        run_id_hint=None if same else normalize_id(body.run_id) or call.view.new_id(),
        on_busy=_on_busy(open_run),
    )
    tickets = await call.view.tickets(thread.id) if thread and body.results else ()
    decided = {name: it for name, it in decisions(body, tickets).items() if name != same}
    if decided:
        # The client has the results that it sent, and would show them twice.
        given = {it.call_id for it in tickets if it.ticket_id in decided}
        return await _decide(call, thread, request, decided, given & body.results.keys())
    if not said and await _is_same_request(call, thread):
        call.require(Access.READ)
        return _stream_reply(call, await call.view.follow_run(body.run_id or ""), is_anew=True)
    if copy is not None and (before := _find_branch_point(copy, request)) is not None:
        return await _branch(call, copy, before, request)
    if not said:
        return await _repeat(call, copy)
    return _stream_reply(call, (await _start(call, request, call.view.start)).stream)


async def attach(call: RouteCall) -> Reply:
    """Stream the open or latest run from a cursor, or from its start; 204 if there is none."""
    chat_id = call.path["thread_id"]
    thread = await call.view.branch(chat_id)
    run = await call.view.open_run(thread.id) or await call.view.latest_run(thread.id)
    after = call.cursor(call.query.cursor, "" if thread.id == chat_id else thread.id)
    following = () if after is None else await call.view.events(thread.id, after, 1)
    is_all_said = after is not None and not following
    if run is None or (is_all_said and run.status is RunStatus.DONE):
        return Bytes(204)
    # The client may have disconnected during an earlier run: it gets the rest of that one.
    run_id = (following[0].run_id if following else None) or run.run_id
    return _stream_reply(call, await call.view.follow_run(run_id, after), is_anew=after is None)


async def list_messages(call: RouteCall) -> Reply:
    """List a thread's messages in AG-UI form, oldest first, without internal ones."""
    query = MessageQuery(limit=call.query.limit, visibility=VisibilityFilter.EXTERNAL)
    query = at_cursor(query, call.query.cursor) if call.query.cursor else query
    page = await call.view.messages((await call.view.branch(call.path["thread_id"])).id, query)
    fields = {"messages": wire_messages(it.message for it in page.items), "total": page.total}
    return as_json(fields | {"has_more": page.has_more, "next_cursor": page.next_cursor})


async def _copy(call: RouteCall, thread: Thread | None) -> ThreadCopy | None:
    """Compare the client's messages with those of the thread, if it has any."""
    if thread is None or thread.message_count == 0:
        return None
    copied = [CopiedMessage(it.id or None, is_input(it)) for it in call.body.messages]
    return await compare_copy(call.view, thread, copied)


async def _find_known_ids(call: RouteCall, copy: ThreadCopy | None) -> set[str] | None:
    """Find which of the client's messages the thread has; None if it has no messages at all.

    The newest known message is enough, so that a long thread is not read as a whole.
    """
    if copy is None:
        return None
    wanted = {it.id for it in call.body.messages if it.id}
    found, is_more = wanted & copy.ids.keys(), not copy.is_all
    query = MessageQuery(order=Order.DESC, limit=LIMIT_MAX)
    while not found and is_more and len(wanted) > 1:
        query = msgspec.structs.replace(query, offset=query.offset + LIMIT_MAX)
        page = await call.view.messages(copy.thread.id, query)
        found, is_more = wanted & {it.message_id for it in page.items}, page.has_more
    return found


def _find_branch_point(copy: ThreadCopy, request: RunRequest) -> MessageRecord | None:
    """Find the first message of the thread that the client's conversation leaves out."""
    if request.messages:
        return copy.first_left_out()
    return copy.find_repeat() if copy.is_answer_wanted_anew() else None


async def _branch(
    call: RouteCall, copy: ThreadCopy, before: MessageRecord, request: RunRequest
) -> Reply:
    """Run on a branch, with the client's new message, or with its last message again."""
    if not request.messages:
        again = input_of(call.body.messages[-1])
        if not again.content:
            again = msgspec.structs.replace(before.message, metadata=None)
        messages = (*frontend_context(call.body), again)
        request = msgspec.structs.replace(request, messages=messages)
    chat_id = _chat_id(call) or copy.thread.id
    begin = partial(start_branch, call.view, chat_id, copy.thread, before.message_id)
    return _stream_reply(call, (await _start(call, request, begin)).stream)


async def _start(
    call: RouteCall, request: RunRequest, begin: Callable[[RunRequest], Awaitable[StartedRun]]
) -> StartedRun:
    """Start a run with the id that the client wants, or with a new id if that is taken."""
    try:
        return await begin(request)
    except InvalidResume:
        return await begin(msgspec.structs.replace(request, run_id_hint=call.view.new_id()))


async def _decide(
    call: RouteCall,
    thread: Thread | None,
    request: RunRequest,
    decided: dict[str, ToolCallResume],
    given: Collection[str],
) -> Reply:
    view = call.view
    if call.body.answers:
        call.require(Access.DECIDE)
    if thread is None or thread.latest_run_id is None:
        raise UnknownTicket(ticket_id=next(iter(decided)))
    target = await view.run(thread.open_run_id or thread.latest_run_id)
    if target.status is not RunStatus.WAITING and not request.messages:
        # Repeated or late answers: the stream must begin at the start of the run.
        call.require(Access.READ)
        await view.decide(target, decided, find_ticket)
        return _stream_reply(call, await view.follow_run(target.run_id), is_anew=True)
    return _stream_reply(
        call, await view.decide_and_follow(target, decided, request, find_ticket), given
    )


async def _is_same_request(call: RouteCall, thread: Thread | None) -> bool:
    """Whether the thread has a run of that id already."""
    try:
        run = await call.view.run(call.body.run_id or "")
    except UnknownRun:
        return False
    return thread is not None and run.thread_id == thread.id


async def _repeat(call: RouteCall, copy: ThreadCopy | None) -> Reply:
    """Stream the run that got the repeated message, or refuse a request without a new one."""
    again = None if copy is None else copy.find_repeat()
    if again is None or again.produced_by_run_id is None:
        raise HttpError(400, "invalid_input", "at least one message is required")
    call.require(Access.READ)
    return _stream_reply(call, await call.view.follow_run(again.produced_by_run_id), is_anew=True)


def _chat_id(call: RouteCall) -> str | None:
    """The client's id of its conversation."""
    named = call.path.get("thread_id") or getattr(call.body, "thread_id", None)
    return normalize_id(named)


def _on_busy(open_run: RunRecord | None) -> OnBusy:
    """A message interrupts a waiting run, and queues behind a running one."""
    is_waiting = open_run is not None and open_run.status is RunStatus.WAITING
    return OnBusy.INTERRUPT if is_waiting else OnBusy.QUEUE


def _takes_messages(run: RunRecord) -> bool:
    """Whether the run waits without a ticket, so that a message replaces no decision."""
    return run.awaits_message or run.awaits_tasks


def _stream_reply(
    call: RouteCall, stream: EventStream, given: Collection[str] = (), *, is_anew: bool = False
) -> Reply:
    renewing = SnapshotStream(call.view, stream, is_anew=is_anew)
    if isinstance(call.body, RunAgentInput):
        is_strict = call.body.is_strict
    else:
        is_strict = is_before_first(call.query.protocol_version)
    chat_id = _chat_id(call) or stream.thread_id
    branch = "" if stream.thread_id == chat_id else stream.thread_id
    encoder = AgUiEncoder(given, chat_id, is_strict=is_strict)
    return EventStreamReply(renewing, encoder, branch=branch)


def _route(
    way: str, handle: Callable[[RouteCall], Awaitable[Reply]], access: Access, **fields: Any
) -> ApiRoute:
    method, path = way.split(" ")
    fields |= {"method": method, "path": f"/v1/ag-ui/{path}", "tag": "ag-ui"}
    summary = (handle.__doc__ or "").partition("\n")[0]
    return ApiRoute(handle=handle, access=access, summary=summary, **fields)


_RUN: dict[str, Any] = {"body": RunAgentInput, "reply": bytes}
_DONE: dict[str, Any] = {"reply": dict[str, Any], "status": 202}

_ATTACH = {
    "query": AgUiAttachQuery,
    "reply": bytes,
    "headers": ("Last-Event-ID",),
    "statuses": {204: None},
}
ROUTES = (
    _route("POST run", run_agent, Access.INVOKE, **_RUN),
    _route("POST threads/{thread_id}/runs", run_agent, Access.INVOKE, **_RUN),
    _route("POST agents/{agent_id}/runs", run_agent, Access.INVOKE, **_RUN),
    _route("POST threads/{thread_id}/interrupt", interrupt_chat, Access.INVOKE, **_DONE),
    _route("POST threads/{thread_id}/cancel", cancel_chat, Access.INVOKE, **_DONE),
    _route("GET threads/{thread_id}/messages", list_messages, Access.READ, query=Place, reply=dict),
    _route("GET threads/{thread_id}/stream", attach, Access.READ, **_ATTACH),
)
