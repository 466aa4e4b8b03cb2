"""The routes of the AI SDK: chat, resume, history, stop.

Closing the connection stops nothing: `cancel` does. `regenerate` and changes of what was said are
refused, because a thread keeps everything.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from awaken.contracts.errors import UnknownThread
from awaken.contracts.identity import Adapter, present
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.queries import LIMIT_MAX, MessageQuery, Order
from awaken.contracts.record import Record, always
from awaken.contracts.runs import RunRecord, RunRequest
from awaken.contracts.suspension import Ticket, ToolCallResume
from awaken.services.decisions import names
from awaken.services.following import EventStream
from awaken.transport.asgi import Bytes, Header, Reply, as_json
from awaken.transport.problems import Problem
from awaken.transport.routes import Access, ApiRoute, Call
from awaken.transport.sse import EventStreamReply
from awaken.transport.stopping import cancel_thread, interrupt_thread

from .decode import context_messages, decisions_of, input_messages, tool_descriptors, unseen
from .encoder import AiSdkEncoder, Calls
from .history import HistoryQuery, ui_messages
from .wire import ChatRequest, UiMessage

MARK: Header = (b"x-vercel-ai-ui-message-stream", b"v1")


class StreamQuery(Record, frozen=True, kw_only=True):
    """Which chunks the client knows, and what it has got already."""

    version: int | None = None
    cursor: str | None = None


class History(Record, frozen=True, kw_only=True):
    """A page of UI messages, and the run that says more right now."""

    messages: list[dict[str, Any]]
    has_more: bool
    next_cursor: int | None = always(None)
    executing_run_id: str | None = always(None)


async def chat(call: Call) -> Reply:
    """Take what is new in a chat, and stream what the agent makes of it."""
    body: ChatRequest = call.body
    if body.trigger == "regenerate-message":
        message = "A thread keeps everything that was said; send a new message instead."
        raise Problem(501, "regenerate_unsupported", message)
    named = call.path.get("thread_id") or body.thread_id or body.thread_id_alias
    thread_id = present(named) or present(body.id)
    thread = await call.view.find_thread(thread_id) if thread_id else None
    tickets = await call.view.tickets(thread.id) if thread is not None else ()
    said = body.messages if thread is None else await _unseen(call, thread.id, body.messages)
    news = input_messages(said)
    request = RunRequest(
        thread_id=thread_id,
        agent_id=present(call.path.get("agent_id") or body.agent_id or body.agent_id_alias),
        messages=(*context_messages(body.state), *news.values()) if news else (),
        frontend_tools=tool_descriptors(body.tools),
        adapter=Adapter.AI_SDK,
    )
    if decisions := decisions_of(body.messages, tickets, body.remember):
        return await _decided(call, request, tickets, decisions)
    if not news:
        changed = present(body.message_id)
        if changed and any(it.role == "user" and it.id == changed for it in body.messages):
            message = f"Message '{changed}' was said already; send a new one instead."
            raise Problem(501, "edit_unsupported", message)
        raise Problem(400, "nothing_new", "no new messages or interaction responses")
    started = await call.view.start(request)
    # The client begins a new message, also when the run goes on that it has one of.
    is_same = thread is not None and thread.open_run_id == started.run_id
    return _streamed(call, started.stream, {} if is_same else None)


async def resume(call: Call) -> Reply:
    """Stream the run that executes, from its start or after a cursor; 204 when there is none.

    With the cursor of a run that has ended meanwhile, its rest is streamed.
    """
    run_id, after = None, call.cursor(call.query.cursor)
    # A chat that has only begun on the client's side has nothing to resume either.
    with suppress(UnknownThread):
        run_id = await _run_to_resume(call, call.path["thread_id"], after)
    if run_id is None:
        return Bytes(204, headers=(MARK,))
    return _streamed(call, await call.view.follow_run(run_id, after))


async def messages(call: Call) -> Reply:
    """List a thread's messages as the client keeps them; those of an executing run are left out."""
    query: HistoryQuery = call.query
    thread_id = call.path["thread_id"]
    run = await call.view.open_run(thread_id)
    executing = run.run_id if run is not None and _goes_on(run) else None
    found, next_cursor = await ui_messages(call.view, thread_id, query, executing)
    shown = History(
        messages=found,
        has_more=next_cursor is not None,
        next_cursor=next_cursor,
        executing_run_id=executing,
    )
    return as_json(shown)


async def _unseen(call: Call, thread_id: str, said: Sequence[UiMessage]) -> Sequence[UiMessage]:
    newest = MessageQuery(limit=LIMIT_MAX, order=Order.DESC)
    page = await call.view.messages(thread_id, newest)
    stored = {record.message_id for record in page.items}
    return unseen(said, stored, is_all=not page.has_more)


async def _decided(
    call: Call,
    request: RunRequest,
    tickets: Sequence[Ticket],
    decisions: Mapping[str, ToolCallResume],
) -> Reply:
    """Let a run go on with decisions; new messages come after them, in a new UI message."""
    meant = [it for it in tickets if decisions.keys() & names(it)]
    call.check_may_answer(meant, decisions.values())
    view, run = call.view, await call.view.run(tickets[0].run_id)
    stream = await view.decide_and_follow(run, decisions, request)
    if not request.messages:
        return _streamed(call, stream)
    stream.before.clear()
    return _streamed(call, stream, {it.call_id: (it.tool_name, it.arguments) for it in tickets})


async def _run_to_resume(call: Call, thread_id: str, after: int | None) -> str | None:
    thread = await call.view.thread(thread_id)
    if after is not None and after != thread.event_seq:
        # Of the run that goes on after the cursor, which need not be the latest.
        return (await call.view.events(thread_id, after, 1))[0].run_id
    run = await call.view.open_run(thread_id)
    return run.run_id if run is not None and _goes_on(run) else None


def _goes_on(run: RunRecord) -> bool:
    """Whether the open run says more by itself."""
    return run.status is not RunStatus.WAITING or run.awaits_tasks


def _streamed(call: Call, stream: EventStream, earlier: Calls | None = None) -> Reply:
    asked = call.query.version or (7 if call.headers.get("x-ai-sdk-version") == "7" else 6)
    return EventStreamReply(stream, AiSdkEncoder(asked, earlier), (MARK,))


def _route(method: str, path: str, handle: Any, access: Access, **types: Any) -> ApiRoute:
    types |= {"summary": handle.__doc__.partition("\n")[0], "tag": "ai-sdk"}
    path = f"/v1/ai-sdk{path}"
    return ApiRoute(method=method, path=path, handle=handle, access=access, **types)


_STREAM = {"query": StreamQuery, "reply": bytes}
_RESUMED = {**_STREAM, "headers": ("Last-Event-ID",), "statuses": {204: None}}
_CHAT = {**_STREAM, "body": ChatRequest}
_PAGE = {"query": HistoryQuery, "reply": History}
_INVOKE, _READ, _THREAD = Access.INVOKE, Access.READ, "/threads/{thread_id}"

ROUTES = (
    _route("POST", "/chat", chat, _INVOKE, **_CHAT),
    _route("POST", f"{_THREAD}/runs", chat, _INVOKE, **_CHAT),
    _route("POST", "/agents/{agent_id}/runs", chat, _INVOKE, **_CHAT),
    _route("GET", "/chat/{thread_id}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/stream", resume, _READ, **_RESUMED),
    # Below whatever address chats are sent to, the SDK asks for the rest of them.
    _route("GET", "/agents/{agent_id}/runs/{thread_id}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/runs/{{chat_id}}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/messages", messages, _READ, **_PAGE),
    _route("POST", f"{_THREAD}/cancel", cancel_thread, _INVOKE, status=202),
    _route("POST", f"{_THREAD}/interrupt", interrupt_thread, _INVOKE, status=202),
)
