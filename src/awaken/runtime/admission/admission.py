"""Admitting a run: which agent, which run id, what is restored. Nothing is written here.

A request that cannot be served is refused with a typed error before the run's first commit and
first event.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import AwakenError, InvalidInput, ThreadBusy, VersionConflict
from awaken.contracts.identity import RunIdentity, RunOrigin, normalize_id
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import Message, MessageMetadata, ToolCall, Transcript
from awaken.contracts.models.budgets import RUN_LEDGER, THREAD_LEDGER
from awaken.contracts.plugins.loop_state import (
    ACTIVE_AGENT,
    PENDING_ACTIONS,
    REQUEST_OPTIONS,
    STOP_STATS,
)
from awaken.contracts.runs.records import (
    RunInput,
    RunKind,
    RunRecord,
    RunRequest,
    read_trimmed_ids,
    run_id_in_use,
)
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Checkout, Store
from awaken.contracts.tenancy import TENANT_MARK, namespace_in
from awaken.runtime.journal.journal import Inbox, Journal, name_writer
from awaken.runtime.journal.known_messages import make_already_said, without_repeats
from awaken.runtime.journal.request_checks import (
    check_extras,
    check_id,
    check_message,
    make_history_refusal,
)
from awaken.runtime.journal.streams import EventFeed
from awaken.runtime.loop.session_tools import equip_agent, keep_options
from awaken.runtime.plugins.input_screens import (
    Seen,
    look_at_decision,
    look_at_message,
    look_at_messages,
    look_at_options,
)
from awaken.runtime.primitives.cancellation import CancellationToken, TaskCancels
from awaken.runtime.progress import Step
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import (
    DEFAULT_AGENT,
    ResolvedAgent,
    check_frontend_tools,
    check_output,
)
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.run import Run, Services
from awaken.runtime.state.store import StateStore
from awaken.runtime.suspension.dispatch_plan import address_to_workflow
from awaken.runtime.suspension.recovery import latest_turn
from awaken.runtime.suspension.resume import take_decisions

from .continuation import (
    carry_over,
    check_capabilities,
    check_queued_start,
    continue_identity,
    continue_record,
    find_continued,
    own_tickets,
    restore_counters,
    restore_left_run,
    stays_with_agent,
)

if TYPE_CHECKING:
    # Only a process that replays runs or evaluates agents has worlds.
    from .worlds import EnteredWorld, WorldSource

_IDS = ("thread_id", "agent_id", "run_id_hint", "continue_run_id", "dispatch_id_hint", "tenant_id")
_ids_of = attrgetter(*_IDS)
_RARE = (
    "lineage", "task", "trace", "overrides", "tool_choice", "parent_thread_id", "parent_run_id",
    "parent_tool_call_id", "transport_request_id", "world",
)  # fmt: skip
"""What a record takes from few requests: of child runs, with a trace, a world, or options."""
_read_rare = attrgetter(*_RARE)
_NO_RARE = _read_rare(RunRequest())
_INTERNAL, _CHAT = RunOrigin.INTERNAL, RunKind.CHAT


class Admission:
    """Turns a request into a run that is ready to start."""

    __slots__ = ("_registry", "_services", "_store", "_worlds")

    def __init__(
        self,
        store: Store,
        registry: RegistryHandle,
        services: Services,
        worlds: "WorldSource | None" = None,
    ) -> None:
        self._store = store
        self._registry = registry
        self._services = services
        self._worlds = worlds

    def check(self, request: RunRequest) -> RunRequest:
        """Refuse malformed ids and messages; returns the request with trimmed ids.

        Raises:
            InvalidInput: Naming what is wrong.
            LimitExceeded: A message or the context is too large.
        """
        for name, value in zip(_IDS, _ids_of(request), strict=True):
            if value is not None:
                check_id(name, value)
        if request.output_schema is not None:
            check_output(request.output_schema)
        if request.context is not None or request.history:
            check_extras(request, self._services.limits)
        for message in request.messages:
            check_message(message, self._services.limits.message_bytes)
        for value in read_trimmed_ids(request):
            if value is not None and (not value or value != value.strip()):
                return request.with_trimmed_ids()
        return request

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Refuse messages that may not be sent to a run.

        Raises:
            InvalidInput: A message is not from a user or the system, or has no JSON form.
            LimitExceeded: A message is too large.
        """
        for message in messages:
            check_message(message, self._services.limits.message_bytes)

    async def screen_request(self, request: RunRequest) -> RunRequest:
        """Return a request as it may be stored before execution: screened by its agent's plugins.

        It is screened again when the run reads it, because the agent or the rules may be others by
        then. If this process does not have the agent, only the executing process screens it.

        Raises:
            InvalidInput: Naming what is wrong.
            InvalidContext: The context does not fit the agent.
            InvalidWorkflowInput: The messages do not fit the workflow.
            FrontendToolConflict: A tool of the client has the name of one of the agent's.
            LimitExceeded: A message is too large.
            PluginFailed: A screen failed; the request may not be kept as it was.
            UnknownPublication: The publication of the run does not exist.
            AgentResolverFailed: It is unknown which screens apply.
        """
        request = self.check(request).with_stored_ids()
        has_options = request.frontend_tools or request.output_schema or request.context
        if not (request.messages or request.decisions or has_options):
            return request
        agent = await self._agent_of(request)
        if agent is None:
            return request
        check_frontend_tools(agent, request.frontend_tools)
        if agent.context is not None or agent.workflow is not None:
            await check_queued_start(self._store, agent, request)
        env = agent.env
        if not env.message_screens:
            return request
        messages, blocked = look_at_messages(env, request.messages)
        given = ((name, look_at_decision(env, it)[0]) for name, it in request.decisions)
        seen = msgspec.structs.replace(
            request,
            messages=messages,
            decisions=tuple(given),
            blocked=request.blocked or blocked,
        )
        return look_at_options(env, seen)

    async def screen_history(self, request: RunRequest, history: Sequence[Message]) -> Seen:
        """Return an imported history, for a new thread with this request, as it may be stored.

        Raises:
            UnknownAgent: The agent is not registered.
            InvalidContext: The context of the request does not fit the agent.
            PluginFailed: A screen failed; the messages may not be kept as they were.
        """
        agent = await self._registry.resolve(request.agent_id or "")
        if request.context is not None:
            check_extras(request, self._services.limits)
        if agent.context is not None or agent.workflow is not None:
            await check_queued_start(self._store, agent, request)
        return look_at_messages(agent.env, history)

    async def _agent_of(self, request: RunRequest) -> ResolvedAgent | None:
        """Return the requested agent; None when this process does not have it."""
        agent_id, thread_id = normalize_id(request.agent_id), normalize_id(request.thread_id)
        publication = request.publication
        if agent_id is None:
            checkout = await self._store.checkout(thread_id) if thread_id is not None else None
            agent_id = DEFAULT_AGENT if checkout is None else _select_agent(request, checkout, None)
            if checkout is not None and checkout.open_run is not None:
                publication = checkout.open_run.publication
        pinned = await self._registry.pin(agent_id, publication)
        try:
            return pinned.resolve(agent_id)
        except AwakenError:
            return None

    async def prepare(
        self, request: RunRequest, thread_id: str, found: Checkout | None = None
    ) -> Run:
        """Select the agent and the run, and restore what they need.

        `found` is the thread as the caller has read it, which knows that the run is new.

        Raises:
            UnknownThread: The thread belongs to another tenant.
            UnknownAgent: The agent is not registered, or no new run may take it.
            AgentUnusable: This process cannot resolve the agent as it is configured.
            UnknownPublication: The publication of the run does not exist.
            AgentResolverFailed: The host's resolver failed.
            InvalidResume: The run to continue cannot be continued.
            ThreadBusy: Another run of the thread has not ended.
            VersionConflict: The thread has a newer version than the request expects.
            UnsupportedFeature: The agent's backend cannot serve the request.
            CannotGoOn: The backend cannot resume the waiting run; a new run could start.
            UnknownTicket: A decision names no ticket of the run.
            AlreadySaid: The thread already has every message of the request.
            ThreadHasWorkflow: Another agent than the open workflow of the thread is named.
        """
        # A thread whose id was made for this request is new: there is nothing to read.
        is_named = request.thread_id is not None
        checkout = found or (await self._store.checkout(thread_id) if is_named else None)
        if checkout is None:
            checkout = Checkout(thread=Thread(id=thread_id))
        elif request.tenant_id is not None:
            # If another caller creates the thread meanwhile, the first commit checks the tenant.
            checkout.thread.check_tenant(request.tenant_id)
        expected, actual = request.expected_messages, checkout.thread.message_count
        if expected is not None and expected != actual:
            raise VersionConflict(thread_id=thread_id, expected=expected, actual=actual)
        previous, unfinished = None, checkout.open_run
        if unfinished is not None or request.continue_run_id is not None:
            request = address_to_workflow(request, unfinished)
            previous = await find_continued(self._store, request, checkout)
        agent_id = _select_agent(request, checkout, previous)
        canary = self._registry.canary if previous is None else None
        publication = request.publication if previous is None else previous.publication
        publication = publication if canary is None else canary.choose(request, thread_id)
        pinned = await self._registry.pin(agent_id, publication)
        entered = None
        if (world := (previous or request).world) is not None:
            entered = await self._open_world(world, pinned)
            pinned = entered.snapshot
        agent = pinned.resolve(agent_id)
        if request.dispatch_id is None and request.frontend_tools:
            # A queued request was checked when it was queued; a tool that conflicts is left out.
            check_frontend_tools(agent, request.frontend_tools)
        if agent.is_limited:
            check_capabilities(agent.backend.capabilities(), agent_id, request, previous)
        if checkout.messages and (request.messages or request.history):
            request = _without_known(request, checkout, previous, agent)
        latest, origin = checkout.latest_run, checkout.thread.forked_from
        is_after_trial = origin is not None if latest is None else latest.purpose is not _CHAT
        if previous is None and is_after_trial:
            from .trials import stay_in_trial  # noqa: PLC0415 - few runs go on after a trial

            request = await stay_in_trial(self._store, request, checkout)
        if previous is not None:
            run_id = previous.run_id
        elif request.run_id_hint is not None or request.dispatch_id_hint is not None:
            run_id = await self._find_run_id(request, thread_id, is_new=found is not None)
        else:
            made = self._services.ids.new_id()
            run_id = namespace_in(thread_id) + made if thread_id[0] == TENANT_MARK else made
        if unfinished is not None and unfinished.run_id != run_id:
            raise ThreadBusy(thread_id=thread_id, run_id=unfinished.run_id)
        run = self._assemble(request, checkout, previous, (pinned, agent), run_id)
        is_left = previous is not None and previous.status is RunStatus.RUNNING
        if is_left or checkout.cancel_cause is not None:
            await restore_left_run(self._store, run, previous, checkout)
        if request.decisions or entered is not None:
            _take_in_rest(run, request, entered)
        return run

    async def _open_world(self, world: str, pinned: RegistrySnapshot) -> "EnteredWorld":
        if self._worlds is None:
            problem = f"this process cannot open its world '{world}'"
            raise InvalidInput(what="The run's request", problem=problem)
        return await self._worlds.open(world, pinned)

    async def _find_run_id(self, request: RunRequest, thread_id: str, *, is_new: bool) -> str:
        if is_new and request.run_id_hint is not None:
            return request.run_id_hint
        for hint, may_be_created in (
            (request.run_id_hint, True),
            (request.dispatch_id_hint, False),
        ):
            if hint is None:
                continue
            run_id = hint
            record = await self._store.load_run(run_id)
            if record is not None and not (may_be_created and record.status is RunStatus.CREATED):
                raise run_id_in_use(run_id)
            queued = await self._store.find_dispatch_of_run(run_id)
            if queued is not None and queued.dispatch_id != request.dispatch_id:
                # The queued request will use this run id; the reverse order is refused as well.
                raise run_id_in_use(run_id)
            return run_id
        return namespace_in(thread_id) + self._services.ids.new_id()

    def _assemble(
        self,
        request: RunRequest,
        checkout: Checkout,
        previous: RunRecord | None,
        resolved: tuple[RegistrySnapshot, ResolvedAgent],
        run_id: str,
    ) -> Run:
        (pinned, agent), services = resolved, self._services
        if agent.env.message_screens:
            # Before the record is made: it keeps the context.
            request = look_at_options(agent.env, request)
        if previous is None:
            record, identity = self._new_record(request, checkout, agent, pinned, run_id)
        else:
            record = continue_record(request, previous)
            identity = continue_identity(request, record, agent.spec.id)
        state = _restore_state(request, checkout, agent, previous)
        brings = request.overrides or request.output_schema or request.budgets
        brings_tools = request.frontend_tools or request.session_tools
        if brings or brings_tools or REQUEST_OPTIONS.name in state.values:
            request = keep_options(request, state)
            agent = equip_agent(agent, request, services.session_tools)
        stats, active_ms = STOP_STATS.default, 0
        if state.values or record.steps:
            stats, active_ms = restore_counters(state, record)
        messages, answer, open_calls = Transcript(checkout.messages), None, dict[str, ToolCall]()
        if checkout.messages:
            answer, open_calls = latest_turn(messages)
        # Two processes may continue one run; the ids of their commits must differ.
        is_named = previous is not None or request.run_id_hint or request.dispatch_id_hint
        writer, feed = name_writer(services.ids.new_id()) if is_named else run_id, EventFeed()
        index = record.steps - 1 if record.steps else None
        mark = MessageMetadata(run_id=run_id, step_index=index)
        loop, token = asyncio.get_running_loop(), CancellationToken()
        watchdog = services.watchdogs.latest
        if watchdog is None or watchdog.loop is not loop:
            watchdog = services.watchdogs.find(loop)
        # Of more than 15 keywords Python would make a dict, which takes longer than the run.
        run = Run(
            identity,
            record,
            agent,
            pinned,
            request,
            services,
            self._store,
            state,
            self._open_journal(checkout.thread, writer, feed),
            feed,
            Inbox(services.limits.inbox_messages),
            messages,
            own_tickets(checkout, agent, open_calls, state) if checkout.tickets else {},
            open_calls,
            step=Step(number=record.steps, metadata=mark),
            usage=record.usage,
            stats=stats,
            started_ms=services.clock.monotonic_ms(),
            loop=loop,
            watchdog=watchdog,
            token=token,
            cancels=TaskCancels(token, watchdog, services.limits.run_end_ms, loop),
        )
        run.active_before_ms, run.profile = active_ms, agent.env.profile
        run.has_phases = bool(agent.env.phases) or PENDING_ACTIONS.name in state.values
        budgets = agent.spec.budgets or request.budgets or services.budgets
        run.has_budgets = bool(budgets or pinned.registries.budgets) or (
            RUN_LEDGER.name in state.values or THREAD_LEDGER.name in state.values
        )
        return run if previous is None else carry_over(run, previous, answer)

    def _open_journal(self, thread: Thread, writer: str, feed: EventFeed) -> Journal:
        return Journal(
            thread_id=thread.id,
            writer=writer,
            version=thread.version,
            event_seq=thread.event_seq,
            store=self._store,
            clock=self._services.clock,
            feed=feed,
            watchers=self._services.watchers,
        )

    def _new_record(
        self,
        request: RunRequest,
        checkout: Checkout,
        agent: ResolvedAgent,
        pinned: RegistrySnapshot,
        run_id: str,
    ) -> tuple[RunRecord, RunIdentity]:
        thread, agent_id = checkout.thread, agent.spec.id
        if pinned.registries.hidden:
            pinned.check_start(agent_id)
        first, count = thread.message_count + 1, len(request.messages)
        if request.history:
            first += len(request.history)
        context, latest = request.context, checkout.latest_run
        if request.origin is _INTERNAL and latest is not None:
            # A message of a task or of another agent has none: the thread goes on as it was.
            context = latest.context if context is None else context
        record = RunRecord(
            run_id=run_id,
            thread_id=thread.id,
            log_start=thread.event_seq,
            agent_id=agent_id,
            publication=pinned.publication,
            purpose=request.purpose,
            context=context,
            input=RunInput(from_seq=first, to_seq=first + count - 1) if count else RunInput(),
            dispatch_id=request.dispatch_id,
            session_id=request.session_id,
            tenant_id=request.tenant_id,
            user_id=request.user_id,
            origin=request.origin,
            run_mode=request.run_mode,
            adapter=request.adapter,
        )
        # Apart, because of more than 15 keywords Python makes a dict first.
        if (rare := _read_rare(request)) != _NO_RARE:
            record = msgspec.structs.replace(record, **dict(zip(_RARE, rare, strict=True)))
        if agent.workflow is not None:
            record = msgspec.structs.replace(record, is_workflow=True)
        return record, request.identify(run_id, thread.id, agent_id)


def _select_agent(request: RunRequest, checkout: Checkout, previous: RunRecord | None) -> str:
    """Return the requested agent, else the thread's active, else its latest, else the default.

    A recovered run keeps its agent, and so does a run whose suspended calls resume: only the agent
    that made these calls has their tools. A handoff takes effect when they are done.
    """
    if previous is not None and stays_with_agent(request, checkout, previous):
        return previous.active_agent_id or previous.agent_id
    if request.agent_id is not None:
        return request.agent_id
    if stored := checkout.state.get(ACTIVE_AGENT.name):
        active = ACTIVE_AGENT.decode(stored)
        if active is not None and normalize_id(active):
            return active
    return record.agent_id if (record := previous or checkout.latest_run) else DEFAULT_AGENT


def _restore_state(
    request: RunRequest, checkout: Checkout, agent: ResolvedAgent, previous: RunRecord | None
) -> StateStore:
    """Return the state that a run begins or goes on with."""
    state = StateStore(agent.env.keys)
    if checkout.state:
        state.restore(checkout.state)
    if previous is not None:
        state.restore(checkout.run_state)
    named = request.agent_id
    if named is None or (previous is not None and not request.messages):
        return state
    is_handed_off = ACTIVE_AGENT.name in state.values
    if named != agent.spec.id or (is_handed_off and state.get(ACTIVE_AGENT) not in (None, named)):
        # An agent that the request names overrides an earlier handoff.
        state.update(ACTIVE_AGENT, named)
    return state


def _take_in_rest(run: Run, request: RunRequest, world: "EnteredWorld | None") -> None:
    """Take in the decisions of a request, and bind the run to its world."""
    if request.decisions:
        take_decisions(run, request.decisions)
    if world is not None:
        world.attach(run)


def _without_known(
    request: RunRequest, checkout: Checkout, previous: RunRecord | None, agent: ResolvedAgent
) -> RunRequest:
    """Return the request with only the messages that are new to the thread."""
    if request.history:
        raise make_history_refusal(checkout.thread.id)
    screen = partial(look_at_message, agent.env)
    request, repeated = without_repeats(request, checkout.messages, screen)
    is_recovered = previous is not None and previous.status is RunStatus.RUNNING
    if repeated is not None and not request.decisions and not is_recovered:
        raise make_already_said(checkout.thread.id, repeated)
    return request
