"""The stream of hints: what changed, so that a list on a screen is fetched again."""

import asyncio

from awaken.services.activity import ActivityFeed, ActivityHint, ActivityReader
from awaken.transport.asgi import Receive, Reply, Scope, Send, encode_json, wait_for_disconnect
from awaken.transport.routes import RouteCall
from awaken.transport.sse import HEARTBEAT, SSE_HEADERS

from .context import OperatorContext

_LAGGED = b"event: lagged\ndata: {}\n\n"
_BODY = "http.response.body"


class ActivityRoutes:
    """Streams hints."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def stream(self, call: RouteCall) -> Reply:
        """Stream hints about what changes; for a tenant, about its own threads."""
        return ActivityReply(self._context.activity, call.principal.tenant_id)


class ActivityReply:
    """Writes hints until the client disconnects or the server stops.

    Hints have no SSE id: a client that reconnects fetches its lists again.
    """

    def __init__(self, feed: ActivityFeed, tenant_id: str | None) -> None:
        self._feed = feed
        self._tenant_id = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        reader = self._feed.open_reader(self._tenant_id)
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        gone.add_done_callback(lambda _: reader.close())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS]})
            await send({"type": _BODY, "body": HEARTBEAT, "more_body": True})
            await self._write(reader, send)
            await send({"type": _BODY, "body": b""})
        finally:
            self._feed.discard_reader(reader)
            gone.cancel()

    async def _write(self, reader: ActivityReader, send: Send) -> None:
        async for is_lagged, hints in reader.batches():
            frames = [_LAGGED] if is_lagged else []
            frames += map(_frame, hints)
            await send({"type": _BODY, "body": b"".join(frames) or HEARTBEAT, "more_body": True})


def _frame(hint: ActivityHint) -> bytes:
    return b"event: hint\ndata: " + encode_json(hint) + b"\n\n"
