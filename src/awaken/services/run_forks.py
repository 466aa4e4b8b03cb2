"""A branch of a thread at the start of one of its runs, to send its input again, edited or not."""

from awaken.contracts.errors import InvalidResume
from awaken.contracts.messages.message import Message, Visibility
from awaken.contracts.record import Record
from awaken.contracts.runs.threads import Thread
from awaken.contracts.tenancy import namespace_of
from awaken.runtime.admission.forks import fork_before_run

from .tenant_ids import hide_namespace
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
    services = view.engine.services
    made = await fork_before_run(view.engine.store, services.clock, services.ids, record)
    shown = tuple(it for it in made.messages if it.visibility is not Visibility.INTERNAL)
    namespace = "" if view.tenant_id is None else namespace_of(view.tenant_id)
    return RunFork(
        thread=hide_namespace(namespace, made.thread),
        agent_id=record.agent_id,
        messages=hide_namespace(namespace, shown),
        is_state_exact=made.is_state_exact,
    )
