"""Where the history of a thread was compacted, and how to have all of it sent again."""

from awaken.contracts.record import Record
from awaken.contracts.state.context_state import CONTEXT_STATE, ContextState

from .view import TenantView


class ShownMark(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A summary that replaces every message up to one of them, in what the model is sent."""

    message_id: str
    seq: int
    """The place of that message in the thread, from 1."""
    summary: str
    pre_tokens: int
    post_tokens: int
    at: int
    """When it was made, in milliseconds."""


class ThreadContext(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a thread's requests leave out; every message stays in the thread."""

    marks: tuple[ShownMark, ...] = ()
    """Oldest first; the last one counts. Old ones are dropped after some."""
    cut_message_id: str | None = None
    """The first message that is still sent; those before it did not fit."""
    cut_seq: int | None = None
    total_compactions: int = 0


async def read_context(view: TenantView, thread_id: str) -> ThreadContext:
    """Read the marks and the cut of a thread.

    Raises:
        UnknownThread: There is none, or it belongs to another tenant.
    """
    await view.thread(thread_id)
    checkout = await view.engine.store.checkout(view.add_namespace(thread_id))
    stored = None if checkout is None else checkout.state.get(CONTEXT_STATE.name)
    return _show(ContextState() if stored is None else CONTEXT_STATE.decode(stored))


async def restore_history(view: TenantView, thread_id: str) -> ThreadContext:
    """Remove the marks and the cut of a thread: its whole history is sent again.

    Raises:
        UnknownThread: There is none, or it belongs to another tenant.
        ThreadBusy: A run of the thread executes here.
        ThreadClaimed: One executes in another process.
    """
    await view.thread(thread_id)
    stored_id = view.add_namespace(thread_id)
    await view.engine.undo_compaction(stored_id)
    await view.notify_changed(stored_id)
    return await read_context(view, thread_id)


def _show(state: ContextState) -> ThreadContext:
    return ThreadContext(
        marks=tuple(
            ShownMark(
                message_id=it.message_id,
                seq=it.place + 1,
                summary=it.summary,
                pre_tokens=it.pre_tokens,
                post_tokens=it.post_tokens,
                at=it.at,
            )
            for it in state.marks
        ),
        cut_message_id=None if state.cut is None else state.cut.message_id,
        cut_seq=None if state.cut is None else state.cut.place + 1,
        total_compactions=state.total_compactions,
    )
