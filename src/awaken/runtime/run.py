"""One run while it executes: everything the loop needs, gathered in one place.

The loop and its steps are functions over this object. It decides nothing; it knows, and it keeps
the transcript, the journal and the state together.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError, LeaseLost
from awaken.contracts.events import AgentEvent, StepStart
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Blocked, Cancelled, RunStatus, Termination
from awaken.contracts.messages.content import ContentBlock, text_of
from awaken.contracts.messages.message import Message, MessageMetadata, Role, ToolCall
from awaken.contracts.messages.transcript import Transcript
from awaken.contracts.models.budgets import THREAD_LEDGER, Amount, Budget, OwnPrices, PriceList
from awaken.contracts.models.inference import InferenceRequest, TokenUsage
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.instruments import Instrument, InstrumentMaker
from awaken.contracts.plugins.loop_state import PENDING_MESSAGES, RUN_LIFECYCLE, End, StopStats
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting
from awaken.contracts.state.keys import Clear, MutationBatch
from awaken.contracts.state.profile import ProfileAccess, ProfileStore
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.store import Commit, OutboxEntry, Store, StreamCheckpoint, ToolRecord
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import BACKGROUND_TASKS, TaskTold
from awaken.contracts.tools.sub_runs import DurableMessageSink, SubRuns
from awaken.contracts.tools.tool import Tool

from .context.summaries import Compactor
from .context.window import ContextWindow
from .journal.bookmark import Answered, Bookmark, Owed, RemoteEnd, stored_bookmark
from .journal.inbox import Inbox
from .journal.journal import Journal, LastWords
from .journal.known_messages import unheard_messages, wakes_model, with_free_ids
from .journal.leases import RunHandedOver
from .journal.streams import EventFeed
from .limits import Limits, ToolSlots
from .model_health.health import ModelHealth
from .plugins.input_screens import look_at_messages
from .primitives.alarm import Alarm
from .primitives.cancellation import CancellationToken, TaskCancels
from .resolution.registry import RegistrySnapshot
from .resolution.resolver import ResolvedAgent
from .state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all runs of one engine share."""

    clock: Clock
    ids: IdSource
    limits: Limits
    tool_slots: ToolSlots
    profile: ProfileStore
    health: ModelHealth
    compactor: Compactor = field(default_factory=Compactor)
    prices: PriceList = field(default_factory=OwnPrices)
    budgets: tuple[Budget, ...] = ()
    """Those that every run is held to."""
    message_sink: DurableMessageSink | None = None
    """Takes messages to other threads; absent: they are part of the sender's commit."""
    may_rest: bool = True
    """Whether a run may be released while its tasks go on: somebody wakes it."""
    instruments: list[InstrumentMaker] = field(default_factory=list)
    """Those that watch every run that begins or goes on from now on."""
    commit_watchers: list[Callable[[Commit], None]] = field(default_factory=list)
    """Told of every commit of a run once it is durable; they must not raise."""
    session_tools: dict[str, Callable[[], Sequence[Tool]]] = field(default_factory=dict)
    """What the sessions of clients that are open in this process offer now, by session."""


class UnfinishedAnswer(Protocol):
    """A model turn in progress."""

    def seen(self) -> Sequence[AgentEvent]:
        """What was streamed so far, one event per block."""
        ...

    def checkpoint(self) -> tuple[tuple[ContentBlock, ...], tuple[ToolCall, ...], str | None]:
        """What was said, the calls that are complete, and the tool of one that is not."""
        ...

    def give_up_calls(self, reason: str) -> None:
        """Tell whoever saw calls begin that they will not come."""
        ...


class ChildStarter(Protocol):
    """Makes what a tool call can set going."""

    def below(self, run: "Run", call_id: str, idempotency_key: str) -> SubRuns:
        """The runs below one call of a run."""
        ...


class PromptCounter(Protocol):
    """Knows how long the run's requests are."""

    def tokens(self, request: InferenceRequest) -> int:
        """Estimate the tokens of a request."""
        ...


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_SPENT = Amount()


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Run:
    """A run in progress."""

    identity: RunIdentity
    record: RunRecord
    """The durable record as last written or about to be."""
    agent: ResolvedAgent
    pinned: RegistrySnapshot
    """The registry version that this run keeps from start to end."""
    request: RunRequest
    services: Services
    store: Store
    state: StateStore
    journal: Journal
    feed: EventFeed
    token: CancellationToken = field(default_factory=CancellationToken)
    alarm: Alarm = field(default_factory=Alarm)
    """Rings when what the run waits for takes too long."""
    inbox: Inbox
    """Its bell is rung when something came that the run may wait for in process."""
    messages: Transcript
    """The transcript: read by everybody, appended to by `append` only."""
    profile: ProfileAccess | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    """The per-run objects of the plugins, by plugin name."""
    tickets: dict[str, Ticket]
    """Tickets of this run that are open or not yet acted on, by call id."""
    open_calls: dict[str, ToolCall]
    """Tool calls that have no result yet, in call order."""
    metadata: MessageMetadata
    """Marks what this step produces."""
    usage: TokenUsage
    stats: StopStats
    started_ms: int
    """Monotonic time at which this activation began."""
    active_before_ms: int = 0
    """Executing time of earlier activations."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    """The loop that executes the run; a tool may run in another thread."""
    cancels: TaskCancels = field(init=False)
    """The cancellations of the task that executes the run."""
    step: int = 0
    step_message_id: str = ""
    answered: tuple[ContentBlock, ...] = ()
    """What the model had said in the step in which another process stopped."""
    response: str = ""
    output: Any = None
    output_retries: int = 0
    step_calls: tuple[ToolCall, ...] = ()
    step_failures: int = 0
    is_step_open: bool = False
    is_attached: bool = False
    """Whether somebody awaits the run, so that it ends with its caller."""
    streaming: "UnfinishedAnswer | None" = None
    """The model turn that is being streamed."""
    on_open: Callable[[], None] | None = None
    """Called once the run is durable."""
    passed: frozenset[Phase] = frozenset()
    """Phases of the run and of its step whose hooks have acted."""
    hooked: frozenset[str] = frozenset()
    """Calls of the step whose hooks before execution have acted."""
    owed: Owed | None = None
    """A call whose result is written and whose hooks have not acted yet."""
    answer: Answered | None = None
    """Present once the model has answered in this step."""
    is_step_over: bool = False
    """Whether everything of the step is done but its end."""
    verdict: Termination | None = None
    """How the run ends when its step is over, as far as that is known."""
    batch_base: int | None = None
    """The state revision that the calls of the step that run now were started on."""
    is_recovered: bool = False
    """Whether another process has begun what is executed here."""
    is_continued: bool = False
    """Whether it waited and goes on."""
    ended_before: Termination | None = None
    """How a plugin, or the way out, had ended the run there."""
    heard: StreamCheckpoint | None = None
    """What another process has streamed of the answer that is asked for now."""
    lost: Mapping[str, ToolRecord] = field(default_factory=lambda: _NOTHING)
    """What the tool journal knows of calls that another process left without a result."""
    attempts: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """How often such a call was started before, if it has to be run again."""
    unsettled: Amount = _NOT_SPENT
    """What the tenant's ledger was not charged with yet."""
    meter: PromptCounter | None = None
    """Present once a budget has to know how long requests are."""
    window: ContextWindow | None = None
    """What is sent of the transcript; None while all of it is."""
    has_input: bool = False
    """Whether queued input may be there that the run could take in."""
    children: ChildStarter | None = None
    """Starts what its calls set going."""
    has_children: bool = False
    """Whether it started runs below it here."""
    asides: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the tool call that asks the model something."""
    instruments: tuple[Instrument, ...] = ()
    """What watches it while it executes here."""
    remote_end: RemoteEnd | None = None
    """How the turn at a remote backend ended."""

    @property
    def cancel_cause(self) -> str:
        """Who cancelled; a cancellation nobody asked for is the caller's or the process's end."""
        return self.token.cause or ("caller" if self.is_attached else "shutdown")

    @property
    def active_ms(self) -> int:
        """How long the run has been executing, over all its activations."""
        return self.active_before_ms + self.services.clock.monotonic_ms() - self.started_ms

    @property
    def termination(self) -> Termination | None:
        """How the run was ended by a plugin or a rule, or None while it goes on."""
        lifecycle = self.state.get(RUN_LIFECYCLE)
        return lifecycle.termination if lifecycle.status is RunStatus.DONE else None

    @property
    def stopped_by(self) -> AwakenError | None:
        """Why the run stops here without an outcome; None while it goes on or ends properly."""
        return self.journal.closed_by

    @property
    def is_delivered(self) -> bool:
        """Whether it executes for a dispatch, which is delivered again if it stops here."""
        lease = self.journal.lease
        return lease is not None and lease.dispatch_id is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the run."""
        return self.token.cause is not None

    @property
    def ending(self) -> Termination | None:
        """How the run has to end now, or None while it may go on.

        Asked at every turn, because foreign code may swallow the cancellation it was sent.
        """
        return Cancelled(cause=self.cancel_cause) if self.is_cancelled else self.termination

    def emit(self, event: AgentEvent) -> None:
        """Show a live event to whoever watches."""
        if not self.feed.readers:
            return
        if self.journal.has_announcements:
            self.journal.announce(event, is_logged=False)
        else:
            self.feed.emit(event)

    def show(self, event: AgentEvent) -> None:
        """Show an event now and keep it for the log."""
        self.journal.record(event)
        self.emit(event)

    def unfinished_events(self) -> list[AgentEvent]:
        """What readers have seen since the last commit, with streamed pieces joined."""
        streamed = self.streaming.seen() if self.streaming is not None else ()
        return [*self.journal.shown_events(), *streamed]

    def begin_step(self) -> None:
        """Count a new step and fix the id of the message that it will produce."""
        self.step += 1
        self.metadata = MessageMetadata(run_id=self.identity.run_id, step_index=self.step - 1)
        self.step_message_id = self.services.ids.new_id()
        self.step_calls = ()
        self.step_failures = 0
        self.is_step_open = True
        self.is_step_over = False
        self.answer = self.verdict = self.batch_base = None
        if self.passed or self.hooked:
            self.passed, self.hooked = self.passed & _OF_RUN, frozenset()
        self.show(StepStart(message_id=self.step_message_id))

    def append(self, message: Message) -> None:
        """Add a message with its id and mark to the transcript and to the next commit."""
        self.messages.append(message)
        self.journal.messages.append(message)
        if message.role is Role.TOOL:
            self.open_calls.pop(message.tool_call_id or "", None)
        elif message.role is Role.ASSISTANT:
            self.response = text_of(message.content)
            for call in message.tool_calls or ():
                self.open_calls[call.id] = call

    def append_user(self, message: Message) -> None:
        """Add a message from outside, with an id and the run's mark."""
        if self.agent.env.message_screens:
            (message,), blocked = look_at_messages(self.agent.env, (message,))
            if blocked is not None:
                block_run(self, blocked)
        marked = msgspec.structs.replace(
            message, id=message.id or self.services.ids.new_id(), metadata=self.metadata
        )
        self.append(marked)
        sender = message.sender
        if sender is not None and sender.is_end and sender.task_id:
            _hear_end(self, sender.task_id, sender.usage)

    def order(self, entry: OutboxEntry) -> None:
        """Ask for something outside of the thread, once the next commit is durable."""
        if all(entry.entry_id != known.entry_id for known in self.journal.outbox):
            self.journal.outbox.append(entry)

    def take_in_news(self) -> bool:
        """Add what was sent to the run and not taken in yet; returns whether the model is asked."""
        held = self.state.get(PENDING_MESSAGES)
        if held:
            self.state.commit(MutationBatch(ops=(Clear(key=PENDING_MESSAGES),)))
            held = with_free_ids(unheard_messages(held, self.messages), self.messages)
        news = (*held, *self.inbox.drain())
        for message in news:
            self.append_user(message)
        return wakes_model(news)

    def hold(self, messages: Iterable[Message]) -> None:
        """Keep messages for later: the transcript has no place for them while calls wait.

        One that is sent again is kept once: whoever sent it does not see it in the thread yet.
        """
        if fresh := unheard_by(self, messages):
            held = self.state.get(PENDING_MESSAGES)
            named = with_free_ids(fresh, chain(self.messages, held))
            self.state.update(PENDING_MESSAGES, (*held, *named))

    def lose_lease(self) -> None:
        """Stop at once and write nothing more: somebody else has the thread."""
        self._stop(LeaseLost(thread_id=self.identity.thread_id))

    def hand_over(self) -> None:
        """Stop without an outcome, so that another process goes on from the last commit."""
        self._stop(RunHandedOver(run_id=self.identity.run_id))

    def _stop(self, reason: AwakenError) -> None:
        self.journal.close(reason)
        self.token.cancel(reason.code)

    async def flush(self) -> None:
        """Make everything pending durable."""
        await self.journal.flush(self.state, self._record_to_flush)

    def _record_to_flush(self) -> RunRecord | None:
        if self.journal.lease is None:
            # Changed state goes along with the record of the run that it belongs to.
            return self.record if self.state.changed or self.journal.has_run_state else None
        self.record = msgspec.structs.replace(
            self.record,
            usage=self.usage,
            active_agent_id=self.identity.active_agent_id,
            bookmark=stored_bookmark(self._bookmark()),
        )
        return self.record

    def _bookmark(self) -> Bookmark:
        base, written = self.batch_base, self.state.written
        changed = (name for name, at in written.items() if base is not None and at > base)
        return Bookmark(
            step=self.step,
            is_step_open=self.is_step_open,
            message_id=self.step_message_id,
            answer=self.answer,
            is_over=self.is_step_over,
            failures=self.step_failures,
            output_retries=self.output_retries,
            passed=self.passed,
            hooked=self.hooked,
            owed=self.owed,
            written=tuple(sorted(changed)),
            verdict=self.verdict,
            termination=self.termination,
            is_remote=not self.agent.is_local,
            remote_end=self.remote_end,
        )

    async def flush_record(
        self,
        status: RunStatus,
        *,
        termination: Termination | None = None,
        waiting: Waiting | None = None,
        finish: AgentEvent | None = None,
        orders: Iterable[OutboxEntry] = (),
    ) -> None:
        """Make everything pending durable together with the run's record.

        A run that ends or waits lets its thread go in the same commit, which alone has its last
        event and the orders that follow from it.
        """
        is_running = status is RunStatus.RUNNING
        is_kept = is_running and self.journal.lease is not None

        def record() -> RunRecord:
            now = self.services.clock.now_ms()
            self.record = msgspec.structs.replace(
                self.record,
                status=status,
                active_agent_id=self.identity.active_agent_id,
                waiting=waiting,
                termination=termination,
                backend_status=self.remote_end.status if self.remote_end is not None else None,
                final_output=None if is_running else self.response or None,
                steps=self.step - 1 if self.is_step_open else self.step,
                usage=self.usage,
                bookmark=stored_bookmark(self._bookmark()) if is_kept else None,
                finished_at=now if status is RunStatus.DONE else None,
                updated_at=now,
            )
            return self.record

        last = None
        if finish is not None:
            lease = self.journal.lease
            is_released = lease is not None and not lease.is_kept
            last = LastWords(finish, tuple(orders), Release() if is_released else None)
        await self.journal.flush(self.state, record, last)


def unheard_by(run: Run, messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages, screened, that the run has neither in its transcript nor holds."""
    # What is blocked ends the run when it is taken in: it is looked at again then.
    screened = look_at_messages(run.agent.env, messages).messages
    held = run.state.get(PENDING_MESSAGES)
    return unheard_messages(screened, chain(run.messages, held))


_OF_RUN = frozenset({Phase.RUN_START, Phase.RUN_END})


def block_run(run: Run, reason: str) -> None:
    """End a run before anything else: it may not go on with what came in."""
    run.state.update(RUN_LIFECYCLE, End(termination=Blocked(reason=reason)))


def _hear_end(run: Run, task_id: str, usage: TokenUsage | None) -> None:
    """Forget a task, and count what it has used: written with the news, so it counts once."""
    task = run.state.get(BACKGROUND_TASKS).get(task_id)
    run.state.update(BACKGROUND_TASKS, TaskTold(task_id=task_id))
    if usage is None:
        return
    if task is None or task.run_id == run.identity.run_id:
        # What an earlier run of the thread has started is not this one's to pay.
        run.usage = run.usage.plus(usage)
    if run.state.has(THREAD_LEDGER):
        charged = run.state.get(THREAD_LEDGER).charged(Amount.of(usage))
        run.state.update(THREAD_LEDGER, charged)
