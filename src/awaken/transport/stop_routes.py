"""Handlers that cancel or interrupt a thread, shared by all protocols that name threads.

A chat is a thread or the newest branch of it.
"""

from .asgi import Reply, as_json
from .problems import HttpError
from .routes import RouteCall


async def cancel_thread(call: RouteCall) -> Reply:
    """Cancel a thread's open run, or what is queued there; its messages are kept."""
    return await _cancel(call, call.path["thread_id"])


async def interrupt_thread(call: RouteCall) -> Reply:
    """Cancel what a thread does and drop what it has queued."""
    return await _interrupt(call, call.path["thread_id"])


async def cancel_chat(call: RouteCall) -> Reply:
    """Cancel the open run of a chat, or what is queued there; its messages are kept."""
    return await _cancel(call, (await call.view.branch(call.path["thread_id"])).id)


async def interrupt_chat(call: RouteCall) -> Reply:
    """Cancel what a chat does and drop what it has queued."""
    return await _interrupt(call, (await call.view.branch(call.path["thread_id"])).id)


async def _cancel(call: RouteCall, thread_id: str) -> Reply:
    if not await call.view.cancel_thread(thread_id):
        raise HttpError(404, "nothing_to_cancel", f"thread '{thread_id}' has nothing to cancel")
    return as_json({"status": "cancel_requested", "thread_id": thread_id}, 202)


async def _interrupt(call: RouteCall, thread_id: str) -> Reply:
    dropped = await call.view.interrupt_thread(thread_id)
    if dropped is None:
        raise HttpError(404, "nothing_to_interrupt", f"thread '{thread_id}' has nothing to do")
    accepted = {"status": "interrupt_requested", "thread_id": thread_id}
    return as_json(accepted | {"superseded_dispatches": dropped}, 202)
