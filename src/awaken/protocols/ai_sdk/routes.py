"""The routes of the AI SDK: chat, resume, history, stop.

Closing the connection does not stop a run; `cancel` does. The id of a forked chat means its newest
branch; a cursor of another branch is refused.
"""

from contextlib import suppress
from typing import Any

from awaken.contracts.errors import UnknownThread
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.routes import Access, ApiRoute, RouteCall
from awaken.transport.stop_routes import cancel_chat, interrupt_chat

from .chat import MARK, chat, preview_agent, stream_reply
from .history import HistoryQuery, ui_messages
from .wire import ChatRequest, PreviewRequest


class StreamQuery(Record, frozen=True, kw_only=True):
    """The client's version, and the cursor of the last event that it received."""

    version: int | None = None
    cursor: str | None = None


class History(Record, frozen=True, kw_only=True):
    """A page of UI messages, and the run that executes now."""

    messages: list[dict[str, Any]]
    has_more: bool
    next_cursor: int | None = always(None)
    executing_run_id: str | None = always(None)


async def resume(call: RouteCall) -> Reply:
    """Stream the run that executes, from its start or after a cursor; 204 when there is none.

    With a cursor of a run that has ended meanwhile, the rest of it is streamed.
    """
    chat_id = call.path["thread_id"]
    thread = None
    # A chat that exists only in the client has nothing to resume either.
    with suppress(UnknownThread):
        thread = await call.view.find_branch(chat_id)
    branch = "" if thread is None or thread.id == chat_id else thread.id
    after = call.cursor(call.query.cursor, branch)
    run_id = None if thread is None else await _run_to_resume(call, thread, after)
    if run_id is None:
        return Bytes(204, headers=(MARK,))
    return stream_reply(call, await call.view.follow_run(run_id, after), branch=branch)


async def messages(call: RouteCall) -> Reply:
    """List a thread's messages as UI messages, without those of an executing run."""
    query: HistoryQuery = call.query
    thread_id = (await call.view.branch(call.path["thread_id"])).id
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


async def _run_to_resume(call: RouteCall, thread: Thread, after: int | None) -> str | None:
    if after is not None and after != thread.event_seq:
        # The run after the cursor, which need not be the latest.
        return (await call.view.events(thread.id, after, 1))[0].run_id
    run = await call.view.open_run(thread.id)
    return run.run_id if run is not None and _goes_on(run) else None


def _goes_on(run: RunRecord) -> bool:
    """Whether the open run continues by itself."""
    return run.status is not RunStatus.WAITING or run.awaits_tasks


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
    _route(
        "POST",
        "/agent-previews/runs",
        preview_agent,
        _INVOKE,
        **{**_CHAT, "body": PreviewRequest, "also": (Access.CONFIG,)},
    ),
    _route("GET", "/chat/{thread_id}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/stream", resume, _READ, **_RESUMED),
    # The SDK resumes a chat at a path below the one that it posts to.
    _route("GET", "/agents/{agent_id}/runs/{thread_id}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/runs/{{chat_id}}/stream", resume, _READ, **_RESUMED),
    _route("GET", f"{_THREAD}/messages", messages, _READ, **_PAGE),
    _route("POST", f"{_THREAD}/cancel", cancel_chat, _INVOKE, status=202),
    _route("POST", f"{_THREAD}/interrupt", interrupt_chat, _INVOKE, status=202),
)
