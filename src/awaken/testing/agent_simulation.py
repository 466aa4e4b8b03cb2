"""`simulate_agent`: your agents under many schedules, and killed at every moment that matters.

Everything runs in this process on virtual time: no network, no threads, no waiting. A crash is
the death of a process between two writes, or inside a tool; another one takes over from the
store when the dead one's lease has run out.
"""

import contextlib
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict, Unpack

import msgspec

from awaken.authoring.agents import Agent
from awaken.bootstrap.arguments import convert_argument
from awaken.bootstrap.providers import Connections, provider_clients
from awaken.bootstrap.registries import registry_set
from awaken.bootstrap.requests import messages_of
from awaken.bootstrap.simulated_node import build_simulated_store
from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionAction, ResumeMode, Ticket, ToolCallResume
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.resolution.registry import RegistryHandle

from .agent_reports import AgentReport, AgentViolated, Violation
from .crash_points import Crashes, CrashPoint, Dead, crashes_of, every_point
from .schedules import SimulatedLoop
from .schema_samples import sample_of
from .simulation import Fifo, Policy, RandomOrder, run
from .trials import Subject, TrialVerdict, run_trial
from .turn_model import repeatable_model

DEFAULT_SCHEDULES = 200
THREAD_ID = "simulated"

Input = str | Message | Mapping[str, Any]
Inputs = Input | Sequence[Input] | Callable[[Mailbox], Awaitable[object]]
Decide = Callable[[Ticket], ToolCallResume | DecisionAction | None]
_TrialId: TypeAlias = tuple[int | None, Crashes]


class SimulationOptions(TypedDict, total=False):
    """How much to try; or one trial to see again, as a violation names it."""

    schedules: int
    """How many seeded schedules, 200 unless given; half of them come with a crash or two."""
    seed: int | None
    """One schedule, with the crashes that it comes with."""
    crash: str | None
    """Crashes such as "before commit 3" or "after tool 1, after commit 7"."""
    crash_points: int | None
    """At how many points to crash, spread evenly; at all of them unless given."""
    make_store: Callable[[Clock], Store] | None
    """Makes the store of each trial, which judges by the virtual clock and may use no timer of the
    event loop; in memory unless given."""


def simulate_agent(
    agents: Agent | Iterable[Agent],
    inputs: Inputs = "Hello.",
    *,
    decide: Decide | None = None,
    model: ModelClient | None = None,
    has_real_tools: bool = True,
    judge: Callable[[RunRecord], str | None] | None = None,
    **options: Unpack[SimulationOptions],
) -> AgentReport:
    """Run agents under seeded schedules and through a crash at every point; return the counts.

    Checked in every trial: each run ends or waits for a decision; the transcript is valid at
    every commit; a `once` tool runs at most once for a call, and none whose result is durable;
    events are numbered without gaps and in legal order; every message to another agent and
    every task's end arrives; no task and no claim is left.

    Args:
        agents: The first one gets the input; the others are there to be asked, written to and
            handed over to.
        inputs: Messages that are sent one after the other to one thread; or an async function
            that takes the client's `Mailbox` and sends what it likes.
        decide: Decides on a ticket, or returns None to leave it open; absent approves all.
        model: Speaks for every agent, instead of its own model.
        has_real_tools: Whether the code of the tools is executed, or only stood in for.
        judge: Says what is wrong with the last record of a run, such as its answer; None if
            nothing is.
        **options: How much to try, or what to see again; see `SimulationOptions`.

    Raises:
        AgentViolated: Some trial broke a promise; names the smallest one.
        InvalidInput: There is no agent, a model whose answers cannot be repeated, or an option
            that does not exist.
    """
    wanted = convert_argument("options", dict(options), _Range)
    real = has_real_tools
    subject = _subject(agents, inputs, decide or approve_all, model, has_real_tools=real)
    make_store = wanted.make_store or build_simulated_store
    subject = dataclasses.replace(subject, judge=judge, make_store=make_store)
    with _without_logs():
        report = _swept(subject, wanted)
    if report.violations:
        raise AgentViolated(report)
    return report


class _Range(StrictRecord, frozen=True, kw_only=True):
    schedules: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_SCHEDULES
    seed: int | None = None
    crash: str | None = None
    crash_points: Annotated[int, msgspec.Meta(ge=1)] | None = None
    make_store: Any = None


def approve_all(ticket: Ticket) -> ToolCallResume:
    """Let a suspended call go on; where an answer is asked for, it is a sample that fits."""
    result: Any = None
    if ticket.resume_mode is not ResumeMode.REPLAY_TOOL_CALL:
        schema = ticket.suspension.response_schema
        result = "approved" if schema is None else sample_of(schema)
    return ToolCallResume(decision_id=f"approved {ticket.ticket_id}", result=result)


def _swept(subject: Subject, wanted: _Range) -> AgentReport:
    if wanted.seed is not None or wanted.crash is not None:
        return _replay_trial(subject, wanted)
    # The trial without a crash is also the one that counts the points.
    plain, seeds = _trial(subject, (None, ())), range(wanted.schedules)
    points = every_point(plain.commits, plain.tools)
    tried = points if wanted.crash_points is None else _spread(points, wanted.crash_points)
    trials: list[_TrialId] = [(None, (point,)) for point in tried]
    trials += [(seed, _crashes_of_seed(seed, points)) for seed in seeds]
    first = [Violation(seed=None, crash=None, problems=tuple(plain.problems))]
    violations = (*(first if plain.problems else ()), *_violations(subject, trials))
    return AgentReport(
        schedules=len(seeds),
        crash_points=len(tried),
        violations=violations,
        smallest=_smallest(subject, violations),
    )


def _replay_trial(subject: Subject, wanted: _Range) -> AgentReport:
    """One trial: the crashes that are named, or those that the schedule comes with."""
    crashes = crashes_of(wanted.crash)
    if wanted.crash is None and wanted.seed is not None:
        crashes = _crashes_of_seed(wanted.seed, _points(subject))
    violations = tuple(_violations(subject, [(wanted.seed, crashes)]))
    return AgentReport(
        schedules=1,
        crash_points=len(crashes),
        seed=wanted.seed,
        violations=violations,
        smallest=violations[0] if violations else None,
    )


def _points(subject: Subject) -> list[CrashPoint]:
    """Every moment at which a process can die, from a trial in which none does."""
    plain = _trial(subject, (None, ()))
    return every_point(plain.commits, plain.tools)


def _spread(points: Sequence[CrashPoint], count: int) -> list[CrashPoint]:
    """Return so many points, spread evenly over all of them, with the first and the last."""
    last, gaps = len(points) - 1, max(1, count - 1)
    chosen = {round(place * last / gaps) for place in range(count)} if points else ()
    return [points[place] for place in sorted(chosen)]


def _crashes_of_seed(seed: int, points: Sequence[CrashPoint]) -> Crashes:
    """Every other schedule comes with a crash, every fourth with one while it recovers."""
    if not points or seed % 2 == 0:
        return ()
    chance = random.Random(seed)
    first = chance.choice(points)
    if seed % 4 == 1:
        return (first,)
    # Whatever comes after the first crash comes from the process that takes over.
    return first, dataclasses.replace(first, number=first.number + chance.randrange(1, 6))


def _violations(subject: Subject, trials: Iterable[_TrialId]) -> Iterator[Violation]:
    for seed, crashes in trials:
        verdict = _trial(subject, (seed, crashes))
        if verdict.problems:
            crash = ", ".join(map(str, crashes)) or None
            yield Violation(seed=seed, crash=crash, problems=tuple(verdict.problems))


def _smallest(subject: Subject, violations: Sequence[Violation]) -> Violation | None:
    """Take away from the first violation what it does not need: crashes, then the schedule."""
    if not violations:
        return None
    first = violations[0]
    crashes = crashes_of(first.crash)
    fewer: list[Crashes] = [(), *((crash,) for crash in crashes), crashes]
    simpler = [(seed, some) for seed in dict.fromkeys((None, first.seed)) for some in fewer]
    return next(_violations(subject, simpler), first)


def _trial(subject: Subject, trial: _TrialId) -> TrialVerdict:
    seed, crashes = trial
    policy: Policy = Fifo() if seed is None else RandomOrder(seed)
    try:
        return run(SimulatedLoop(policy), lambda: run_trial(subject, crashes), meant=Dead)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, this trial shows it
        return TrialVerdict(0, 0, [f"{type(error).__name__}: {error}"])


def _subject(
    agents: Agent | Iterable[Agent],
    inputs: Inputs,
    decide: Decide,
    model: ModelClient | None,
    *,
    has_real_tools: bool,
) -> Subject:
    known = [agents] if isinstance(agents, Agent) else list(agents)
    if not known:
        raise InvalidInput(what="agents", problem="there are none to simulate")
    if model is not None:
        known = [dataclasses.replace(agent, model=model) for agent in known]
    registries = registry_set(known, [], [], provider_clients({}, Connections()), {})
    snapshot = RegistryHandle(registries).snapshot()
    for agent in known:
        for route in snapshot.resolve(agent.id).models[:1]:
            repeatable_model(agent.id, route.client)
    story = inputs if callable(inputs) else _sender(known[0].id, _messages(inputs))

    def decide_ticket(ticket: Ticket) -> ToolCallResume | None:
        given = decide(ticket)
        if isinstance(given, DecisionAction):
            return ToolCallResume(decision_id=f"{given} {ticket.ticket_id}", action=given)
        return given

    return Subject(
        registries=registries, story=story, decide=decide_ticket, has_real_tools=has_real_tools
    )


def _messages(inputs: Input | Sequence[Input]) -> list[Message]:
    given = [inputs] if isinstance(inputs, str | Message | Mapping) else list(inputs)
    return [message for it in given for message in messages_of(it)]


def _sender(agent_id: str, messages: Sequence[Message]) -> Callable[[Mailbox], Awaitable[object]]:
    async def send(mailbox: Mailbox) -> None:
        for message in messages:
            request = RunRequest(thread_id=THREAD_ID, agent_id=agent_id, messages=(message,))
            await mailbox.submit(request)

    return send


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """Keep quiet about workers that die: here they are meant to."""
    logger = logging.getLogger("awaken")
    was_disabled, level = logger.disabled, logger.level
    logger.disabled = True
    # Set by its method: the loggers below remember what is enabled until a level is set.
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.disabled = was_disabled
        logger.setLevel(level)
