"""Generated runs: parallel calls, state, tickets, steering, delegates, handoffs, crashes.

Everything follows from a seed. Models answer what follows from their request, so that a process
that takes a run over hears the same; tools never answer the same twice, so that only a recording
can have their results.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from awaken import (
    Agent,
    ConsecutiveErrors,
    ContextWindowPolicy,
    InputMode,
    LoopDetection,
    RunRequest,
    StateKey,
    TokenBudget,
    ToolContext,
    tool,
    user,
)
from awaken.bootstrap.evals import find_eval_store
from awaken.bootstrap.providers import Connections, provider_clients
from awaken.bootstrap.registries import registry_set
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.worlds import World
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.inference import ModelEvent, Stop, ThinkingSignature, UsageReport
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.queries import RunQuery
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.evals.recording import Recorder
from awaken.evals.worlds import pack_world
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.permission import PermissionPlugin, ask, deny
from awaken.mailbox.mailbox import Mailbox
from awaken.messages import Role
from awaken.models import (
    SUMMARY_SYSTEM_PROMPT,
    Budget,
    InferenceRequest,
    StopReason,
    TokenUsage,
)
from awaken.plugins import StateScope
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.testing.agent_simulation import approve_all
from awaken.testing.crash_points import CrashPoint, Dead, every_point
from awaken.testing.schedules import SimulatedLoop
from awaken.testing.simulation import Fifo, RandomOrder, run
from awaken.testing.trials import Subject, _Trial

TRAIL: StateKey[list[str], str] = StateKey(
    "generated_trail", default=[], apply=lambda trail, step: [*trail, step], update_type=str
)
SUM: StateKey[int, int] = StateKey(
    "generated_sum", default=0, apply=lambda value, more: value + more, update_type=int,
    merge="commutative", scope=StateScope.THREAD,
)  # fmt: skip
LAST: StateKey[str, str] = StateKey("generated_last", default="", scope=StateScope.THREAD)
WORDS = "and so on " * 60
THREAD = "generated"


@dataclass
class Executions:
    """What the real tools did."""

    calls: list[str] = field(default_factory=list)

    def next(self, name: str) -> str:
        self.calls.append(name)
        return f"{name} #{len(self.calls)}"


def make_tools(done: Executions, chance: random.Random) -> list[Any]:
    pauses = [chance.choice((0, 0, 3, 20)) / 1000 for _ in range(4)]

    @tool(effect="none")
    async def read(key: str) -> str:
        """Read a value."""
        await asyncio.sleep(pauses[0])
        return f"{done.next('read')} of {key}"

    @tool(effect="none")
    async def note(text: str, ctx: ToolContext) -> dict[str, Any]:
        """Note a text."""
        ctx.state.set(LAST, text)
        ctx.state.update(TRAIL, text)
        return {"noted": done.next("note"), "before": len(ctx.state.get(TRAIL))}

    @tool(effect="idempotent")
    async def tally(n: int, ctx: ToolContext) -> str:
        """Add to the sum."""
        await asyncio.sleep(pauses[1])
        ctx.state.update(SUM, n)
        return done.next("tally")

    @tool
    async def send(to: str) -> str:
        """Send something."""
        await asyncio.sleep(pauses[2])
        return f"{done.next('send')} to {to}"

    @tool
    async def ask(question: str, ctx: ToolContext) -> Any:
        """Ask a person."""
        if ctx.resume is None:
            return ctx.suspend(question)
        return f"{done.next('ask')}: {ctx.resume.result}"

    @tool(approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"{done.next('pay')}: {amount}"

    @tool(effect="none")
    async def fail(reason: str) -> str:
        """Fail."""
        done.next("fail")
        raise ValueError(reason)

    return [read, note, tally, send, ask, pay, fail]


def _arguments(name: str, chance: random.Random) -> dict[str, Any]:
    word = chance.choice(("a", "b", "c"))
    number = chance.randrange(3)
    return {
        "read": {"key": word},
        "note": {"text": word},
        "tally": {"n": number},
        "send": {"to": word},
        "ask": {"question": f"{word}?"},
        "pay": {"amount": number},
        "fail": {"reason": word},
        "transfer_to_agent": {"agent_id": "other"},
    }.get(name, {"prompt": f"do {word}"})


class GeneratedModel:
    """Answers what follows from the seed and the request."""

    name = "generated"
    is_deterministic = True

    def __init__(self, seed: int, tools: list[str], ends: float, *, is_wordy: bool) -> None:
        self._seed = seed
        self._tools = tools
        self._ends = ends
        self._is_wordy = is_wordy

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        if SUMMARY_SYSTEM_PROMPT in request.system:
            yield TextDelta(delta=f"summary of {len(str(request.messages[-1].text))} characters")
            yield Stop(reason=StopReason.END_TURN)
            return
        said = [it for it in request.messages if it.role is Role.ASSISTANT]
        last = request.messages[-1].text if request.messages else ""
        place = f"{self._seed}:{len(said)}:{len(request.messages)}:{last[-200:]}"
        chance = random.Random(place)
        if chance.random() < 0.3:
            yield ReasoningDelta(delta=f"thinking {place[:10]}")
            yield ThinkingSignature(signature=chance.choice((None, "signed")))
        text = chance.choice(("", "well", f"so {len(said)}"))
        is_end = chance.random() < self._ends
        if text or is_end:
            yield TextDelta(delta=text or "done")
            if self._is_wordy:
                yield TextDelta(delta=WORDS)
        if not is_end:
            for number in range(chance.choice((1, 1, 2, 3))):
                name = chance.choice(
                    (*self._tools, "nowhere") if chance.random() < 0.05 else self._tools
                )
                call_id = f"c{len(request.messages)}_{number}_{chance.randrange(10)}"
                yield ToolCallStart(id=call_id, name=name)
                data = _arguments(name, chance)
                if chance.random() < 0.05:
                    data = {"wrong": True}
                yield ToolCallDelta(id=call_id, args_delta=msgspec.json.encode(data).decode())
        yield UsageReport(usage=TokenUsage(prompt_tokens=10 + len(said), completion_tokens=5))
        yield Stop(reason=StopReason.END_TURN if is_end else StopReason.TOOL_USE)


@dataclass
class Generated:
    """One generated story after it was played."""

    seed: int
    store: Store
    registries: RegistrySet
    done: Executions
    handle: RegistryHandle
    runs: list[RunRecord]
    crashes: tuple[CrashPoint, ...]


def decide(ticket: Ticket) -> ToolCallResume | None:
    """Decide by what the ticket asks: one in four is declined."""
    pick = random.Random(f"{ticket.tool_name}{ticket.arguments}{ticket.created_at}").random()
    if pick < 0.25:
        name = f"no {ticket.ticket_id}"
        return ToolCallResume(decision_id=name, action=DecisionAction.CANCEL, reason="no")
    if ticket.tool_name == "ask" and not ticket.asked_by:
        return ToolCallResume(decision_id=f"yes {ticket.ticket_id}", result={"n": int(pick * 9)})
    return approve_all(ticket)


def widen(seed: int, options: dict[str, Any]) -> None:
    """Give an agent guardrails, rules, limits, reminders and stop conditions."""
    chance = random.Random(f"wide {seed}")
    plugins = options.setdefault("plugins", [])
    config = options.setdefault("config", {})
    if chance.random() < 0.5:
        actions = {
            "output": ("block", "ask", "redact"),
            "tool_arguments": ("block", "ask"),
            "tool_results": ("block", "redact"),
        }
        places = [chance.choice(tuple(actions)) for _ in range(chance.choice((1, 2)))]
        rules = [
            {
                "name": f"rule{number}",
                "on": [place],
                "action": chance.choice(actions[place]),
                "pattern": chance.choice(("so [23]", "#[2-4]", '"b"', "tally", "done")),
            }
            for number, place in enumerate(places)
        ]
        plugins.append(GuardrailsPlugin())
        config["guardrails"] = {"rules": rules}
    if chance.random() < 0.4:
        scope = chance.choice(("once", "run", "thread"))
        verdict = chance.choice((deny, ask, ask))
        named = chance.choice(("send*", "read*", "tally*"))
        rule = deny(named) if verdict is deny else ask(named, scope=scope)
        plugins.append(PermissionPlugin([rule]))
    if chance.random() < 0.4:
        # Only a process that died lets a run take so long: it is none that the limit counts.
        is_long = chance.random() < 0.4
        limit = {"time_ms": 1_000} if is_long else {"tokens": chance.choice((40, 80, 120))}
        options["budgets"] = [Budget(**limit, soft=chance.random() < 0.5)]
    if chance.random() < 0.4:
        options["stop"] = [
            chance.choice(
                (
                    TokenBudget(max_total=chance.choice((40, 90))),
                    ConsecutiveErrors(max=2),
                    LoopDetection(window=2),
                )
            )
        ]
    if chance.random() < 0.3:
        plugins.append(DeferredToolsPlugin())
        config["deferred_tools"] = {"enabled": True}


def make_agents(seed: int, done: Executions, *, is_wide: bool = False) -> list[Agent]:
    chance = random.Random(f"agents {seed}")
    tools = make_tools(done, chance)
    names = [it.descriptor.id for it in tools]
    kinds = chance.sample(names, chance.randrange(2, len(names) + 1))
    is_wordy = chance.random() < 0.3
    has_delegate, has_handoff = chance.random() < 0.35, chance.random() < 0.3
    extra = (["agent_run_helper"] if has_delegate else []) + (
        ["transfer_to_agent"] if has_handoff else []
    )
    options: dict[str, Any] = {"max_rounds": chance.choice((3, 6, 9))}
    if is_wordy:
        options["context_policy"] = ContextWindowPolicy(
            max_context_tokens=2_000, max_output_tokens=100, min_recent_messages=2,
            autocompact_threshold=1_000,
        )  # fmt: skip
    if chance.random() < 0.2:
        options["parallel_tools"] = False
    ends = chance.choice((0.15, 0.3))
    made = GeneratedModel(seed, kinds + extra, ends, is_wordy=is_wordy)
    chosen = [it for it in tools if it.descriptor.id in kinds]
    if has_delegate:
        options["delegates"] = ["helper"]
    if has_handoff:
        options["plugins"] = [HandoffPlugin({"other": "for the rest"})]
    if is_wide:
        widen(seed, options)
    agents = [Agent("main", model=made, tools=chosen, **options)]
    if has_handoff:
        next_one = GeneratedModel(seed + 2, kinds, 0.4, is_wordy=False)
        agents.append(Agent("other", model=next_one, tools=chosen, max_rounds=6))
    if has_delegate:
        below = GeneratedModel(seed + 1, ["read", "tally"], 0.5, is_wordy=False)
        own = [it for it in tools if it.descriptor.id in ("read", "tally")]
        agents.append(Agent("helper", model=below, tools=own, max_rounds=3))
    return agents


def play_generated(seed: int, *, has_crashes: bool = True, is_wide: bool = False) -> Generated:
    """Play the story of a seed on virtual time and return what is stored of it.

    A wide one has agents with guardrails, rules, limits, stop conditions and deferred tools.
    """
    done = Executions()
    chance = random.Random(f"story {seed}")
    agents = make_agents(seed, done, is_wide=is_wide)
    registries = registry_set(agents, [], [], provider_clients({}, Connections()), {})
    inputs = [f"input {n}" for n in range(chance.choice((1, 1, 2)))]
    steers = [chance.randrange(0, 60) for _ in range(chance.choice((0, 0, 1, 2)))]

    async def story(mailbox: Mailbox) -> None:
        for text in inputs:
            request = RunRequest(thread_id=THREAD, agent_id="main", messages=(user(text),))
            await mailbox.submit(request)
        for pause in steers:
            await asyncio.sleep(pause / 1000)
            note = RunRequest(thread_id=THREAD, messages=(user(f"steered after {pause}"),))
            await mailbox.submit(note, mode=InputMode.STEER)

    subject = Subject(registries=registries, story=story, decide=decide)
    crashes: tuple[CrashPoint, ...] = ()
    if has_crashes and chance.random() < 0.4:
        points = every_point(12, 4)
        crashes = tuple(chance.sample(points, chance.choice((1, 2))))
    policy = Fifo() if chance.random() < 0.5 else RandomOrder(seed)
    logging.disable(logging.CRITICAL)
    try:
        trial_of: list[_Trial] = []

        async def work() -> None:
            trial = _Trial(subject, crashes)
            trial_of.append(trial)
            trial._truth.store.keeps_state_history = True
            verdict = await trial.play()
            assert not verdict.problems, (seed, verdict.problems)

        run(SimulatedLoop(policy), work, meant=Dead)
    finally:
        logging.disable(logging.NOTSET)
    store = trial_of[0]._truth.store

    async def read() -> list[RunRecord]:
        return list((await store.list_runs(RunQuery())).items)

    runs = asyncio.run(read())
    return Generated(seed, store, registries, done, RegistryHandle(registries), runs, crashes)


def play_in_world(generated: Generated, recording: Recording, world: World, seed: int) -> Recording:
    """Run a recording's input in a world, on processes that die, and record the run."""
    chance = random.Random(f"world {seed}")
    name, objects = pack_world(world, recording)

    async def story(mailbox: Mailbox) -> None:
        trial = trial_of[0]
        await find_eval_store(trial._truth.store).put_eval_objects(objects)
        request = RunRequest(
            thread_id=THREAD,
            agent_id="main",
            messages=recording.input,
            run_id_hint=recording.run.run_id,
            world=name,
        )
        await mailbox.submit(request)

    subject = Subject(registries=generated.registries, story=story, decide=decide)
    crashes = tuple(chance.sample(every_point(8, 3), 2))
    trial_of: list[_Trial] = []

    async def work() -> Recording:
        trial = _Trial(subject, crashes)
        trial_of.append(trial)
        store = trial._truth.store
        store.keeps_state_history = True
        verdict = await trial.play()
        assert not verdict.problems, (seed, verdict.problems)
        return await Recorder(store, generated.handle, "test").record(recording.run.run_id)

    logging.disable(logging.CRITICAL)
    try:
        return run(SimulatedLoop(Fifo()), work, meant=Dead)
    finally:
        logging.disable(logging.NOTSET)
