"""The worlds that scenarios play in, and the judge that looks at every run.

Time is virtual and the store is slow, so that whoever looks too early sees too little. Each run
is held to what is promised of all of them: valid events, live and logged; a valid transcript at
every commit; requests that every vendor accepts; nothing shown before it is durable; one terminal
event that agrees with the record; and no stream left open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    AwakenError,
    ErrorEvent,
    Limits,
    Message,
    Phase,
    Plugin,
    PluginRegistrar,
    ReasoningDelta,
    RunFinish,
    RunResult,
    RunStart,
    RunStatus,
    StateKey,
    StepEnd,
    StreamReset,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
)
from awaken.contracts.lifecycle import status_after
from awaken.contracts.messages.deltas import Event
from awaken.contracts.tenancy import add_namespace, namespace_of
from awaken.events import LIVE_EVENTS, InferenceComplete, Termination, ToolCallResumed
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.plugins import PhaseHook, ToolGate
from awaken.stores import Commit, CommitReceipt, MemoryStore, RunRecord
from awaken.testing import (
    Entry,
    LoopClock,
    ScriptedModel,
    anthropic_problems,
    assert_valid_events,
    assert_valid_transcript,
    check_transcript,
    gemini_problems,
    openai_problems,
)
from awaken.testing.simulation import Fifo, SimulatedLoop, run

T = TypeVar("T")
E = TypeVar("E", bound=Event)
React = Callable[[AgentRuntime, AgentEvent], Awaitable[object]]

DURABLE = (RunStart, RunFinish, StepEnd, ToolCallDone, ToolCallResumed)
"""Events that claim to be durable when somebody sees them."""
SAID = (TextDelta, ReasoningDelta)
NO_RETRIES = {"max_retries": 0, "max_stream_retries": 0}


def simulated(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario on virtual time; hanging, leaking and unseen failures are errors."""
    return run(SimulatedLoop(Fifo()), scenario)


class CheckedModel(ScriptedModel):
    """Notes every request that some vendor would refuse."""

    def __init__(self, entries: Iterable[Entry], **options: Any) -> None:
        super().__init__(entries, **options)
        self.problems: list[str] = []

    rules: tuple[Callable[[Sequence[Message]], list[str]], ...] = (
        check_transcript,
        openai_problems,
        anthropic_problems,
        gemini_problems,
    )

    def stream(self, request: InferenceRequest) -> Any:
        for rule in self.rules:
            self.problems += rule(request.messages)
        return super().stream(request)


class WatchedStore(MemoryStore):
    """A store that takes its time, remembers every commit, and fails when it is told to.

    `fault` is asked before each commit, with its number from 1 on; what it returns is raised,
    before the commit is applied, or after it when the fault is wrapped in `Lost`.
    """

    def __init__(self, fault: Callable[[int], BaseException | None] = lambda _: None) -> None:
        super().__init__()
        self.commits: list[Commit] = []
        self.asked = 0
        self.watch: Callable[[Commit], object] = lambda _: None
        self.fault = fault

    async def commit(self, commit: Commit) -> CommitReceipt:
        self.asked += 1
        problem = self.fault(self.asked)
        await asyncio.sleep(0)
        if problem is not None and not isinstance(problem, Lost):
            raise problem
        receipt = await super().commit(commit)
        self.commits.append(commit)
        self.watch(commit)
        await asyncio.sleep(0)
        if isinstance(problem, Lost):
            raise problem.reason
        return receipt

    @property
    def durable_events(self) -> set[int]:
        return {id(event) for commit in self.commits for event in commit.events}


class Lost(Exception):
    """The commit is applied and its reply is lost."""

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason


class Gate(Plugin):
    """A plugin that is one gate."""

    def __init__(self, gate: ToolGate, name: str = "gate") -> None:
        self.name = name
        self._gate = gate

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self._gate)


class Hooks(Plugin):
    """A plugin of plain hooks, one for each phase that is given."""

    def __init__(
        self,
        hooks: Mapping[Phase, PhaseHook],
        *,
        name: str = "hooks",
        keys: Sequence[StateKey[Any, Any]] = (),
    ) -> None:
        self.name = name
        self._hooks = hooks
        self._keys = keys

    def register(self, registrar: PluginRegistrar) -> None:
        for key in self._keys:
            registrar.key(key)
        for phase, hook in self._hooks.items():
            registrar.hook(phase, hook)


@dataclass
class Story:
    """What came of one run."""

    events: list[AgentEvent]
    messages: list[Message]
    log: list[AgentEvent]
    record: RunRecord | None
    error: BaseException | None = None
    result: RunResult | None = None
    requests: list[InferenceRequest] = field(default_factory=list)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def types(self) -> list[str]:
        return [str(event.__struct_config__.tag) for event in self.events]

    @property
    def termination(self) -> Termination:
        (finish,) = self.of(RunFinish)
        return finish.termination

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The transcript as pairs of role and text."""
        return [(str(message.role), message.text) for message in self.messages]

    @property
    def answers(self) -> list[str]:
        """The texts of the tool messages."""
        return [text for role, text in self.lines if role == "tool"]


class World:
    """A runtime with one agent, a checked model and a watched store."""

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        model: Any = None,
        store: WatchedStore | None = None,
        limits: Limits | None = None,
        model_options: dict[str, Any] | None = None,
        **agent: Any,
    ) -> None:
        self.model = model or CheckedModel(entries, **(model_options or {}))
        # A script plays its entries one by one: whoever wants a second try says so.
        agent.setdefault("config", {"retry": NO_RETRIES})
        self.store = store or WatchedStore()
        if isinstance(self.model, CheckedModel):
            self.model.rules = (*self.model.rules, self._results_not_durable)
        self.runtime = AgentRuntime(
            [Agent("agent", model=self.model, **agent)],
            store=self.store,
            limits=limits or Limits(),
            clock=LoopClock(),
        )

    async def __aenter__(self) -> "World":
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.runtime.__aexit__(*error)
        if error[0] is None:
            assert getattr(self.model, "open_streams", 0) == 0

    async def tell(self, input: Any = "go", *, react: React | None = None, **options: Any) -> Story:
        """Stream one run to its end, and judge it."""
        options.setdefault("thread_id", "t")
        events: list[AgentEvent] = []
        error: BaseException | None = None
        try:
            async for event in self.runtime.stream("agent", input, **options):
                self._judge_visibility(event)
                events.append(event)
                if react is not None:
                    await react(self.runtime, event)
        except (AwakenError, OSError) as raised:
            error = raised
        stored = add_namespace(namespace_of(options.get("tenant_id")), options["thread_id"])
        return await self.judged(events, error, stored)

    async def judged(
        self,
        events: list[AgentEvent],
        error: BaseException | None = None,
        thread_id: str = "t",
        *,
        is_live: bool = True,
    ) -> Story:
        """Hold a run that is over to every promise; return what came of it."""
        run_id = events[0].run_id if isinstance(events[0], RunStart) else ""
        checkout = await self.store.checkout(thread_id)
        messages = list(checkout.messages) if checkout is not None else []
        logged = await self.store.list_events(thread_id)
        log = [entry.event for entry in logged if entry.run_id == run_id]
        record = await self.store.load_run(run_id)
        waiting = await self.store.list_tickets(thread_id)
        result = await self.runtime.wait(run_id) if record is not None else None
        assert_valid_events(events)
        is_cut_off = isinstance(events[-1], ErrorEvent)
        assert_valid_transcript(
            messages,
            open_calls(messages) if is_cut_off else {ticket.call_id for ticket in waiting},
        )
        assert_valid_at_every_commit(self.store.commits)
        assert getattr(self.model, "problems", []) == []
        if is_live and isinstance(events[-1], RunFinish):
            _judge_end(events, log, record)
        requests = list(getattr(self.model, "requests", ()))
        return Story(events, messages, log, record, error, result, requests)

    def _results_not_durable(self, messages: Sequence[Message]) -> list[str]:
        results = {message.id for message in messages if message.role is Role.TOOL}
        stored = {message.id for commit in self.store.commits for message in commit.messages}
        return [f"result {it} is used before it is durable" for it in results - stored]

    def _judge_visibility(self, event: AgentEvent) -> None:
        if isinstance(event, DURABLE):
            assert id(event) in self.store.durable_events, f"shown before it is durable: {event}"


def play(entries: Iterable[Entry] = (), *, input: Any = "go", **world: Any) -> Story:
    """Make a world, play one run in it on virtual time, and judge it."""
    react, options = world.pop("react", None), world.pop("options", {})

    async def scenario() -> Story:
        async with World(entries, **world) as made:
            return await made.tell(input, react=react, **options)

    return simulated(scenario)


def assert_valid_at_every_commit(commits: Sequence[Commit]) -> None:
    """Check every committed prefix of each thread; calls at work may be open at its end."""
    threads: dict[str, list[Message]] = {}
    for commit in commits:
        messages = threads.setdefault(commit.thread_id, [])
        messages += commit.messages
        assert_valid_transcript(messages, open_calls(messages))
        if commit.run is not None and commit.run.status is RunStatus.DONE:
            assert not open_calls(messages)


def open_calls(messages: Sequence[Message]) -> set[str]:
    """The calls of the last assistant message that nothing answers."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role is not Role.TOOL:
            return {call.id for call in message.tool_calls or ()} - answered
        answered.add(message.tool_call_id)
    return set()


def _judge_end(events: list[AgentEvent], log: list[AgentEvent], record: RunRecord | None) -> None:
    assert_valid_events(log)
    assert _told(events) == _told(log), "the log tells another story than the stream"
    finish = events[-1]
    assert isinstance(finish, RunFinish)
    assert record is not None
    assert record.status is status_after(finish.termination)
    if record.status is RunStatus.DONE:
        assert record.termination == finish.termination


def _told(events: list[AgentEvent]) -> tuple[str, str, list[AgentEvent]]:
    """What a stream says, however it is cut into deltas; calls that came to nothing count not."""
    kept = _not_taken_back(events)
    text = "".join(event.delta for event in kept if isinstance(event, TextDelta))
    thought = "".join(event.delta for event in kept if isinstance(event, ReasoningDelta))
    others: list[AgentEvent] = []
    started: dict[str, ToolCallStart] = {}
    for event in events:
        if isinstance(event, ToolCallStart):
            started[event.id] = event
        elif isinstance(event, ToolCallReady):
            others += [started.pop(event.id), event]
        elif not isinstance(event, (*LIVE_EVENTS, *SAID)):
            others.append(event)
    return text, thought, others


def _not_taken_back(events: list[AgentEvent]) -> list[AgentEvent]:
    """What a turn said counts only from its last reset on."""
    kept: list[AgentEvent] = []
    turn: list[AgentEvent] = []
    for event in events:
        if isinstance(event, StreamReset):
            turn = []
        elif isinstance(event, SAID):
            turn.append(event)
        elif isinstance(event, InferenceComplete | RunFinish):
            kept += turn
            turn = []
    return kept + turn
