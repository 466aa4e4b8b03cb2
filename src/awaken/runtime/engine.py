"""The run engine: starts runs, at most one per thread, and controls those that execute."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from awaken.contracts.errors import (
    AgentPaused,
    InvalidResume,
    LeaseLost,
    ThreadBusy,
    UnknownRun,
    UnknownTicket,
    UnsupportedFeature,
    VersionConflict,
)
from awaken.contracts.events import AgentEvent
from awaken.contracts.identity import is_generated
from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.messages.message import Message, MessageMetadata, Role
from awaken.contracts.runs.records import RunRequest, RunResult, SteerReceipt
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.outbox import AbortRemote
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionReceipt, Ticket

from .admission.active_runs import ActiveRun
from .admission.admission import Admission
from .admission.continuation import CannotGoOn
from .admission.execution import Execution
from .admission.handles import RunHandle
from .admission.results import load_result
from .children.background_tasks import BackgroundTasks, TaskMailbox
from .children.delegates import Children
from .children.sub_runs import ChildRuns
from .context.undo import undo_compaction
from .journal.known_messages import AlreadySaid, check_chosen_ids
from .journal.leases import Lease, LeaseBook
from .journal.streams import EventReader
from .loop.task_waits import is_suspending
from .plugins.input_screens import Seen
from .primitives.cancellation import CarriedWork
from .primitives.signals import Latch
from .remote.abort import abort_remote
from .resolution.registry import RegistryHandle
from .run import Run, Services
from .suspension.decisions import build_resume_dispatch, receipts_of, write_decisions
from .suspension.dispatch_plan import (
    Decision,
    Deliver,
    Drop,
    EndFirst,
    EndRun,
    Postpone,
    RecoverFirst,
    continuation,
    delivery_of,
)
from .suspension.resume import take_decisions
from .suspension.unattended_ends import SUPERSEDED

if TYPE_CHECKING:
    # Only a process that replays runs or evaluates agents has worlds.
    from .admission.worlds import WorldSource

StreamWhenBusy = Callable[[ThreadBusy], AsyncGenerator[AgentEvent, None]]


class RunEngine:
    """Admits, executes and controls runs."""

    def __init__(
        self,
        store: Store,
        registry: RegistryHandle,
        services: Services,
        leases: LeaseBook | None = None,
        mailbox: TaskMailbox | None = None,
        worlds: "WorldSource | None" = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.services = services
        # In a store that no other process sees, no thread has to be held against others.
        leases = leases if store.is_shared else None
        self._admission = Admission(store, registry, services, worlds)
        self.tasks = BackgroundTasks(self, leases, mailbox)
        """Background tasks that runs of this process have started."""
        self.carried = CarriedWork()
        """What resumes runs after a decision, and takes over children."""
        children = ChildRuns(Children(self, leases), self.tasks)
        self._execution = Execution(store, services, self._admission, leases, children)
        self.active = self._execution.active
        self.endings = self._execution.endings
        self._deciding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def run(self, request: RunRequest) -> Coroutine[Any, Any, RunResult]:
        """Execute a request until it ends or suspends; cancelling the caller cancels the run."""
        return self._execution.run_here(request)

    async def stream(
        self, request: RunRequest, when_busy: StreamWhenBusy | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Execute a request and yield its events; closing the iterator cancels the run.

        If the thread is busy, it yields what `when_busy` yields instead.
        """
        reader = EventReader(is_attached=True)

        def attach(run: Run) -> None:
            run.is_attached = True
            run.feed.attach(reader)

        refusal: ThreadBusy | None = None
        try:
            active, run = await self._execution.launch(request, attach)
            assert active.task is not None
            try:
                async for event in reader:
                    yield event
                await active.task
            finally:
                run.feed.detach(reader)
                run.token.cancel("caller")
                if not active.task.done():
                    await asyncio.wait([active.task])
        except ThreadBusy as error:
            # The refusal comes before the run's first commit, and so before its first event.
            if when_busy is None:
                raise
            refusal = error
        if refusal is not None and when_busy is not None:
            async with aclosing(when_busy(refusal)) as events:
                async for event in events:
                    yield event

    async def execute(self, dispatch: RunDispatch) -> RunResult:
        """Execute a dispatch that was claimed for this process, under its claim.

        The run is started, resumed where it waits, or recovered where another process left it.
        If another unfinished run was left on the thread, that run is recovered first.
        A stale dispatch is dropped. One whose attempts are used up, or that was cancelled, ends its
        run without executing it.
        The claim is released when this returns. When it raises anything but `LeaseLost` or
        `RunHandedOver`, the claim is still held and the caller gives the dispatch back.

        Raises:
            ThreadBusy: A run of the thread was just started here and will be refused, or a
                waiting run must not receive the input.
            LeaseLost: Another process has the thread.
            RunHandedOver: The engine is being closed; the dispatch was given back.
        """
        assert dispatch.claim_token is not None
        while (holder := self.active.of_thread(dispatch.thread_id)) is not None:
            # It is about to end, or to find that the thread is claimed.
            await holder.released.wait()
        checkout = await self.store.checkout(dispatch.thread_id)
        record = await self.store.load_run(dispatch.taken_by or dispatch.run_id)
        match delivery_of(dispatch, checkout, record):
            case Drop(record=ended):
                await self.store.release(dispatch.dispatch_id, dispatch.claim_token)
                return await load_result(ended, self.store, self.registry)
            case EndRun() as end:
                ended = await self.endings.end_dispatch(dispatch, end)
                return await load_result(ended, self.store, self.registry)
            case Deliver() as delivery:
                return await self._deliver(dispatch, dispatch.claim_token, delivery)
            case RecoverFirst(request=request):
                lease = Lease(dispatch.claim_token, dispatch_id=dispatch.dispatch_id, is_kept=True)
                active, _ = await self._execution.launch(request, lambda _: None, lease)
                await asyncio.shield(active.outcome())
                return await self.execute(dispatch)
            case Postpone(record=waiting):
                raise ThreadBusy(thread_id=dispatch.thread_id, run_id=waiting.run_id)
            case EndFirst(termination=termination):
                await self.endings.end(dispatch.thread_id, termination, token=dispatch.claim_token)
                return await self.execute(dispatch)

    async def _deliver(self, dispatch: RunDispatch, token: str, delivery: Deliver) -> RunResult:
        lease, decisions = Lease(token, dispatch_id=dispatch.dispatch_id), delivery.decisions
        try:
            active, _ = await self._execution.launch(
                delivery.request, lambda run: take_decisions(run, decisions), lease, delivery.found
            )
        except AlreadySaid as error:
            return await self._pass_on(dispatch, error)
        except CannotGoOn:
            if dispatch.request.continue_run_id:
                raise
            # The waiting run is superseded: the message starts a new run.
            await self.endings.end(dispatch.thread_id, SUPERSEDED, token=token)
            return await self.execute(dispatch)
        return await asyncio.shield(active.outcome())

    async def _pass_on(self, dispatch: RunDispatch, error: AlreadySaid) -> RunResult:
        """End a dispatch whose input another run has taken in, and return that run's result."""
        assert dispatch.claim_token is not None
        record = await self.store.load_run(error.run_id)
        if record is None:
            raise error
        release = Release(taken_by=error.run_id)
        await self.store.release(dispatch.dispatch_id, dispatch.claim_token, release)
        return await load_result(record, self.store, self.registry)

    async def start(self, request: RunRequest, reader: EventReader | None = None) -> RunHandle:
        """Start a request and return once the run is durable; a reader gets all its events.

        Raises:
            StorageError: The run could not be made durable.
        """
        try:
            return await self._start(request, reader)
        except ThreadBusy as error:
            # An attached reader has seen its feed end, and cannot be attached to a second one.
            if reader is not None or not await self._execution.claim_was_transient(error):
                raise
        return await self._start(request, None)

    async def _start(
        self, request: RunRequest, reader: EventReader | None, *, has_input: bool = False
    ) -> RunHandle:
        opened = Latch()

        def watch(run: Run) -> None:
            run.on_open = opened.set
            run.has_input = run.has_input or has_input
            if reader is not None:
                run.feed.attach(reader)

        active, run = await self._execution.launch(request, watch)
        assert active.task is not None

        def give_up(_task: object) -> None:
            opened.set()

        active.task.add_done_callback(give_up)
        await opened.wait()
        # The task lives as long as the run, and would keep the callback.
        active.task.remove_done_callback(give_up)
        if active.task.done():
            active.task.result()
        return RunHandle(active, run, self.store, self.tasks.cancel)

    async def cancel_active(self, active: ActiveRun, cause: str = "user") -> bool:
        """Cancel the run in a slot; False when its end is decided, or it goes on elsewhere."""
        is_cancelled = await self._ask(active, cause)
        if is_cancelled or active.run is None or not is_suspending(active.run):
            return is_cancelled
        # The commit that makes the run wait cannot be stopped: cancel the waiting run after it.
        await active.released.wait()
        return await self.cancel_waiting(active.run_id, cause)

    async def cancel_waiting(self, run_id: str, cause: str = "user") -> bool:
        """Cancel a run that waits; False when it does not.

        Raises:
            UnknownAgent: This process does not have the run's agent.
        """
        record = await self.store.load_run(run_id)
        if record is None or not record.is_resumable_waiting:
            return False
        try:
            ended = await self._execution.run_here(
                continuation(record), lambda run: run.token.cancel(cause)
            )
        except ThreadBusy:
            # It was resumed meanwhile, or superseded by a new run, which must not be cancelled.
            holder = self.active.of_thread(record.thread_id)
            is_meant = holder is not None and await holder.know_run() == run_id
            return holder is not None and is_meant and await self._ask(holder, cause)
        except (InvalidResume, LeaseLost, UnsupportedFeature, VersionConflict):
            # It was resumed, here or in another process, or its backend cannot resume it: then the
            # caller ends it by force.
            return False
        return isinstance(ended.termination, Cancelled)

    async def cancel_and_wait(self, active: ActiveRun, timeout_ms: int = 5_000) -> bool:
        """Cancel the run in a slot and wait until its thread is free; False on timeout."""
        if active.run is not None and is_suspending(active.run):
            return await self.cancel_active(active)
        await self._ask(active, "user")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await active.released.wait()
        except TimeoutError:
            return False
        return True

    async def decide(self, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
        """Write decisions on tickets of one run, all or none, and resume the run here.

        Raises:
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket was decided otherwise or closed.
        """
        named = [(await self._ticket(ticket_id), given) for ticket_id, given in decisions]
        first = named[0][0]
        for ticket, _ in named:
            if ticket.run_id != first.run_id:
                raise UnknownTicket(ticket_id=ticket.ticket_id)
        record = await self.store.load_run(first.run_id)
        if record is None:
            raise UnknownRun(run_id=first.run_id)
        then = build_resume_dispatch(continuation(record), self.services.ids.new_id())
        queued = await write_decisions(self.store, self.services.clock, named, then)
        if queued is not None:
            await self.go_on(queued)
        return receipts_of(first, decisions)

    async def go_on(self, queued: RunDispatch) -> bool:
        """Resume a run in this process after a decision on its tickets, if its thread is free.

        The run resumes even if the caller is cancelled meanwhile, because the decision is durable.
        False when the queued dispatch is left to the worker that claims it.

        Raises:
            ThreadBusy: Another process has the thread.
            UnknownAgent: This process does not have the run's agent.
            InvalidResume: The run is no longer waiting.
        """
        return await self.carried.carry(self._go_on(queued), f"go on {queued.run_id}")

    async def _go_on(self, queued: RunDispatch) -> bool:
        lock = self._deciding.setdefault(queued.thread_id, asyncio.Lock())
        async with lock:
            while (active := self.active.of_thread(queued.thread_id)) is not None:
                if active.run is None or not active.run.token.is_sealed:
                    # The run reads the decisions when its other calls are done.
                    active.notify_input()
                    return active.run is not None
                await active.released.wait()
            sent = await self.store.find_dispatch(queued.dispatch_id)
            record = await self.store.load_run(queued.run_id)
            if sent is None or sent.status is not DispatchStatus.QUEUED or record is None:
                # Another worker has already taken the dispatch: nothing is left to do.
                return True
            try:
                await self._start(continuation(record), None, has_input=True)
            except AgentPaused:
                # The dispatch stays queued until the agent is released.
                return False
            return True

    async def screen_request(self, request: RunRequest) -> RunRequest:
        """Return a request as it may be stored before execution; see `Admission.screen_request`.

        Raises:
            InvalidInput: A message has the id of an answer, or of one that is being generated.
        """
        request = await self._admission.screen_request(request)
        if request.thread_id and any(it.id and is_generated(it.id) for it in request.messages):
            checkout = await self.store.checkout(request.thread_id)
            check_chosen_ids(request.messages, () if checkout is None else checkout.messages)
            active = self.active.of_thread(request.thread_id)
            if active is not None and active.run is not None:
                answer = Message(role=Role.ASSISTANT, id=active.run.step.message_id)
                check_chosen_ids(request.messages, (answer,))
        return request

    async def screen_history(self, request: RunRequest, history: Sequence[Message]) -> Seen:
        """Return an imported history as it may be stored; see `Admission.screen_history`."""
        return await self._admission.screen_history(request, history)

    def steer(self, id_: str, messages: Sequence[Message]) -> SteerReceipt:
        """Send messages into a running run; it reads them before its next inference.

        Raises:
            AmbiguousId: The id means two runs.
        """
        self._admission.check_messages(messages)
        self.active.check_meaning(id_)
        active = self.active.find(id_)
        if active is None or active.run is None:
            return SteerReceipt(is_accepted=False)
        ids, mark = self.services.ids, MessageMetadata(user_id="")
        # New ids: the store would refuse the next commit if an id were already in use.
        named = [msgspec.structs.replace(it, id=ids.new_id(), metadata=mark) for it in messages]
        is_accepted = active.run.inbox.put(named)
        return SteerReceipt(
            is_accepted=is_accepted,
            run_id=active.run_id,
            message_ids=tuple(message.id or "" for message in named) if is_accepted else (),
        )

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run that executes here ends or waits; for others return the stored result.

        Raises:
            UnknownRun: There is no such run.
        """
        active = self.active.of_run(run_id)
        if active is not None:
            return await active.result()
        record = await self.store.load_run(run_id)
        if record is None:
            raise UnknownRun(run_id=run_id)
        return await load_result(record, self.store, self.registry)

    async def settle(self, timeout_ms: int) -> None:
        """Wait until nothing executes here, or until the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while slots := list(self.active):
                    await slots[0].released.wait()

    async def close(self, grace_ms: int = 0) -> None:
        """Give running runs a grace period to finish, then stop them and wait for them.

        A run that holds a lease is handed over, so that another process continues it; any other run
        is cancelled.
        """
        if grace_ms > 0:
            await self.settle(grace_ms)
        await self.tasks.close()
        await self.carried.close()
        while slots := list(self.active):
            for active in slots:
                active.stop()
            for active in slots:
                await active.released.wait()
        await self.services.compactor.close()

    async def undo_compaction(self, thread_id: str) -> bool:
        """Send the whole history of a thread again; return whether any of it was left out before.

        Raises:
            ThreadBusy: A run of the thread executes here.
            ThreadClaimed: One executes in another process.
        """
        slot = await self.active.reserve(thread_id)
        try:
            self.services.compactor.forget(thread_id)
            services = self.services
            return await undo_compaction(self.store, thread_id, services.clock, services.ids)
        finally:
            self.active.release(slot)

    async def abort_remote(self, order: AbortRemote) -> None:
        """Abort the remote work of a run that has ended.

        Raises:
            UnknownAgent: This process does not have the agent; another one may.
            ExecutionBackendError: The remote backend could not be reached.
        """
        await abort_remote(self.store, self.registry, order)

    async def _ask(self, active: ActiveRun, cause: str) -> bool:
        """Cancel a run that executes here; with a lease, durably, even if this process dies now.

        False when its end is decided otherwise, or the store did not accept it for another process.
        """
        run, lease = active.run, active.lease
        if self._execution.leases is None:
            return active.cancel(cause)
        if run is None or lease is None or lease.claim is not None:
            return await self._cancel_early(active, cause)
        if run.token.is_sealed and not (run.token.is_cancelled or active.is_left):
            return False
        # Also for a run that ends as cancelled: that may be known to this process alone.
        try:
            holder = await self.store.request_cancel(active.thread_id, cause, active.run_id)
        except BaseException:
            active.cancel(cause)
            raise
        if holder is None and not run.token.is_sealed:
            # The lease has expired, and this process has not noticed yet.
            active.lease_lost()
        if holder is None:
            return not active.is_left and await self._cancel_early(active, cause)
        # A stored request holds, even if the run's end is decided otherwise here.
        active.cancel(cause)
        return True

    async def _cancel_early(self, active: ActiveRun, cause: str) -> bool:
        """Cancel a run that has no claim on its thread; return whether it ended cancelled."""
        if not active.cancel(cause):
            return False
        await active.released.wait()
        record = await self.store.load_run(active.run_id) if active.run_id else None
        return record is not None and isinstance(record.termination, Cancelled)

    async def _ticket(self, ticket_id: str) -> Ticket:
        ticket = await self.store.find_ticket(ticket_id)
        if ticket is None:
            raise UnknownTicket(ticket_id=ticket_id)
        return ticket
