"""The stream of an eval: items as they are scored, whichever process scores them."""

import asyncio

from awaken.evals.driving import list_items
from awaken.evals.runner import EvalRunner, count_items
from awaken.transport.asgi import Receive, Scope, Send, encode_json, wait_for_disconnect
from awaken.transport.sse import HEARTBEAT, SSE_HEADERS

POLL_S = 0.5
"""How often items of other processes are looked for."""
_BODY = "http.response.body"


class ItemStream:
    """Writes items until the eval has ended or the client disconnects.

    A client that reconnects gets all items again: they have numbers.
    """

    def __init__(self, runner: EvalRunner, eval_id: str) -> None:
        self._runner = runner
        self._eval_id = eval_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS]})
            await self._write(send, gone)
            await send({"type": _BODY, "body": b""})
        finally:
            gone.cancel()

    async def _write(self, send: Send, gone: "asyncio.Future[None]") -> None:
        seen: set[int] = set()
        while not gone.done():
            # Read first: an item that is written after the end was read would be missed.
            record = await self._runner.load(self._eval_id)
            items = await list_items(self._runner.parts.evals, self._eval_id)
            frames = [_frame(b"item", it) for it in items if it.number not in seen]
            if frames:
                done = {"done": len(items), "planned": record.planned, **count_items(items)}
                frames.append(_frame(b"progress", done))
            seen |= {it.number for it in items}
            if record.status.is_terminal:
                frames.append(_frame(b"end", record))
            await send({"type": _BODY, "body": b"".join(frames) or HEARTBEAT, "more_body": True})
            if record.status.is_terminal:
                return
            await asyncio.wait([gone], timeout=POLL_S)


def _frame(event: bytes, data: object) -> bytes:
    return b"event: " + event + b"\ndata: " + encode_json(data) + b"\n\n"
