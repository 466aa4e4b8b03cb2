"""One run while it executes: everything the loop needs, gathered in one place.

The loop and its steps are functions over this object, which makes no decisions itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError, LeaseLost
from awaken.contracts.events import AgentEvent, StepStart
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Blocked, Cancelled, RunStatus, Termination
from awaken.contracts.messages.content import ContentBlock, text_of
from awaken.contracts.messages.message import (
    NO_USAGE,
    Message,
    MessageMetadata,
    Role,
    ToolCall,
    Transcript,
)
from awaken.contracts.models.budgets import THREAD_LEDGER, Amount, Budget, OwnPrices, PriceList
from awaken.contracts.models.inference import InferenceRequest, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import Instrument, InstrumentMaker
from awaken.contracts.plugins.loop_state import (
    PENDING_ACTIONS,
    PENDING_MESSAGES,
    RUN_LIFECYCLE,
    End,
    RunLifecycle,
    StopStats,
)
from awaken.contracts.record import EMPTY
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting
from awaken.contracts.state.keys import Clear, MutationBatch
from awaken.contracts.state.profile import ProfileAccess, ProfileStore
from awaken.contracts.storage.dispatch import Release, RunDispatch
from awaken.contracts.storage.store import OutboxEntry, Store
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import BACKGROUND_TASKS, TaskEndDelivered
from awaken.contracts.tools.sub_runs import DurableMessageSink, SubRuns
from awaken.contracts.tools.tool import Tool

from .context.digests import MessageDigest
from .context.summaries import Compactor
from .context.window import ContextWindow
from .journal.bookmark import Bookmark, RemoteEnd, encode_bookmark
from .journal.journal import CommitWatchers, Inbox, Journal, LastWrite
from .journal.known_messages import filter_known, wakes_model, with_free_ids
from .journal.leases import RunHandedOver
from .journal.streams import EventFeed
from .limits import Limits, ToolSlots
from .model_health.health import ModelHealth
from .plugins.input_screens import look_at_messages
from .primitives.cancellation import CancellationToken, TaskCancels
from .primitives.signals import LoopTurns
from .primitives.timers import DeadlineWatch, Watchdog, Watchdogs
from .progress import Recovery, Step
from .resolution.resolver import ResolvedAgent
from .resolution.snapshots import RegistrySnapshot
from .state.store import StateStore
from .switches import SwitchBoard

if TYPE_CHECKING:
    from .primitives.dependencies import Dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all runs of one engine share."""

    clock: Clock
    ids: IdSource
    limits: Limits
    tool_slots: ToolSlots
    profile: ProfileStore
    health: ModelHealth
    watchdogs: Watchdogs = field(default_factory=Watchdogs)
    """Calls back when an operation that a run awaits takes too long."""
    compactor: Compactor = field(default_factory=Compactor)
    prices: PriceList = field(default_factory=OwnPrices)
    budgets: tuple[Budget, ...] = ()
    """Budgets that apply to every run."""
    message_sink: DurableMessageSink | None = None
    """Sends messages to other threads; if absent, they are part of the sender's commit."""
    may_rest: bool = True
    """Whether a run may be released while its tasks run, because a mailbox can wake it."""
    instruments: list[InstrumentMaker] = field(default_factory=list)
    """Instruments that observe every run that starts or resumes from now on."""
    watchers: CommitWatchers = field(default_factory=CommitWatchers)
    turns: LoopTurns = field(default_factory=LoopTurns)
    """Shares the event loop among many runs."""
    switches: SwitchBoard = field(default_factory=SwitchBoard)
    """What an operator has paused or disabled."""
    session_tools: dict[str, Callable[[], Sequence[Tool]]] = field(default_factory=dict)
    """Returns the current tools of each client session that is open in this process."""
    deadlines: DeadlineWatch = field(default_factory=DeadlineWatch)
    dependencies: "Dependencies | None" = None
    """What tools and functions of agents use of this process; never stored."""

    def price_usage(self, usage: TokenUsage, model: ModelSpec) -> TokenUsage:
        """Return the usage with its cost, if the model's price is known and the cost is not."""
        if usage.cost_nanos is not None and usage.cost_nanos >= 0:
            return usage
        # Negative counts add nothing.
        nanos = self.prices.nanos(model, NO_USAGE.plus(usage))
        return usage if nanos is None else msgspec.structs.replace(usage, cost_nanos=nanos)


class UnfinishedAnswer(Protocol):
    """A model turn in progress."""

    def list_streamed(self) -> Sequence[AgentEvent]:
        """Return what was streamed so far, one event per block."""
        ...

    def checkpoint(self) -> tuple[tuple[ContentBlock, ...], tuple[ToolCall, ...], str | None]:
        """Return the content, the complete calls, and the tool of an incomplete call."""
        ...

    def give_up_calls(self, reason: str) -> None:
        """Tell readers that saw calls begin that these calls will not complete."""
        ...


class ChildStarter(Protocol):
    """Gives each tool call access to the runs below it."""

    def below(self, run: "Run", call_id: str, idempotency_key: str) -> SubRuns:
        """Return the runs below one call of a run."""
        ...


class PromptCounter(Protocol):
    """Estimates the length of the run's requests."""

    def tokens(self, request: InferenceRequest) -> int:
        """Estimate the tokens of a request."""
        ...


_LIFECYCLE, _ACTIONS, _HELD = RUN_LIFECYCLE.name, PENDING_ACTIONS.name, PENDING_MESSAGES.name
# Bound once: Python 3.11 reads a member through its class slowly.
_RUNNING, _WAITING, _DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE
_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL


class Run(msgspec.Struct, eq=False, weakref=True):
    """A run in progress: its identity, its resources and its progress."""

    identity: RunIdentity
    record: RunRecord
    """The durable record, as last written or about to be written."""
    agent: ResolvedAgent
    pinned: RegistrySnapshot
    """The registry version that this run keeps from start to end."""
    request: RunRequest
    services: Services
    store: Store
    state: StateStore
    journal: Journal
    feed: EventFeed
    inbox: Inbox
    """Its signal wakes a run that waits in this process when input arrives."""
    messages: Transcript
    """The transcript; only `append` adds to it."""
    tickets: dict[str, Ticket]
    """Tickets of this run that are open or not yet acted on, by call id."""
    open_calls: dict[str, ToolCall]
    """Tool calls that have no result yet, in call order."""
    step: Step
    usage: TokenUsage
    stats: StopStats
    started_ms: int
    """Monotonic time at which this activation began."""
    loop: asyncio.AbstractEventLoop
    """The loop that executes the run; a tool may run in another thread."""
    watchdog: Watchdog
    """Calls back when an operation that the run awaits takes too long."""
    token: CancellationToken
    cancels: TaskCancels
    """The cancellations of the task that executes the run."""
    opened_at: int = 0
    """The wall-clock time at `started_ms`; 0 until the first commit of this activation."""
    loop_zero_ms: int | None = None
    """The wall-clock time at which the loop's time was 0; None until a tool runs."""
    active_before_ms: int = 0
    """Executing time of earlier activations."""
    has_phases: bool = True
    """Whether a phase may have work: the agent has hooks, or an action was queued."""
    has_budgets: bool = False
    """Whether anything limits or counts what the run spends."""
    recovery: Recovery | None = None
    """Present when another process started the run or the step that executes here."""
    is_continued: bool = False
    """Whether the run waited before and resumes now."""
    is_paused: bool = False
    """Whether it stops before its next step, because an operator paused its agent."""
    is_attached: bool = False
    """Whether a caller awaits the run, so that it ends with its caller."""
    has_input: bool = False
    """Whether there may be queued input that the run can take in."""
    has_children: bool = False
    """Whether the run has started child runs in this process."""
    response: str = ""
    output: Any = None
    output_retries: int = 0
    children: ChildStarter | None = None
    """Starts the child runs of the run's calls."""
    on_open: Callable[[], None] | None = None
    """Called once the run is durable."""
    instruments: tuple[Instrument, ...] = ()
    """Instruments that observe the run while it executes here."""
    profile: ProfileAccess | None = None
    own: Mapping[str, Any] = EMPTY
    """The per-run objects of the plugins, by plugin name."""
    streaming: "UnfinishedAnswer | None" = None
    """The model turn that is being streamed."""
    window: ContextWindow | None = None  # The part of the transcript that is sent; None: all.
    digest: MessageDigest | None = None
    """The digest of the transcript up to the latest request that sent all of it."""
    meter: PromptCounter | None = None
    """Present once a budget needs the length of requests."""
    unsettled: Mapping[str, Amount] = EMPTY
    """Spending that is not yet charged to the ledgers of shared scopes, by scope."""
    side_call_lock: asyncio.Lock | None = None  # Held by the tool call that asks the model.
    remote_end: RemoteEnd | None = None  # How the turn at a remote backend ended.
    successors: tuple[RunDispatch, ...] = ()  # Runs that the commit of its end queues or orders.
    waiting: Waiting | None = None  # What a workflow waits for; of other runs, tickets say it.

    @property
    def cancel_cause(self) -> str:
        """What cancelled the run; without a given cause, its caller or the process shutdown."""
        return self.token.cause or ("caller" if self.is_attached else "shutdown")

    @property
    def active_ms(self) -> int:
        """How long the run has been executing, over all its activations."""
        return self.active_before_ms + self.services.clock.monotonic_ms() - self.started_ms

    @property
    def is_recoverable(self) -> bool:
        """Whether it goes on from its last commit if it stops here: a dispatch or decider waits."""
        lease, is_asked = self.journal.lease, self.is_continued or bool(self.tickets)
        is_promised = is_asked and not self.is_attached
        return lease is not None and (lease.dispatch_id is not None or is_promised)

    def find_due_end(self) -> Termination | None:
        """Return how the run has to end now: cancelled, or as a plugin or a rule decided.

        Checked at every turn, because foreign code may swallow the cancellation it received.
        """
        if self.token.cause is not None:
            return Cancelled(cause=self.token.cause)
        lifecycle: RunLifecycle = self.state.values[_LIFECYCLE]
        return lifecycle.termination if lifecycle.status is _DONE else None

    def end(self, termination: Termination) -> None:
        """Decide how the run ends; the current step checks this at its next turn."""
        self.state.update(RUN_LIFECYCLE, End(termination=termination))

    def has_work(self, phase: Phase) -> bool:
        """Whether a phase has hooks or actions to run that did not run before a crash."""
        values = self.state.values
        if phase not in self.agent.env.phases and (_ACTIONS not in values or not values[_ACTIONS]):
            return False
        return phase not in self.step.passed

    def emit(self, event: AgentEvent) -> None:
        """Show a live event to the readers."""
        if not self.feed.readers:
            return
        if self.journal.announced:
            self.journal.announce(event, is_logged=False)
        else:
            self.feed.emit(event)

    def show(self, event: AgentEvent) -> None:
        """Show an event now and keep it for the log."""
        self.journal.events.append(event)
        if self.feed.readers:
            self.emit(event)

    def list_unfinished_events(self) -> list[AgentEvent]:
        """Return what readers have seen since the last commit, with streamed pieces joined."""
        streamed = self.streaming.list_streamed() if self.streaming is not None else ()
        return [*self.journal.list_shown_events(), *streamed]

    def begin_step(self) -> None:
        """Start a new step and fix the id of the message that it will produce."""
        before = self.step
        self.step = Step(
            number=before.number + 1,
            metadata=MessageMetadata(run_id=self.identity.run_id, step_index=before.number),
            message_id=self.services.ids.new_id(),
            is_open=True,
            passed=before.passed & _OF_RUN if before.passed else before.passed,
        )
        event = StepStart(message_id=self.step.message_id)
        self.journal.events.append(event)
        if self.feed.readers:
            self.emit(event)

    def append(self, message: Message) -> None:
        """Add a message, with its id and metadata, to the transcript and to the next commit."""
        self.messages.append(message)
        self.journal.messages.append(message)
        if message.role is _TOOL:
            self.open_calls.pop(message.tool_call_id or "", None)
        elif message.role is _ASSISTANT:
            self.response = text_of(message.content)
            for call in message.tool_calls or ():
                self.open_calls[call.id] = call

    def append_user(self, message: Message) -> None:
        """Add a message from outside, with an id, the run's metadata and its speaker."""
        if self.agent.env.message_screens:
            (message,), blocked = look_at_messages(self.agent.env, (message,))
            if blocked is not None:
                self.end(Blocked(reason=blocked))
        metadata, given = self.step.metadata, message.metadata
        if given is not None and given.user_id is not None:
            metadata = msgspec.structs.replace(metadata, user_id=given.user_id)
            begun_by = self.record.begun_by or (self.record.user_id,)
            self.record = msgspec.structs.replace(self.record, begun_by=begun_by)
        id_ = message.id or self.services.ids.new_id()
        self.append(msgspec.structs.replace(message, id=id_, metadata=metadata))
        sender = message.sender
        if sender is not None and sender.is_end and sender.task_id:
            _count_task_end(self, sender.task_id, sender.usage)

    def order(self, entry: OutboxEntry) -> None:
        """Queue a command for outside of the thread; it is sent once the next commit is durable."""
        if all(entry.entry_id != known.entry_id for known in self.journal.outbox):
            self.journal.outbox += (entry,)

    def drain_inbox(self) -> bool:
        """Append the inbox to the transcript; return whether the model has to answer it."""
        values = self.state.values
        held: tuple[Message, ...] = values[_HELD] if _HELD in values else ()
        if not (held or self.inbox.messages):
            return False
        if held:
            self.state.commit(MutationBatch(ops=(Clear(key=PENDING_MESSAGES),)))
            held = with_free_ids(filter_known(held, self.messages), self.messages)
        taken = (*held, *self.inbox.drain())
        for message in taken:
            self.append_user(message)
        return wakes_model(taken)

    def hold(self, messages: Iterable[Message]) -> None:
        """Keep messages for later: they cannot enter the transcript while calls are open.

        A message that is sent again is kept once: its sender cannot see it in the thread yet.
        """
        if fresh := list_new_messages(self, messages):
            held = self.state.get(PENDING_MESSAGES)
            named = with_free_ids(fresh, chain(self.messages, held))
            self.state.update(PENDING_MESSAGES, (*held, *named))

    def lose_lease(self) -> None:
        """Stop at once and write nothing more: another process has the thread."""
        self._stop(LeaseLost(thread_id=self.identity.thread_id))

    def hand_over(self) -> None:
        """Stop without an outcome, so that another process continues from the last commit."""
        self._stop(RunHandedOver(run_id=self.identity.run_id))

    def _stop(self, reason: AwakenError) -> None:
        self.journal.close(reason)
        self.token.cancel(reason.code)

    def flush(self) -> Coroutine[Any, Any, None]:
        """Make everything pending durable."""
        return self.journal.flush(self.state, self._record_to_flush)

    def _record_to_flush(self, _now: int) -> RunRecord | None:
        if self.journal.lease is None:
            # Changed state is committed together with the record of its run.
            return self.record if self.state.changed or self.journal.has_run_state else None
        self.record = msgspec.structs.replace(
            self.record,
            usage=self.usage,
            active_agent_id=self.identity.active_agent_id,
            bookmark=encode_bookmark(self._bookmark()),
        )
        return self.record

    def _bookmark(self) -> Bookmark:
        step, written = self.step, self.state.written
        base = step.batch_base
        changed = (name for name, at in written.items() if base is not None and at > base)
        lifecycle = self.state.get(RUN_LIFECYCLE)
        return Bookmark(
            step=step.number,
            is_step_open=step.is_open,
            message_id=step.message_id,
            answer=step.answer,
            is_over=step.is_over,
            failures=step.failures,
            output_retries=self.output_retries,
            passed=step.passed,
            hooked=step.hooked,
            owed=step.pending_after_hook,
            written=tuple(sorted(changed)),
            verdict=step.ending,
            termination=lifecycle.termination if lifecycle.status is RunStatus.DONE else None,
            is_remote=not self.agent.is_local,
            remote_end=self.remote_end,
        )

    def flush_record(self) -> Coroutine[Any, Any, None]:
        """Make everything pending durable together with the record of the run, which continues."""
        return self.journal.flush(self.state, self._next_record)

    def flush_last(
        self,
        event: AgentEvent,
        termination: Termination | None,
        waiting: Waiting | None,
        outbox: tuple[OutboxEntry, ...],
        enqueued: tuple[RunDispatch, ...] = (),
    ) -> Coroutine[Any, Any, None]:
        """End the run, or let it wait, in one commit with its last event; release its thread."""
        lease = self.journal.lease
        release = Release() if lease is not None and not lease.is_kept else None
        last = LastWrite(event=event, outbox=outbox, release=release, enqueued=enqueued)
        record = partial(self._next_record, is_last=True, termination=termination, waiting=waiting)
        return self.journal.flush(self.state, record, last)

    def _next_record(
        self,
        now: int,
        *,
        is_last: bool = False,
        termination: Termination | None = None,
        waiting: Waiting | None = None,
    ) -> RunRecord:
        step, status = self.step, _RUNNING
        if not self.opened_at:
            # The clock was read for the commit. Only plugins that were activated since the run
            # began make a second reading necessary.
            has_waited = bool(self.agent.env.activated)
            late = self.services.clock.monotonic_ms() - self.started_ms if has_waited else 0
            self.opened_at = now - late
        if is_last:
            status = _DONE if waiting is None else _WAITING
        is_kept = not is_last and self.journal.lease is not None
        self.record = msgspec.structs.replace(
            self.record,
            status=status,
            active_agent_id=self.identity.active_agent_id,
            waiting=waiting,
            termination=termination,
            backend_status=self.remote_end.status if self.remote_end is not None else None,
            final_output=self.response or None if is_last else None,
            steps=step.number - 1 if step.is_open else step.number,
            usage=self.usage,
            bookmark=encode_bookmark(self._bookmark()) if is_kept else None,
            # A run begins with its first commit.
            created_at=self.record.created_at or now,
            started_at=self.record.started_at or now,
            finished_at=now if status is _DONE else None,
            updated_at=now,
        )
        return self.record


def list_new_messages(run: Run, messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the screened messages that the run neither holds nor has in its transcript."""
    # A blocked message ends the run when it is appended: it is screened again then.
    screened = look_at_messages(run.agent.env, messages).messages
    held = run.state.get(PENDING_MESSAGES)
    return filter_known(screened, chain(run.messages, held))


_OF_RUN = frozenset({Phase.RUN_START, Phase.RUN_END})


def _count_task_end(run: Run, task_id: str, usage: TokenUsage | None) -> None:
    """Forget a task and count its usage, in the commit of its end message, so exactly once."""
    task = run.state.get(BACKGROUND_TASKS).get(task_id)
    run.state.update(BACKGROUND_TASKS, TaskEndDelivered(task_id=task_id))
    if usage is None:
        return
    if task is None or task.run_id == run.identity.run_id:
        # The usage of a task belongs to the run that started it, not to a later one.
        run.usage = run.usage.plus(usage)
    if run.state.has(THREAD_LEDGER):
        charged = run.state.get(THREAD_LEDGER).charge(Amount.of(usage))
        run.state.update(THREAD_LEDGER, charged)
