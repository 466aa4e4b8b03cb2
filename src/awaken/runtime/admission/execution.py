"""Executing runs in this process: admit a run, hold its thread, drive it, release the thread."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from awaken.contracts.errors import (
    LeaseLost,
    StorageError,
    StoreUnavailable,
    ThreadBusy,
    ThreadClaimed,
)
from awaken.contracts.lifecycle import NaturalEnd, RunStatus
from awaken.contracts.runs.records import RunKind, RunRequest, RunResult
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.storage.store import Checkout, Store
from awaken.contracts.tenancy import namespace_of
from awaken.contracts.tracing import CURRENT_RUN, CURRENT_TRACE
from awaken.redaction import describe_error
from awaken.runtime.inference.routing import enabled_routes
from awaken.runtime.journal.leases import Lease, LeaseBook, RunHandedOver, RuntimeClosing
from awaken.runtime.journal.run_log import log_takeover
from awaken.runtime.loop.loop import Body, drive_run
from awaken.runtime.primitives.signals import RUNS_PER_TURN
from awaken.runtime.remote.backend_calls import call_backend
from awaken.runtime.run import ChildStarter, Run, Services
from awaken.runtime.suspension.unattended_ends import SUPERSEDED, Endings
from awaken.runtime.switches import NO_SWITCHES

from .active_runs import ActiveRun, ActiveRuns
from .admission import Admission
from .continuation import CannotGoOn

# Bound once: Python 3.11 reads a member through its class slowly.
_DONE, _FOLLOW_UP = RunStatus.DONE, RunKind.FOLLOW_UP
_LOOK_S = 0.02
_LOOKS = 100
"""How often to check a thread that should be free at once."""
logger = logging.getLogger(__name__)


class Execution:
    """Executes requests in a thread's slot, under a lease if other processes share the store."""

    __slots__ = ("_children", "_services", "_store", "active", "admission", "endings", "leases")

    def __init__(
        self,
        store: Store,
        services: Services,
        admission: Admission,
        leases: LeaseBook | None,
        children: ChildStarter,
    ) -> None:
        self.active = ActiveRuns(services.turns)
        self.admission = admission
        self._store = store
        self._services = services
        self.leases = leases
        self.endings = Endings(store, services)
        """Ends runs that no process executes."""
        self._children = children
        """Starts the child runs of tool calls."""

    async def run_here(
        self, request: RunRequest, configure: Callable[[Run], object] | None = None
    ) -> RunResult:
        """Execute a request in the caller's task; its cancellation is raised again afterwards."""
        try:
            active, run = await self._admit(request, configure)
        except ThreadBusy as error:
            if not await self.claim_was_transient(error):
                raise
            active, run = await self._admit(request, configure)
        run.is_attached = True
        is_cancelled = False
        try:
            result = await self._execute(run)
            active.end(result)
        except BaseException as error:
            active.end(error)
            raise
        finally:
            is_cancelled = run.cancels.end()
            self._retire(active, run)
        if is_cancelled:
            raise asyncio.CancelledError
        return result

    async def claim_was_transient(self, error: ThreadBusy) -> bool:
        """Whether a thread was only claimed for input that needs no model call, and is free again.

        Nothing of the refused request is written, so the caller can try it again.
        """
        if not isinstance(error.__cause__, ThreadClaimed):
            return False
        claimed = DispatchQuery(thread_id=error.thread_id, status=DispatchStatus.CLAIMED, limit=1)
        for _ in range(_LOOKS):
            # A thread has one claim; when it is gone, its holder is gone too.
            holders = (await self._store.list_dispatches(claimed)).items
            if not holders or not holders[0].request.is_quiet:
                return not holders
            await asyncio.sleep(_LOOK_S)
        return False

    async def launch(
        self,
        request: RunRequest,
        configure: Callable[[Run], object] | None,
        lease: Lease | None = None,
        found: Checkout | None = None,
    ) -> tuple[ActiveRun, Run]:
        """Execute a request in a task of its own.

        `found` is the thread as it was read under its claim, for a run that is known to be new.
        """
        active, run = await self._admit(request, configure, lease, found)
        loop = asyncio.get_running_loop()
        active.task = loop.create_task(self._execute(run), name=f"run {run.identity.run_id}")
        active.task.add_done_callback(partial(self._task_over, active, run))
        return active, run

    async def _admit(
        self,
        request: RunRequest,
        configure: Callable[[Run], object] | None,
        lease: Lease | None = None,
        found: Checkout | None = None,
    ) -> tuple[ActiveRun, Run]:
        if self._services.turns.runs > RUNS_PER_TURN:
            await self._services.turns.wait(asyncio.get_running_loop())
        request = self.admission.check(request)
        if request.thread_id is not None or request.tenant_id is not None:
            request = request.with_stored_ids()
        thread_id = request.thread_id or self._services.ids.new_id()
        if request.tenant_id is not None and request.thread_id is None:
            thread_id = namespace_of(request.tenant_id) + thread_id
        active = await self.active.reserve(thread_id, is_brief=request.is_quiet)
        try:
            try:
                run = await self.admission.prepare(request, thread_id, found)
            except CannotGoOn:
                if request.continue_run_id:
                    raise
                run = await self._prepare_instead(request, thread_id)
            run.children = self._children
            book = self.leases
            if lease is None and book is not None:
                lease = book.open(thread_id)
            self.active.admit(active, run, lease)
            if configure is not None:
                configure(run)
            if self._services.switches.current is not NO_SWITCHES:
                _check_switches(run)
            if run.agent.instructions is not None or run.agent.context is not None:
                await _instruct(run)
            if run.agent.workflow is not None and not (run.is_continued or run.recovery):
                run.agent.workflow.read_arguments(run.request.messages)
            # The lease is renewed from the moment it is taken.
            if book is not None and lease is not None:
                lease.patience_ms = book.patience_ms
                if lease.claim is None:
                    book.watch(lease, active)
                else:
                    run.journal.on_claimed = partial(book.watch, lease, active)
        except BaseException:
            self.active.release(active)
            raise
        return active, run

    async def _prepare_instead(self, request: RunRequest, thread_id: str) -> Run:
        """Prepare a new run that supersedes the waiting run, which cannot be resumed."""
        try:
            await self.endings.end(thread_id, SUPERSEDED)
        except ThreadClaimed as error:
            raise ThreadBusy(thread_id=thread_id, run_id=error.worker_id) from error
        return await self.admission.prepare(request, thread_id)

    async def _execute(self, run: Run) -> RunResult:
        """Execute a run at its backend in the current task, within its identity and its trace."""
        run.cancels.begin()
        identity, trace = CURRENT_RUN.set(run.identity), None
        if run.record.trace is not CURRENT_TRACE.get():
            trace = CURRENT_TRACE.set(run.record.trace)
        try:
            if run.agent.is_local:
                is_workflow = run.agent.workflow is not None or run.record.is_workflow
                body = _find_workflow_body() if is_workflow else None
                if run.record.purpose is _FOLLOW_UP:
                    # It takes no step, and is not the plugins' run but their work.
                    body, run.has_phases = _find_follow_up_body(), False
                ended = await call_backend(run, drive=partial(drive_run, run, body))
            else:
                # Loaded by the first run of a remote agent: most programs have none.
                from awaken.runtime.remote.remote_run import (  # noqa: PLC0415
                    execute_remote_root_lifecycle,
                )

                ended = await execute_remote_root_lifecycle(run)
            output, is_done = run.output, run.record.status is _DONE
            if run.agent.output is None and is_done and type(ended.termination) is NaturalEnd:
                output = ended.response
            continued_as = run.record.continued_as
            return RunResult(
                run_id=ended.run_id,
                thread_id=ended.thread_id,
                agent_id=ended.agent_id,
                status=run.record.status,
                text=ended.response,
                termination=ended.termination,
                steps=ended.steps,
                usage=ended.usage,
                tickets=ended.tickets,
                output=output if continued_as is None else None,
                continued_as=continued_as,
            )
        except ThreadClaimed as error:
            thread_id = run.identity.thread_id
            raise ThreadBusy(thread_id=thread_id, run_id=error.worker_id) from error
        except RunHandedOver as error:
            await run.cancels.carry_through(partial(self._give_back, run))
            lease = run.journal.lease
            if lease is not None and lease.claim is not None:
                raise RuntimeClosing(run_id=run.identity.run_id) from error
            raise
        except StoreUnavailable as error:
            lease = run.journal.lease
            if run.journal.closed_by is error and lease is not None and lease.dispatch_id is None:
                # No worker gives it back; if that fails too, its lease runs out.
                with suppress(StorageError, TimeoutError):
                    await run.cancels.carry_through(partial(self._give_back, run))
            raise
        finally:
            if trace is not None:
                CURRENT_TRACE.reset(trace)
            CURRENT_RUN.reset(identity)

    async def _give_back(self, run: Run) -> None:
        """Give a run that stopped here to another process; a run that has ended stays ended."""
        journal, lease = run.journal, run.journal.lease
        assert lease is not None
        await journal.settle()
        if lease.claim is not None:
            return
        await journal.write_tool_records()
        if lease.dispatch_id is None:
            await self._store.give_up_claim(run.identity.thread_id, lease.token)
        else:
            await self._store.requeue(lease.dispatch_id, lease.token, is_charged=False)

    def _task_over(self, active: ActiveRun, run: Run, task: asyncio.Task[RunResult]) -> None:
        self._retire(active, run)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        # A run that was started for no waiting caller has this line only.
        closed_by = run.journal.closed_by
        if isinstance(closed_by, LeaseLost):
            log_takeover(run.record, str(closed_by))
        else:
            problem = describe_error(closed_by or error)
            logger.info("Run '%s' stopped here: %s", run.identity.run_id, problem)

    def _retire(self, active: ActiveRun, run: Run) -> None:
        if self.leases is not None and active.lease is not None:
            self.leases.forget(active.lease)
            if run.journal.closed_by is not None and isinstance(run.journal.closed_by, LeaseLost):
                for watch in self._services.watchers.lost_leases:
                    watch()
        self.active.release(active)
        # The callback refers back to the run, which would wait for the garbage collector.
        run.journal.on_claimed = None
        run.feed.close()


def _find_workflow_body() -> Body:
    # Loaded by the first run of a workflow: most programs have none.
    from awaken.runtime.workflows.driver import drive_workflow  # noqa: PLC0415

    return drive_workflow


def _find_follow_up_body() -> Body:
    # Loaded by the first follow-up run: most programs have none.
    from awaken.runtime.loop.follow_ups import follow_up  # noqa: PLC0415

    return follow_up


async def _instruct(run: Run) -> None:
    """Check the context of a new run, and give its agent the instructions of the run.

    A run that is about to be cancelled takes no step, and needs neither.

    Raises:
        InvalidContext: The context does not fit the agent.
        InstructionsFailed: The agent's instructions could not be made.
    """
    is_new = not run.is_continued and run.recovery is None
    if run.token.cause is None and (is_new or run.agent.instructions is not None):
        # Loaded by the first run that needs it: most programs have no such agent.
        from awaken.runtime.loop.instructions import instruct_agent  # noqa: PLC0415

        run.agent = await instruct_agent(run, run.agent)


def _check_switches(run: Run) -> None:
    """Refuse a run of a paused agent, and a direct one whose models are all disabled.

    A run that is about to be cancelled passes: it takes no step. A queued run whose models are
    disabled passes too, and fails when it asks one, so that its record says why.

    Raises:
        AgentPaused: The agent is paused; a dispatch for it stays queued.
        ModelDisabled: No model of the agent may be asked.
    """
    if run.token.cause is not None:
        return
    switched, agent = run.services.switches.current, run.agent
    switched.check_agent(agent.spec.id)
    lease = run.journal.lease
    is_queued = lease is not None and lease.dispatch_id is not None
    if agent.models and not (run.is_continued or is_queued):
        enabled_routes(agent.models, switched, run.pinned.registries.models)
