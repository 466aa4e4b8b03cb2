"""What one tenant can see and do; for a tenant, objects of other tenants do not exist."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.config.audit import AuditTrail
from awaken.contracts.config.connections import ConfigReader
from awaken.contracts.errors import InvalidResume, ThreadBusy, UnknownAgent, UnknownRun
from awaken.contracts.events import LoggedEvent
from awaken.contracts.runs.records import RunRecord, RunRequest, RunResult, run_id_in_use
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.dispatch import DeliveryOptions, InputMode
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, Page, RunQuery
from awaken.contracts.storage.store import DeleteStrategy, Store
from awaken.contracts.suspension.policy import PolicyInspector
from awaken.contracts.suspension.ticket_names import find_by_id
from awaken.contracts.suspension.tickets import DecisionReceipt, ToolCallResume
from awaken.contracts.tenancy import remove_namespace
from awaken.contracts.tracing import TraceContext
from awaken.mailbox.receipts import SubmitReceipt
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.known_messages import AlreadySaid, make_already_said, without_repeats
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .busy_threads import BUSY, BusyThreads
from .control import RunControl, run_events
from .decisions import Find, resolve_decisions
from .demo_data import DemoData
from .edited_calls import check_edits
from .event_streams import EventStream, StreamHub
from .outputs import AgentOutputs
from .remembered_answers import RememberedAnswers
from .request_limits import check_request
from .threads import ThreadView, check_cursor
from .workers import WorkerReport


class AppServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services that all views of a process share."""

    engine: RunEngine
    control: RunControl
    streams: StreamHub
    busy: BusyThreads
    clock: Clock
    ids: IdSource
    report: WorkerReport | None = None
    """Shows this process to the others; None if the store is this process's own."""
    audit: AuditTrail | None = None
    """Records what operators do; None without managed configuration."""
    config: ConfigReader | None = None
    """The configuration as it is managed; None without that."""
    demo: DemoData | None = None
    """Makes demo data; None if a host has left it out."""
    policy: PolicyInspector | None = None
    """Reads permission rules; without it, only the gate of a run does."""
    find_memory: Callable[[], Any] | None = None  # The memory of the process, made on demand.

    @property
    def store(self) -> Store:
        """Where everything durable is."""
        return self.engine.store

    @property
    def profile(self) -> ProfileStore:
        """Small durable values, shared by all processes of the store."""
        return self.engine.services.profile

    def view(
        self,
        tenant_id: str | None,
        principal_id: str = "anonymous",
        trace: TraceContext | None = None,
    ) -> "TenantView":
        """The view of a caller of this tenant; without a tenant it sees everything."""
        return TenantView(self, tenant_id, principal_id, trace)


class StartedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was started, or input that was queued for one, and the stream of its events."""

    run_id: str
    thread_id: str
    stream: EventStream


class ServiceView(ThreadView):
    """The services of the process that a view uses; each is made when it is first needed."""

    __slots__ = ("_outputs", "_services")

    _outputs: AgentOutputs | None
    _services: AppServices

    @property
    def remembered(self) -> RememberedAnswers:
        """Decisions that hold for later calls as well: to list and to revoke."""
        services = self._services
        return RememberedAnswers(self._store, services.profile, services.clock, self.tenant_id)

    @property
    def config(self) -> ConfigReader | None:
        """The managed configuration; the caller must check first who may read it."""
        return self._services.config

    @property
    def audit(self) -> AuditTrail | None:
        """Where acts of callers are recorded; None without managed configuration."""
        return self._services.audit

    @property
    def outputs(self) -> AgentOutputs:
        """Decodes answers of agents into JSON of their output types; keeps what it looked up."""
        if self._outputs is None:
            self._outputs = AgentOutputs(self._services.engine.registry)
        return self._outputs

    @property
    def engine(self) -> RunEngine:
        """The engine; the caller must check first what belongs to the tenant."""
        return self._services.engine

    @property
    def profile(self) -> ProfileStore:
        """Small durable values; the caller must check first to whom they belong."""
        return self._services.profile


class TenantView(ServiceView):
    """The use cases of one tenant. Objects of other tenants are unknown here."""

    __slots__ = ("_control", "_services", "control", "notify_changed", "principal_id", "trace")

    def __init__(
        self,
        services: AppServices,
        tenant_id: str | None,
        principal_id: str,
        trace: TraceContext | None = None,
    ) -> None:
        super().__init__(
            services.engine.store,
            services.clock,
            services.ids,
            tenant_id,
            services.engine.screen_history,
        )
        self.principal_id = principal_id
        self.trace = trace
        """The caller's trace that its runs belong to, if their requests name none."""
        self._services = services
        self._outputs = None
        self._control = self.control = services.control
        self.notify_changed = services.control.notify_changed
        """Notifies all watchers of a thread, by its stored id, or of another key."""

    async def agents(self) -> dict[str, ResolvedAgent]:
        """List the agents that can be run, by id, without those discovered on other servers.

        Only agents that name them may call those, with the operator's credentials. The host's
        resolver may know more agents than it lists. Hidden agents are left out, and so are those
        that this process cannot resolve as they are configured.

        Raises:
            AgentResolverFailed: The host's resolver could not list its agents.
        """
        listed = await self._services.engine.registry.list_agents()
        return {name: listed.resolve(name) for name in _own_agents(listed)}

    async def agent(self, agent_id: str, publication: int | None = None) -> ResolvedAgent:
        """Resolve an agent that can be run, by its own id; not one discovered on another server.

        Raises:
            UnknownPublication: There is none of that number.
            UnknownAgent: There is none, or no new run may take it.
            AgentUnusable: This process cannot resolve it as it is configured.
            AwakenError: The host's resolver failed, or returned something that is not an agent.
        """
        registry = self._services.engine.registry
        with suppress(UnknownAgent):
            pinned = await registry.pin(agent_id, publication)
            found = pinned.resolve(agent_id)
            is_own = found.spec.id == agent_id and found.spec.registry is None
            if is_own and agent_id not in pinned.registries.hidden:
                return found
        raise self._unknown(agent_id)

    def _unknown(self, agent_id: str) -> UnknownAgent:
        known = sorted(_own_agents(self._services.engine.registry.snapshot()))
        return UnknownAgent(agent_id=agent_id, known=", ".join(known) or "none")

    async def start(self, request: RunRequest) -> StartedRun:
        """Run an agent on a thread, and stream it; `on_busy` decides for a busy thread.

        Raises:
            UnknownThread: The thread belongs to another tenant.
            ThreadBusy: The thread is busy, and the request rejects that.
            AwakenError: The request cannot be served; nothing was written.
        """
        request = self._prepare_request(request)
        try:
            return await self._start_here(request)
        except BUSY as error:
            refusal = error
        if (same := await self._find_same(request)) is not None:
            return same
        begun = await self._services.busy.resolve(request, refusal, self._start_here)
        if isinstance(begun, StartedRun):
            return begun
        return await self._follow(begun)

    async def send(
        self,
        request: RunRequest,
        mode: InputMode,
        delivery: DeliveryOptions | None = None,
        asked: Any = None,
    ) -> SubmitReceipt:
        """Send input to a thread; it is durable when this returns, and executed by any worker.

        `asked` is the client's own input, if the request was derived from the thread's state: the
        same input again under the same key gives the same receipt.

        Raises:
            UnknownThread: The thread belongs to another tenant.
            AwakenError: The input cannot be accepted; nothing was written.
        """
        receipt = await self._control.submit(
            self._prepare_request(request), mode, delivery or {}, asked
        )
        return self._hide_namespace(receipt)

    async def wait(self, run_id: str, timeout_ms: int | None = None) -> RunResult:
        """Wait until a run ends or waits for a decision.

        Raises:
            UnknownRun: There is no such run.
            TimeoutError: It takes too long.
        """
        await self.run(run_id)
        return self._hide_namespace(
            await self._control.wait(self.add_namespace(run_id), timeout_ms)
        )

    async def follow_run(self, run_id: str, after: int | None = None) -> EventStream:
        """Stream a run from a cursor, or from its start, up to its end or suspension."""
        await self.run(run_id)
        return self._adapt_stream(
            await self._services.streams.stream_run(self.add_namespace(run_id), after)
        )

    async def follow_thread(self, thread_id: str, after: int | None = None) -> EventStream:
        """Stream all events of a thread from a cursor, or from now on."""
        await self.thread(thread_id)
        return self._adapt_stream(
            await self._services.streams.stream_thread(self.add_namespace(thread_id), after)
        )

    async def run_events(self, run_id: str, after: int, limit: int) -> tuple[LoggedEvent, ...]:
        """Read a page of a run's events; cursors are those of the thread, see `events`."""
        record = await self._record(run_id)
        if record.started_at is None:
            return ()
        check_cursor(after, await self.thread(record.thread_id))
        start = max(after, record.log_start)
        return self._hide_namespace(await run_events(self._store, record, start, limit))

    async def decide(
        self,
        target: RunRecord,
        decisions: Mapping[str, ToolCallResume],
        find: Find = find_by_id,
    ) -> tuple[DecisionReceipt, ...]:
        """Decide on tickets of a run, all or none.

        `find` looks the tickets up by name: by their own ids, or with `find_ticket` also by call
        ids. A blank decision id is derived from the decision: the same one again counts once.

        Raises:
            UnknownTicket: The run has no such ticket.
            AmbiguousTicket: A name may mean several.
            InvalidInput: A decision is not a clear answer, or its edit does not fit the tool.
            EditDenied: The rules deny the call with the edited arguments.
            AlreadyDecided: A ticket was decided differently, closed, or has expired.
        """
        return self._hide_namespace(
            await self._control.decide(await self._resolve_decisions(target, decisions, find))
        )

    async def decide_and_follow(
        self,
        target: RunRecord,
        decisions: Mapping[str, ToolCallResume],
        request: RunRequest | None = None,
        find: Find = find_by_id,
    ) -> EventStream:
        """Decide on tickets of a run that waits, and stream the run from there.

        Messages of the request come after the decisions. If the same was decided before and the
        run has resumed already, the whole run is streamed.

        Raises:
            UnknownTicket: The run has no such ticket.
            AlreadyDecided: A ticket was decided differently, closed, or has expired.
            InvalidResume: The run does not wait, and messages would be lost.
        """
        thread = await self.thread(target.thread_id)
        is_waiting = thread.open_run_id == target.run_id and thread.active_run_id is None
        named = await self._resolve_decisions(target, decisions, find)
        if request is None or not request.messages:
            await self._control.decide(named)
        elif not is_waiting:
            problem = "it does not wait; send the message without the decision"
            raise InvalidResume(run_id=target.run_id, problem=problem)
        else:
            given = {"thread_id": target.thread_id, "run_id_hint": None, "decisions": tuple(named)}
            await self.send(msgspec.structs.replace(request, **given), InputMode.RESUME)
        after = thread.event_seq if is_waiting else None
        return self._adapt_stream(
            await self._services.streams.stream_run(self.add_namespace(target.run_id), after)
        )

    async def cancel_run(self, run_id: str) -> bool:
        """Cancel a run wherever it executes; False when there is nothing to cancel."""
        await self.run(run_id)
        return await self._control.cancel_run(self.add_namespace(run_id))

    async def cancel_thread(self, thread_id: str) -> bool:
        """Cancel a thread's run, else what is queued; False when there is nothing to cancel."""
        await self.thread(thread_id)
        return await self._control.cancel_thread(self.add_namespace(thread_id))

    async def interrupt_thread(self, thread_id: str) -> int | None:
        """Cancel a thread's run and drop what is queued.

        Returns how many dispatches were dropped, or None when the thread had nothing to do.
        """
        await self.thread(thread_id)
        return await self._control.interrupt(self.add_namespace(thread_id))

    async def stored_run(self, run_id: str) -> RunRecord:
        """A run with its ids as they are stored, for what goes on with it."""
        return await self._record(run_id)

    async def run(self, run_id: str) -> RunRecord:
        """A run, also one that is still queued.

        Raises:
            UnknownRun: There is none, or it belongs to another tenant.
        """
        return self._hide_namespace(await self._record(run_id))

    async def runs(self, query: RunQuery) -> Page[RunRecord]:
        """List runs by creation time."""
        query = msgspec.structs.replace(query, tenant_id=self.tenant_id)
        wanted = self._store_query(query)
        if query.q is not None:
            wanted = msgspec.structs.replace(wanted, q=self.add_namespace(query.q))
        return self._keyset_page(await self._store.list_runs(wanted), query)

    async def open_run(self, thread_id: str) -> RunRecord | None:
        """The run of a thread that executes or waits."""
        thread = await self.thread(thread_id)
        return await self._load_run(thread.open_run_id)

    async def latest_run(self, thread_id: str) -> RunRecord | None:
        """The newest run of a thread."""
        thread = await self.thread(thread_id)
        return await self._load_run(thread.latest_run_id)

    async def latest_agents(self, threads: Sequence[Thread]) -> tuple[str | None, ...]:
        """The agent that answered last on each of these threads, which this view listed."""
        runs = [await self._load_run(it.latest_run_id) for it in threads]
        return tuple(run.agent_id if run else None for run in runs)

    async def delete_thread(self, thread_id: str, strategy: DeleteStrategy) -> None:
        """Delete a thread with everything that belongs to it; readers and parents are notified."""
        await super().delete_thread(thread_id, strategy)
        for wake in self.engine.services.watchers.outbox:
            wake()
        await self._control.notify_changed(self.add_namespace(thread_id))

    async def _resolve_decisions(
        self,
        target: RunRecord,
        decisions: Mapping[str, ToolCallResume],
        find: Find = find_by_id,
    ) -> list[tuple[str, ToolCallResume]]:
        place = self.add_namespace(target.thread_id), self.add_namespace(target.run_id)
        tickets = await self._store.list_run_tickets(*place)
        named = resolve_decisions(tickets, decisions, self.principal_id, find)
        await check_edits(self.engine.registry, self._services.policy, target, tickets, named)
        return named

    async def _start_here(self, request: RunRequest) -> StartedRun:
        reader = EventReader(is_attached=False)
        try:
            handle = await self._services.engine.start(request, reader)
        except AlreadySaid as said:
            return await self._follow_same(said)
        except ThreadBusy as busy:
            if busy.thread_id != request.thread_id:
                # Another caller is starting a run of that id; its thread is not revealed.
                raise run_id_in_use(busy.run_id) from None
            raise
        return self._build_started(self._services.streams.stream_started(handle, reader), handle)

    async def _record(self, run_id: str) -> RunRecord:
        """A run as it is stored.

        Raises:
            UnknownRun: There is none, or it belongs to another tenant.
        """
        record = await self._control.record(self.add_namespace(run_id))
        if not await self._is_visible(record.thread_id):
            raise UnknownRun(run_id=run_id)
        return record

    async def _load_run(self, run_id: str | None) -> RunRecord | None:
        """Load a run of a thread that is known to be visible."""
        return (
            self._hide_namespace(await self._store.load_run(self.add_namespace(run_id)))
            if run_id
            else None
        )

    def _adapt_stream(self, stream: EventStream) -> EventStream:
        """Give the stream the ids that the tenant knows."""
        if self._namespace:
            stream.namespace = self._namespace
            stream.before = [self._hide_namespace(event) for event in stream.before]
        return stream

    async def _follow(self, begun: SubmitReceipt | AlreadySaid) -> StartedRun:
        return self._build_started(await self._services.streams.stream_run(begun.run_id), begun)

    def _build_started(
        self, stream: EventStream, begun: RunHandle | SubmitReceipt | AlreadySaid
    ) -> StartedRun:
        """The started run with the ids that the tenant knows."""
        run_id, thread_id = begun.run_id, begun.thread_id
        if not self._namespace:
            return StartedRun(run_id=run_id, thread_id=thread_id, stream=stream)
        run_id = remove_namespace(self._namespace, run_id)
        thread_id = remove_namespace(self._namespace, thread_id)
        return StartedRun(run_id=run_id, thread_id=thread_id, stream=self._adapt_stream(stream))

    async def _find_same(self, request: RunRequest) -> StartedRun | None:
        """Find the run that got the same messages before, so that nothing is interrupted."""
        if request.thread_id is None or not any(it.id for it in request.messages):
            return None
        query = MessageQuery(limit=LIMIT_MAX, order=Order.DESC)
        page = await self._store.list_messages(request.thread_id, query)
        known = [it.message for it in page.items]
        _, said = without_repeats(request, known, lambda message: message)
        if said is None or not await self._is_visible(request.thread_id):
            return None
        return await self._follow_same(make_already_said(request.thread_id, said))

    async def _is_visible(self, thread_id: str) -> bool:
        return self.tenant_id is None or await self._is_own(thread_id)

    async def _follow_same(self, said: AlreadySaid) -> StartedRun:
        if not said.run_id:
            thread_id = remove_namespace(self._namespace, said.thread_id)
            raise AlreadySaid(thread_id=thread_id, message_id=said.message_id, run_id="") from None
        return await self._follow(said)

    def _prepare_request(self, request: RunRequest) -> RunRequest:
        check_request(request)
        if request.agent_id:
            self._check_agent(request.agent_id.strip())
        tenant_id = self.tenant_id or request.tenant_id
        user_id, trace = self.principal_id, request.trace or self.trace
        given = {"tenant_id": tenant_id, "user_id": user_id, "trace": trace}
        return msgspec.structs.replace(request, **given).with_stored_ids()

    def _check_agent(self, agent_id: str) -> None:
        if not agent_id:
            return
        registries = self._services.engine.registry.snapshot().registries
        found = registries.agents.get(agent_id)
        if found is None:
            found = registries.agents.get(registries.name_of(agent_id))
        if found is not None and found.spec.registry is not None:
            raise self._unknown(agent_id)


def _own_agents(snapshot: RegistrySnapshot) -> list[str]:
    withheld = snapshot.registries.hidden | snapshot.unusable.keys()
    sources = snapshot.registries.agents.items()
    return [name for name, it in sources if it.spec.registry is None and name not in withheld]
