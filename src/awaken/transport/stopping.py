"""Stopping what a thread does: the same on every wire that names threads."""

from .asgi import Reply, as_json
from .problems import Problem
from .routes import Call


async def cancel_thread(call: Call) -> Reply:
    """Cancel a thread's open run, or what is queued there; what was said is kept."""
    thread_id = call.path["thread_id"]
    if not await call.view.cancel_thread(thread_id):
        raise Problem(404, "nothing_to_cancel", f"thread '{thread_id}' has nothing to cancel")
    return as_json({"status": "cancel_requested", "thread_id": thread_id}, 202)


async def interrupt_thread(call: Call) -> Reply:
    """Cancel what a thread does and drop what it has queued."""
    thread_id = call.path["thread_id"]
    dropped = await call.view.interrupt_thread(thread_id)
    if dropped is None:
        raise Problem(404, "nothing_to_interrupt", f"thread '{thread_id}' has nothing to do")
    told = {"status": "interrupt_requested", "thread_id": thread_id}
    return as_json(told | {"superseded_dispatches": dropped}, 202)
