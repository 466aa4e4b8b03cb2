"""What a due time or a delivery does: it starts a run, or is an event of an open workflow."""

from collections.abc import Callable

import msgspec

from awaken.contracts.errors import AwakenError, StorageError, UnknownThread
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.schedules import Creator, RunTarget
from awaken.contracts.tenancy import add_namespace, namespace_in, namespace_of, remove_namespace
from awaken.mailbox.services import MailboxServices
from awaken.runtime.suspension.dispatch_plan import is_workflow_event

from .rights import RunRefusal, RunStarter
from .run_requests import StartedBy, build_dispatch, build_request

NO_OPEN_WORKFLOW = "no_open_workflow"


class WantedStart(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, by what, and in whose name."""

    creator: Creator
    started_by: StartedBy
    agent_id: str
    make_target: Callable[[], RunTarget]
    """Makes the target, once it is known that the creator may start it."""
    replaced_run_id: str | None = None
    """A run that is cancelled first: it gets no event."""


class PlannedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The dispatch to queue, and the run that gets it."""

    dispatch: RunDispatch
    run_id: str
    is_delivered: bool = False
    """Whether it is an event of a run that is open, and starts none."""


async def plan_start(
    services: MailboxServices, starter: RunStarter, wanted: WantedStart
) -> PlannedStart | RunRefusal:
    """Plan what is started in the name of a creator, or say why nothing may be.

    Raises:
        StorageError: The store cannot be read.
    """
    creator, started_by = wanted.creator, wanted.started_by
    refusal = await starter.find_refusal(creator, wanted.agent_id)
    if refusal is not None:
        return refusal
    try:
        target = wanted.make_target()
        run = await _find_open_workflow(services, creator, target)
        if run is not None and run.run_id == wanted.replaced_run_id:
            run = None
        if target.event is not None:
            return await _deliver_event(services, starter, wanted, target, run)
        request = await starter.screen(build_request(target, creator, started_by))
        dispatch = build_dispatch(request, started_by, services.config.max_attempts)
        if run is None or not is_workflow_event(request, run):
            return PlannedStart(dispatch=dispatch, run_id=dispatch.run_id)
        steered = msgspec.structs.replace(dispatch, mode=InputMode.STEER)
        return PlannedStart(dispatch=steered, run_id=run.run_id, is_delivered=True)
    except StorageError:
        raise
    except AwakenError as error:
        return RunRefusal(error.code, str(error))


async def _find_open_workflow(
    services: MailboxServices, creator: Creator, target: RunTarget
) -> RunRecord | None:
    """Return the run of a workflow that is open on the thread of a target, or None.

    Raises:
        UnknownThread: The thread belongs to another tenant.
    """
    if target.thread_id is None:
        return None
    thread = await find_thread(services, creator, target.thread_id)
    if thread is None:
        return None
    found = thread.open_run_id and await services.store.load_run(thread.open_run_id)
    return found if found and found.is_workflow else None


async def find_thread(services: MailboxServices, creator: Creator, thread_id: str) -> Thread | None:
    """Return the thread that a target names, or None if there is none yet.

    Raises:
        UnknownThread: It belongs to another tenant than the creator.
    """
    stored_id = add_namespace(namespace_of(creator.tenant_id), thread_id)
    # A run without a tenant has no place among the threads of one.
    if namespace_in(stored_id) != namespace_of(creator.tenant_id):
        raise UnknownThread(thread_id=thread_id)
    thread = await services.store.load_thread(stored_id)
    if thread is not None:
        thread.check_tenant(creator.tenant_id)
    return thread


async def _deliver_event(
    services: MailboxServices,
    starter: RunStarter,
    wanted: WantedStart,
    target: RunTarget,
    run: RunRecord | None,
) -> PlannedStart | RunRefusal:
    # Only what delivers events loads the code of workflows.
    from awaken.mailbox.workflow_runs import SentEvent, check_speaker, make_event  # noqa: PLC0415

    creator, started_by = wanted.creator, wanted.started_by
    if run is None or run.agent_id != target.agent_id or target.event is None:
        shown = remove_namespace(namespace_of(creator.tenant_id), target.thread_id or "")
        detail = f"no run of workflow '{target.agent_id}' is open on thread '{shown}'"
        return RunRefusal(NO_OPEN_WORKFLOW, detail)
    event = SentEvent(
        run_id=run.run_id,
        name=target.event,
        payload=target.input,
        event_id=started_by.derive("event"),
    )
    check_speaker(run, event.name, creator.user_id)
    await starter.check_event(run, event.name, event.payload)
    request = await make_event(services, run, event)
    request = msgspec.structs.replace(
        request, tenant_id=creator.tenant_id, dispatch_id=started_by.derive("dispatch")
    )
    screened = await starter.screen(request)
    dispatch = build_dispatch(screened, started_by, services.config.max_attempts)
    steered = msgspec.structs.replace(dispatch, mode=InputMode.STEER, run_id=run.run_id)
    return PlannedStart(dispatch=steered, run_id=run.run_id, is_delivered=True)
