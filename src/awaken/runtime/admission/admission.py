"""Admitting a run: which agent, which run id, what is restored. Nothing is written here.

A request that cannot be served is refused with a typed error before the run's first commit and
first event.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from awaken.contracts.backends.backend import check_root_request
from awaken.contracts.errors import AwakenError, InvalidResume, ThreadBusy, VersionConflict
from awaken.contracts.identity import present
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.message import Message, MessageMetadata, ToolCall
from awaken.contracts.messages.transcript import Transcript
from awaken.contracts.models.budgets import RUN_LEDGER
from awaken.contracts.plugins.loop_state import (
    ACTIVE_AGENT,
    REQUEST_OPTIONS,
    STOP_STATS,
    TOOL_CALL_STATES,
    RequestOptions,
    StopStats,
)
from awaken.contracts.runs.records import RunInput, RunRecord, RunRequest, used_run_id
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Checkout, Store
from awaken.contracts.suspension.tickets import Ticket, ToolCallState
from awaken.contracts.tenancy import namespace_in
from awaken.runtime.journal.bookmark import read_bookmark
from awaken.runtime.journal.inbox import Inbox
from awaken.runtime.journal.journal import Journal
from awaken.runtime.journal.repeated_messages import already_said, without_repeats
from awaken.runtime.journal.request_checks import check_id, check_message
from awaken.runtime.journal.streams import EventFeed
from awaken.runtime.loop.session_tools import add_session_tools
from awaken.runtime.plugins.input_screens import (
    Seen,
    look_at_decision,
    look_at_message,
    look_at_messages,
    look_at_options,
)
from awaken.runtime.resolution.registry import RegistryHandle, RegistrySnapshot
from awaken.runtime.resolution.resolver import (
    DEFAULT_AGENT,
    ResolvedAgent,
    check_frontend_tools,
    check_output,
)
from awaken.runtime.run import Run, Services
from awaken.runtime.state.store import StateStore
from awaken.runtime.suspension.recovery import latest_turn, restore
from awaken.runtime.suspension.resume import take_decisions

from .continuation import check_continuation, identity_of, known_record

_IDS = ("thread_id", "agent_id", "run_id_hint", "continue_run_id", "dispatch_id_hint", "tenant_id")


class Admission:
    """Turns a request into a run that is ready to start."""

    __slots__ = ("_registry", "_services", "_store")

    def __init__(self, store: Store, registry: RegistryHandle, services: Services) -> None:
        self._store = store
        self._registry = registry
        self._services = services

    def check(self, request: RunRequest) -> None:
        """Refuse malformed ids and messages.

        Raises:
            InvalidInput: Naming what is wrong.
            LimitExceeded: A message is too large.
        """
        for name in _IDS:
            if (value := getattr(request, name)) is not None:
                check_id(name, value)
        if request.output_schema is not None:
            check_output(request.output_schema)
        self.check_messages(request.messages)

    def check_messages(self, messages: Sequence[Message]) -> None:
        """Refuse messages that nobody may send to a run.

        Raises:
            InvalidInput: A message is not from a user or the system, or has no JSON form.
            LimitExceeded: A message is too large.
        """
        for message in messages:
            check_message(message, self._services.limits.message_bytes)

    async def screened(self, request: RunRequest) -> RunRequest:
        """A request as it may rest before it is executed: its agent's screens have looked at it.

        They look again when the run takes it in: with another agent, or by other rules, by then.
        What an agent looks at that cannot be had here is looked at by whoever executes it.

        Raises:
            InvalidInput: Naming what is wrong.
            FrontendToolConflict: A tool of the client has the name of one of the agent's.
            LimitExceeded: A message is too large.
            PluginFailed: A screen failed; the request may not be kept as it was.
            AgentResolverFailed: It cannot be said which screens have to look at it.
        """
        self.check(request)
        request = request.owned()
        has_options = request.frontend_tools or request.output_schema is not None
        if not (request.messages or request.decisions or has_options):
            return request
        agent = await self._agent_of(request)
        if agent is None:
            return request
        check_frontend_tools(agent, request.frontend_tools)
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

    async def screen_history(self, agent_id: str, history: Sequence[Message]) -> Seen:
        """Messages from elsewhere that a thread of the agent is to begin with, as they may rest.

        Raises:
            UnknownAgent: The agent is not registered.
            PluginFailed: A screen failed; the messages may not be kept as they were.
        """
        return look_at_messages((await self._registry.resolve(agent_id)).env, history)

    async def _agent_of(self, request: RunRequest) -> ResolvedAgent | None:
        """The agent that is asked; None when it cannot be had here."""
        agent_id, thread_id = present(request.agent_id), present(request.thread_id)
        if agent_id is None:
            checkout = await self._store.checkout(thread_id) if thread_id is not None else None
            agent_id = (
                DEFAULT_AGENT if checkout is None else _selected_agent(request, checkout, None)
            )
        pinned = await self._registry.pin(agent_id)
        try:
            return pinned.resolve(agent_id)
        except AwakenError:
            return None

    async def prepare(self, request: RunRequest, thread_id: str) -> Run:
        """Select the agent and the run, and restore what they need.

        Raises:
            UnknownThread: The thread is not the tenant's who asks.
            UnknownAgent: The agent is not registered.
            AgentResolverFailed: The host could not say what the agent is.
            InvalidResume: The run to continue cannot be continued.
            ThreadBusy: Another run of the thread has not ended.
            VersionConflict: The thread has gone on from where the request expects it.
            UnsupportedFeature: The agent's backend cannot serve the request.
            CannotGoOn: It cannot go on with the run that waits; a new one could begin.
            UnknownTicket: A decision names no ticket of the run.
            AlreadySaid: The thread has everything that the request says.
        """
        checkout = await self._store.checkout(thread_id)
        if checkout is None:
            checkout = Checkout(thread=Thread(id=thread_id))
        else:
            # A thread that somebody creates meanwhile is checked by the first commit.
            checkout.thread.check_tenant(request.tenant_id)
        _check_place(request, checkout.thread)
        previous = await self._continued(request, checkout)
        agent_id = _selected_agent(request, checkout, previous)
        pinned = await self._registry.pin(agent_id)
        agent = pinned.resolve(agent_id)
        if request.dispatch_id is None and request.frontend_tools:
            # What was queued was checked then; by now it can only be left out.
            check_frontend_tools(agent, request.frontend_tools)
        capabilities = agent.backend.capabilities()
        if previous is None:
            check_root_request(capabilities, agent_id, request, continues=False)
        else:
            check_continuation(capabilities, agent_id, request, previous)
        request = _brought(request, checkout, previous, agent)
        run_id = previous.run_id if previous else await self._fresh_run_id(request, thread_id)
        unfinished = checkout.open_run
        if unfinished is not None and unfinished.run_id != run_id:
            raise ThreadBusy(thread_id=thread_id, run_id=unfinished.run_id)
        run = self._assembled(request, checkout, previous, (pinned, agent), run_id)
        if previous is not None and previous.status is RunStatus.RUNNING:
            await self._restore(run, checkout)
        take_decisions(run, request.decisions)
        if previous is not None and checkout.cancel_cause is not None:
            run.token.cancel(checkout.cancel_cause)
        return run

    async def _restore(self, run: Run, checkout: Checkout) -> None:
        run_id = run.identity.run_id
        restore(
            run,
            read_bookmark(run.record.bookmark),
            await self._store.list_tool_records(run_id),
            await self._store.find_checkpoint(run_id) if self._store.is_shared else None,
        )

    async def _continued(self, request: RunRequest, checkout: Checkout) -> RunRecord | None:
        """The run that the request continues: the one it names, else one that waits."""
        wanted = present(request.continue_run_id)
        waiting = checkout.open_run
        if wanted is None:
            if request.run_id_hint or request.dispatch_id_hint:
                return None
            return waiting if waiting is not None and waiting.is_resumable_waiting else None
        if waiting is not None and waiting.run_id == wanted:
            if request.decisions and not waiting.is_resumable_waiting:
                raise InvalidResume(run_id=wanted, problem="it is not waiting")
            return waiting
        record = await self._store.load_run(wanted)
        if record is None or record.thread_id != checkout.thread.id:
            raise InvalidResume(run_id=wanted, problem="it does not exist on this thread")
        if record.status is RunStatus.DONE:
            raise InvalidResume(run_id=wanted, problem="it has ended")
        return record

    async def _fresh_run_id(self, request: RunRequest, thread_id: str) -> str:
        for hint, may_be_created in (
            (request.run_id_hint, True),
            (request.dispatch_id_hint, False),
        ):
            run_id = present(hint)
            if run_id is None:
                continue
            record = await self._store.load_run(run_id)
            if record is not None and not (may_be_created and record.status is RunStatus.CREATED):
                raise used_run_id(run_id)
            queued = await self._store.find_dispatch_of_run(run_id)
            if queued is not None and queued.dispatch_id != present(request.dispatch_id):
                # What is queued begins under its id; whoever queues it later is refused as well.
                raise used_run_id(run_id)
            return run_id
        return namespace_in(thread_id) + self._services.ids.new_id()

    def _assembled(
        self,
        request: RunRequest,
        checkout: Checkout,
        previous: RunRecord | None,
        resolved: tuple[RegistrySnapshot, ResolvedAgent],
        run_id: str,
    ) -> Run:
        pinned, agent = resolved
        record = known_record(request, previous) if previous else None
        record = record or self._new_record(request, checkout, agent, pinned, run_id)
        request = look_at_options(agent.env, request)
        state = _restored(request, checkout, agent, previous)
        request = _with_kept_options(request, state)
        feed, stats, messages = EventFeed(), _stats(state, record), Transcript(checkout.messages)
        answer, open_calls = latest_turn(messages)
        run = Run(
            identity=identity_of(request, record, agent.spec.id),
            record=record,
            agent=add_session_tools(
                agent.with_frontend_tools(request.frontend_tools).with_output(
                    request.output_schema
                ),
                request,
                self._services.session_tools,
            ),
            pinned=pinned,
            request=request,
            services=self._services,
            store=self._store,
            state=state,
            journal=self._journal(request, checkout, previous, feed, run_id),
            feed=feed,
            inbox=Inbox(self._services.limits.inbox_messages),
            messages=messages,
            tickets=_own_tickets(checkout, agent, open_calls, state),
            open_calls=open_calls,
            metadata=_metadata(run_id, record),
            usage=record.usage,
            stats=stats,
            started_ms=self._services.clock.monotonic_ms(),
            # After a crash in a step the ledger knows of time that the statistics do not.
            active_before_ms=max(stats.active_ms, state.get(RUN_LEDGER).spent.ms),
            step=record.steps,
        )
        return run if previous is None else _going_on(run, previous, answer)

    def _journal(
        self,
        request: RunRequest,
        checkout: Checkout,
        previous: RunRecord | None,
        feed: EventFeed,
        run_id: str,
    ) -> Journal:
        # Two processes may go on with one run; the names of their commits must differ.
        is_named = previous is not None or request.run_id_hint or request.dispatch_id_hint
        services = self._services
        writer = services.ids.new_id() if is_named else run_id
        watchers = services.commit_watchers
        return Journal(self._store, services.clock, feed, checkout.thread, writer, watchers)

    def _new_record(
        self,
        request: RunRequest,
        checkout: Checkout,
        agent: ResolvedAgent,
        pinned: RegistrySnapshot,
        run_id: str,
    ) -> RunRecord:
        now = self._services.clock.now_ms()
        first = checkout.thread.message_count + 1
        count = len(request.messages)
        return RunRecord(
            run_id=run_id,
            thread_id=checkout.thread.id,
            log_start=checkout.thread.event_seq,
            agent_id=agent.spec.id,
            parent_run_id=present(request.parent_run_id),
            parent_thread_id=present(request.parent_thread_id),
            parent_tool_call_id=present(request.parent_tool_call_id),
            lineage=request.lineage,
            task=request.task,
            origin=request.origin,
            run_mode=request.run_mode,
            adapter=request.adapter,
            dispatch_id=present(request.dispatch_id),
            session_id=present(request.session_id),
            transport_request_id=present(request.transport_request_id),
            tenant_id=present(request.tenant_id),
            user_id=present(request.user_id),
            trace=request.trace,
            registry_version=pinned.version,
            input=RunInput(from_seq=first, to_seq=first + count - 1) if count else RunInput(),
            created_at=now,
            started_at=now,
            updated_at=now,
        )


def _selected_agent(request: RunRequest, checkout: Checkout, previous: RunRecord | None) -> str:
    """The agent that was asked for, else the thread's active one, else its latest, else default.

    A run that is recovered stays with the agent it had, and so does one whose suspended calls go
    on: only the agent that asked for them has their tools. A handoff follows when they are over.
    """
    if previous is not None and _stays_with_agent(request, checkout, previous):
        return present(previous.active_agent_id) or previous.agent_id
    if asked := present(request.agent_id):
        return asked
    if stored := checkout.state.get(ACTIVE_AGENT.name):
        active = ACTIVE_AGENT.decode(stored)
        if active is not None and present(active):
            return active
    record = previous or checkout.latest_run
    return present(record.agent_id) or DEFAULT_AGENT if record is not None else DEFAULT_AGENT


def _stays_with_agent(request: RunRequest, checkout: Checkout, previous: RunRecord) -> bool:
    """Whether a run that goes on begins with what its agent has left."""
    if previous.status is not RunStatus.WAITING:
        return previous.status is RunStatus.RUNNING
    if request.decisions or any(it.status is TicketStatus.DECIDED for it in checkout.tickets):
        return True
    # What a person writes takes the place of the calls, whoever reads it.
    return all(message.sender is not None for message in request.messages)


def _check_place(request: RunRequest, thread: Thread) -> None:
    expected, actual = request.expected_messages, thread.message_count
    if expected is not None and expected != actual:
        raise VersionConflict(thread_id=thread.id, expected=expected, actual=actual)


def _brought(
    request: RunRequest, checkout: Checkout, previous: RunRecord | None, agent: ResolvedAgent
) -> RunRequest:
    """The request with what is new to the thread."""
    if not request.messages or not checkout.messages:
        return request
    request, said = without_repeats(request, checkout.messages, partial(look_at_message, agent.env))
    is_recovered = previous is not None and previous.status is RunStatus.RUNNING
    if said is not None and not request.decisions and not is_recovered:
        raise already_said(checkout.thread.id, said)
    return request


def _restored(
    request: RunRequest, checkout: Checkout, agent: ResolvedAgent, previous: RunRecord | None
) -> StateStore:
    state = StateStore(agent.env.keys.values())
    if checkout.state:
        state.restore(checkout.state)
    if previous is not None:
        state.restore(checkout.run_state)
    named = present(request.agent_id)
    if named is None or (previous is not None and not request.messages):
        return state
    if named != agent.spec.id or state.get(ACTIVE_AGENT) not in (None, named):
        # Whoever names an agent gets that agent, whatever an earlier handoff said.
        state.update(ACTIVE_AGENT, named)
    return state


def _own_tickets(
    checkout: Checkout, agent: ResolvedAgent, open_calls: Mapping[str, ToolCall], state: StateStore
) -> dict[str, Ticket]:
    """The tickets that the run can act on, by call; the state shows where their calls stand."""
    # The questions of a remote agent are about calls that only the other side knows.
    is_known = open_calls.__contains__ if agent.is_local else lambda _: True
    tickets = {ticket.call_id: ticket for ticket in checkout.tickets if is_known(ticket.call_id)}
    if tickets:
        state.update(TOOL_CALL_STATES, tuple(map(ToolCallState.of, tickets.values())))
    return tickets


def _metadata(run_id: str, record: RunRecord) -> MessageMetadata:
    return MessageMetadata(run_id=run_id, step_index=record.steps - 1 if record.steps else None)


def _stats(state: StateStore, record: RunRecord) -> StopStats:
    stats = state.get(STOP_STATS)
    return stats if stats.rounds else msgspec.structs.replace(stats, rounds=record.steps)


def _going_on(run: Run, previous: RunRecord, answer: Message | None) -> Run:
    """The run with what it brings along from before."""
    run.is_continued = previous.status is RunStatus.WAITING
    # What was written to a task while nobody executed it is for this run only.
    run.has_input = previous.task is not None
    if answer is not None:
        # It is still in the step of its latest answer; stop rules look at it.
        run.response, run.step_calls = answer.text, answer.tool_calls or ()
    return run


def _with_kept_options(request: RunRequest, state: StateStore) -> RunRequest:
    """Keep with the run what was asked for, so that it still holds after a decision."""
    kept = state.get(REQUEST_OPTIONS)
    asked = RequestOptions(
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        output_schema=request.output_schema,
        budgets=request.budgets,
        session_tools=request.session_tools,
    )
    if asked == kept:
        return request
    overrides = asked.overrides or kept.overrides
    tools = asked.frontend_tools or kept.frontend_tools
    schema = asked.output_schema or kept.output_schema
    # Whoever goes on with a run cannot free it from the budgets that it was given.
    budgets = kept.budgets or asked.budgets
    options = RequestOptions(
        overrides=overrides,
        frontend_tools=tools,
        output_schema=schema,
        budgets=budgets,
        session_tools=asked.session_tools or kept.session_tools,
    )
    state.update(REQUEST_OPTIONS, options)
    return msgspec.structs.replace(
        request,
        overrides=overrides,
        frontend_tools=tools,
        output_schema=schema,
        budgets=budgets,
        session_tools=options.session_tools,
    )
