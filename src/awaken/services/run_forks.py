"""A branch of a thread at the start of one of its runs, to send its input again, edited or not."""

from awaken.contracts.errors import InvalidResume
from awaken.contracts.messages.message import Message, Visibility
from awaken.contracts.record import Record
from awaken.contracts.runs.threads import Thread

from .view import TenantView


class RunFork(Record, frozen=True, kw_only=True):
    """The branch, and what a client sends there to have the run again."""

    thread: Thread
    agent_id: str
    messages: tuple[Message, ...]
    """The input of the run, without what is hidden from clients; the branch does not have it."""
    is_state_exact: bool
    """Whether the branch has the state that the run found; otherwise it has the newest state."""


async def fork_run(view: TenantView, run_id: str) -> RunFork:
    """Make a thread with the messages and the state that a tenant's run found before its input.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
        InvalidResume: It is queued and has found no messages yet.
        UnknownThread: Its thread was deleted.
    """
    record = await view.stored_run(run_id)
    if record.started_at is None:
        raise InvalidResume(run_id=run_id, problem="it has not begun")
    made = await view.fork_before_run(record)
    return RunFork(
        thread=made.thread,
        agent_id=record.agent_id,
        messages=tuple(it for it in made.messages if it.visibility is not Visibility.INTERNAL),
        is_state_exact=made.is_state_exact,
    )
