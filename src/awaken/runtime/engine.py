"""The run engine: starts runs, at most one per thread, and controls those that execute."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from weakref import WeakValueDictionary

import msgspec

from awaken.contracts.errors import (
    InvalidResume,
    ThreadBusy,
    UnknownRun,
    UnknownTicket,
    VersionConflict,
)
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages import Message
from awaken.contracts.runs import (
    DecisionReceipt,
    RunRecord,
    RunRequest,
    RunResult,
    SteerReceipt,
)
from awaken.contracts.storage import Store
from awaken.contracts.suspension import Ticket, ToolCallResume

from .active_runs import ActiveRun, ActiveRuns
from .admission import Admission
from .cancellation import TaskCancels
from .handles import RunHandle
from .resolution.registry import RegistryHandle
from .results import executed_result, recorded_result
from .resume import check_decision, take_decisions
from .run import Run, Services
from .streams import EventReader

Decision = tuple[str, ToolCallResume]


class RunEngine:
    """Admits, executes and controls runs."""

    def __init__(self, store: Store, registry: RegistryHandle, services: Services) -> None:
        self.store = store
        self.registry = registry
        self.services = services
        self.active = ActiveRuns()
        self._admission = Admission(store, registry, services)
        self._deciding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, request: RunRequest) -> RunResult:
        """Execute a request to its end or its suspension; the run ends with its caller."""
        return await self._run_here(request, _attach)

    async def stream(self, request: RunRequest) -> AsyncGenerator[AgentEvent, None]:
        """Execute a request and yield its events; closing the iterator cancels the run."""
        reader = EventReader(is_attached=True)

        def attach(run: Run) -> None:
            _attach(run)
            run.feed.attach(reader)

        active, run = await self._launch(request, attach)
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

    async def start(self, request: RunRequest) -> RunHandle:
        """Start a request and return once the run is durable.

        Raises:
            StorageError: The run could not be made durable.
        """
        opened = asyncio.Event()

        def watch(run: Run) -> None:
            run.on_open = opened.set

        active, run = await self._launch(request, watch)
        assert active.task is not None
        active.task.add_done_callback(lambda _: opened.set())
        await opened.wait()
        if active.task.done():
            active.task.result()
        return RunHandle(active, run, self.store)

    async def cancel(self, id_: str, cause: str = "user") -> bool:
        """Cancel by run or thread id, also a run that waits.

        Returns whether the run ends cancelled: False when there is none, or when it is ending
        otherwise already.
        """
        active = self.active.find(id_)
        if active is not None:
            return active.cancel(cause)
        record = await self._waiting_record(id_)
        if record is None:
            return False
        try:
            await self._run_here(_continuation(record), lambda run: _cancelled(run, cause))
        except ThreadBusy:
            # Somebody made it go on meanwhile.
            holder = self.active.of_thread(record.thread_id)
            return holder is not None and holder.cancel(cause)
        except InvalidResume:
            return False
        return True

    async def cancel_and_wait(self, id_: str, timeout_ms: int = 5_000) -> bool:
        """Cancel and wait until the thread is free; False when nothing ran or it takes too long."""
        active = self.active.find(id_)
        if active is None:
            return await self.cancel(id_)
        active.cancel("user")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await active.released.wait()
        except TimeoutError:
            return False
        return True

    async def decide(self, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
        """Take decisions on tickets of one run, all or none, and let the run go on.

        Raises:
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket was decided otherwise or closed.
        """
        first = await self._ticket(decisions[0][0])
        lock = self._deciding.setdefault(first.thread_id, asyncio.Lock())
        async with lock:
            # Read again: whoever held the lock may have taken the same decision.
            if fresh := await self._untaken(first, decisions):
                try:
                    await self._take(first, fresh)
                except (VersionConflict, InvalidResume):
                    # Another process was faster, perhaps with the same decisions.
                    if await self._untaken(first, fresh):
                        raise
        return tuple(
            DecisionReceipt(
                ticket_id=ticket_id,
                run_id=first.run_id,
                thread_id=first.thread_id,
                decision_id=given.decision_id,
            )
            for ticket_id, given in decisions
        )

    def steer(self, id_: str, messages: Sequence[Message]) -> SteerReceipt:
        """Send messages into a running run; it takes them in before its next inference."""
        self._admission.check_messages(messages)
        active = self.active.find(id_)
        if active is None or active.run is None:
            return SteerReceipt(is_accepted=False)
        ids = self.services.ids
        # Fresh ids: one that is used already would make the next commit impossible.
        named = [msgspec.structs.replace(message, id=ids.new_id()) for message in messages]
        is_accepted = active.run.inbox.put(named)
        return SteerReceipt(
            is_accepted=is_accepted,
            run_id=active.run_id,
            message_ids=tuple(message.id or "" for message in named) if is_accepted else (),
        )

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run that executes here ends or waits; for others return what is recorded.

        Raises:
            UnknownRun: There is no such run.
        """
        active = self.active.of_run(run_id)
        if active is not None:
            return await asyncio.shield(active.outcome())
        record = await self.store.load_run(run_id)
        if record is None:
            raise UnknownRun(run_id=run_id)
        return await recorded_result(record, self.store, self.registry.snapshot())

    async def close(self) -> None:
        """Cancel everything that executes here and wait for it."""
        while slots := list(self.active):
            for active in slots:
                active.cancel("shutdown")
            for active in slots:
                await active.released.wait()

    async def _run_here(self, request: RunRequest, configure: Callable[[Run], None]) -> RunResult:
        """Execute a request in the caller's task, whose own cancellation goes on afterwards."""
        active, run = await self._admitted(request, configure)
        _begin(run)
        is_cancelled = False
        try:
            result = await _execute(run)
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

    async def _launch(
        self, request: RunRequest, configure: Callable[[Run], None]
    ) -> tuple[ActiveRun, Run]:
        """Execute a request in a task of its own."""
        active, run = await self._admitted(request, configure)
        loop = asyncio.get_running_loop()
        active.task = loop.create_task(_executed(run), name=f"run {run.identity.run_id}")
        active.task.add_done_callback(lambda _: self._retire(active, run))
        return active, run

    async def _admitted(
        self, request: RunRequest, configure: Callable[[Run], None]
    ) -> tuple[ActiveRun, Run]:
        self._admission.check(request)
        active = self.active.reserve(request.thread_id or self.services.ids.new_id())
        try:
            run = await self._admission.prepare(request, active.thread_id)
            self.active.admit(active, run)
        except BaseException:
            self.active.release(active)
            raise
        configure(run)
        return active, run

    def _retire(self, active: ActiveRun, run: Run) -> None:
        self.active.release(active)
        run.alarm.close()
        run.feed.close()

    async def _untaken(self, first: Ticket, decisions: Sequence[Decision]) -> list[Decision]:
        """Check decisions on one run; returns those that were not taken before."""
        now = self.services.clock.now_ms()
        fresh = []
        for ticket_id, given in decisions:
            ticket = await self._ticket(ticket_id)
            if ticket.run_id != first.run_id:
                raise UnknownTicket(ticket_id=ticket_id)
            if check_decision(ticket, given, now):
                fresh.append((ticket_id, given))
        return fresh

    async def _take(self, ticket: Ticket, decisions: list[Decision]) -> None:
        active = self.active.of_thread(ticket.thread_id)
        if active is not None and active.run is not None and not active.run.token.is_sealed:
            # The run still executes: it finds the decision when its other calls are done.
            take_decisions(active.run, decisions)
            await active.run.flush()
            return
        if active is not None:
            await active.released.wait()
        record = await self.store.load_run(ticket.run_id)
        if record is None:
            raise UnknownRun(run_id=ticket.run_id)
        await self.start(_continuation(record, decisions))

    async def _ticket(self, ticket_id: str) -> Ticket:
        ticket = await self.store.find_ticket(ticket_id)
        if ticket is None:
            raise UnknownTicket(ticket_id=ticket_id)
        return ticket

    async def _waiting_record(self, id_: str) -> RunRecord | None:
        """The waiting run of an id; one that means two different runs means none."""
        thread = await self.store.load_thread(id_)
        open_id = thread.open_run_id if thread is not None else None
        records = [await self.store.load_run(run_id) for run_id in (id_, open_id) if run_id]
        waiting = {it.run_id: it for it in records if it is not None and it.is_resumable_waiting}
        return next(iter(waiting.values())) if len(waiting) == 1 else None


def _continuation(record: RunRecord, decisions: Sequence[Decision] = ()) -> RunRequest:
    """A request to go on with a run as it was begun: gates must see the same mode and adapter."""
    return RunRequest(
        thread_id=record.thread_id,
        continue_run_id=record.run_id,
        decisions=tuple(decisions),
        run_mode=record.run_mode,
        adapter=record.adapter,
        dispatch_id=record.dispatch_id,
        session_id=record.session_id,
        transport_request_id=record.transport_request_id,
    )


def _begin(run: Run) -> None:
    run.cancels = TaskCancels(run.token, run.alarm, run.services.limits.run_end_ms)


async def _executed(run: Run) -> RunResult:
    _begin(run)
    return await _execute(run)


async def _execute(run: Run) -> RunResult:
    return executed_result(run, await run.agent.backend.execute_root(run))


def _attach(run: Run) -> None:
    run.is_attached = True


def _cancelled(run: Run, cause: str) -> None:
    run.is_attached = True
    run.token.cancel(cause)
