"""Threads as resources: `awaken://threads/{id}` is a transcript."""

from contextlib import suppress
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from awaken.contracts.errors import CursorInvalid, UnknownThread
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage import queries
from awaken.services.view import TenantView
from awaken.transport.asgi import encode_json
from awaken.transport.routes import Access

from .callers import Context, caller_of

_PREFIX = "awaken://threads/"
_JSON = "application/json"
_LATEST = queries.MessageQuery(
    limit=queries.LIMIT_MAX,
    order=queries.Order.DESC,
    visibility=queries.VisibilityFilter.EXTERNAL,
)


async def list_threads(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    """List a page of the caller's threads, most recently updated first."""
    view = _readable(ctx)
    query = queries.ThreadQuery(tenant_id=view.tenant_id)
    try:
        if params is not None and params.cursor is not None:
            query = queries.at_cursor(query, params.cursor)
    except CursorInvalid as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    page = await view.threads(query)
    resources = [_resource(thread) for thread in page.items]
    return types.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)


async def list_templates(
    _ctx: Context, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """List the URI template of threads."""
    uri = _PREFIX + "{thread_id}"
    template = types.ResourceTemplate(uri_template=uri, name="thread", mime_type=_JSON)
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_thread(
    ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read the latest messages of a thread, oldest first, without internal ones."""
    uri, view = params.uri, _readable(ctx)
    thread = None
    with suppress(UnknownThread):
        name = unquote(uri.removeprefix(_PREFIX))
        thread = await view.find_thread(name) if uri.startswith(_PREFIX) else None
    if thread is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    page = await view.messages(thread.id, _LATEST)
    document = {
        "thread_id": thread.id,
        "title": thread.metadata.title,
        "message_count": page.total,
        "messages": [it.message for it in reversed(page.items)],
    }
    text = encode_json(document).decode()
    contents = types.TextResourceContents(uri=uri, mime_type=_JSON, text=text)
    return types.ReadResourceResult(contents=[contents])


def _readable(ctx: Context) -> TenantView:
    caller = caller_of(ctx)
    if Access.READ not in caller.access:
        raise MCPError(types.INVALID_REQUEST, "Reading threads needs the scope 'read'")
    return caller.view


def _resource(thread: Thread) -> types.Resource:
    return types.Resource(
        uri=_PREFIX + quote(thread.id, safe=""),
        name=thread.id,
        title=thread.metadata.title,
        description=f"A conversation of {thread.message_count} messages.",
        mime_type=_JSON,
    )
