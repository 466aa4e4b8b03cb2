"""What a sample is given: its world, and the requests of its turns. Pure functions of a case."""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.cases import Case, CaseTurn
from awaken.contracts.evals.errors import InvalidEval
from awaken.contracts.evals.eval_runs import EvalSpec
from awaken.contracts.evals.recordings import RecordedRun, Recording
from awaken.contracts.evals.worlds import (
    ModelSource,
    OnQuestion,
    Variant,
    World,
)
from awaken.contracts.identity import RunOrigin
from awaken.contracts.messages.message import Message, user
from awaken.contracts.models.budgets import Budget, BudgetScope
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunKind, RunRequest
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.permissions import PermissionScope
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume

from .decisions import FindCall, build_decision, find_planned, find_recorded
from .planning import MODELS
from .variants import describe_tool


class SampleCase(Record, frozen=True, kw_only=True):
    """A case with what it names: everything that a sample of it needs."""

    case: Case
    recording: Recording | None = None


def group_of(eval_id: str) -> str:
    """The id of the group whose ledger an eval spends from."""
    return f"eval:{eval_id}"


def thread_of(eval_id: str, number: int, attempt: int = 0) -> str:
    """The id of the thread of a sample; an attempt that failed outside leaves its thread behind."""
    thread_id = f"eval:{eval_id}:{number}"
    return thread_id if attempt == 0 else f"{thread_id}:{attempt}"


def run_of(thread_id: str, turn: int) -> str:
    """The id of the run of a turn on the thread of a sample."""
    return f"{thread_id}:run" if turn == 0 else f"{thread_id}:run{turn}"


def agent_of(given: SampleCase, variant: Variant) -> str | None:
    """Return the agent of a sample; None: the default agent."""
    if variant.agent_id is not None or given.recording is None:
        return variant.agent_id
    return given.recording.run.agent_id


def build_world(
    spec: EvalSpec,
    given: SampleCase,
    variant: Variant | None = None,
    turn: CaseTurn | None = None,
) -> World:
    """Build what a sample is given instead of reality, in its first turn or in a further one."""
    case, models = given.case, MODELS[spec.mode_or_live]
    is_scripted = models is ModelSource.SCRIPTED
    script = case.provider_script if turn is None else turn.provider_script
    own = None if turn is None else turn.tools
    return World(
        models=models,
        recording=case.recording,
        script=script if is_scripted else (),
        tools=own or case.tools or spec.tools_or_recorded,
        decisions=case.decisions,
        on_question=case.on_question or OnQuestion.STOP,
        variant=variant,
        seed=spec.seed_or_zero,
        # Differences are found by comparing afterwards, and all of them.
        keep_going=True,
    )


def build_state(given: SampleCase) -> dict[str, StoredValue | None]:
    """Return the state that the thread of a sample begins with: the case's, else the recording's.

    A value is written as it is, or as `{"version": …, "data": …}` if its key has versions.
    """
    if not given.case.state:
        return {} if given.recording is None else {**given.recording.state.thread}
    return {key: _store_value(it) for key, it in given.case.state.items()}


def _store_value(value: Any) -> StoredValue:
    version, data = 1, value
    is_stored = isinstance(value, dict) and value.keys() == {"version", "data"}
    if is_stored and type(value["version"]) is int:
        version, data = value["version"], value["data"]
    return StoredValue(version=version, data=msgspec.Raw(msgspec.json.encode(data)))


def list_messages(given: SampleCase) -> tuple[Message, ...]:
    """Return the input of the first turn.

    Raises:
        InvalidEval: The case has none.
    """
    case = given.case
    if case.input:
        return case.input
    if case.user_input is not None:
        return (user(case.user_input),)
    if given.recording is not None:
        return tuple(given.recording.input)
    raise InvalidEval(problem=f"case '{case.id}' has no input")


def list_history(given: SampleCase) -> tuple[Message, ...]:
    """Return what is on the thread before the first turn."""
    if given.case.history or given.recording is None:
        return given.case.history
    return tuple(given.recording.history)


def list_budgets(spec: EvalSpec) -> tuple[Budget, ...]:
    """Return the budgets of a sample: of the whole eval, and of its cell.

    Recorded and scripted models cost nothing: their samples have none.
    """
    if MODELS[spec.mode_or_live] is not ModelSource.LIVE:
        return ()
    own = spec.max_tokens_per_cell
    cell = () if own is None else (Budget(scope=BudgetScope.THREAD, tokens=own),)
    return (*list_group_budgets(spec), *cell)


def list_group_budgets(spec: EvalSpec) -> tuple[Budget, ...]:
    """Return the budgets of the whole eval, which judges and simulated users share."""
    budget = spec.budget
    if budget is None or (budget.tokens is None and budget.cost_usd is None):
        return ()
    return (Budget(scope=BudgetScope.GROUP, tokens=budget.tokens, cost_usd=budget.cost_usd),)


def _list_recorded_budgets(run: RecordedRun | None) -> tuple[Budget, ...]:
    """Return the limits of the recorded run itself; what others share is not spent by a sample."""
    given = () if run is None else run.budgets
    return tuple(it for it in given if it.scope is BudgetScope.RUN)


class SampleSetup(Record, frozen=True, kw_only=True):
    """What all turns of a sample have in common."""

    eval_id: str
    thread_id: str
    agent_id: str | None
    publication: int | None
    tenant_id: str | None
    variant: Variant
    spec: EvalSpec
    given: SampleCase


def build_request(
    setup: SampleSetup, turn: int, messages: tuple[Message, ...], world: str
) -> RunRequest:
    """Build the request of a turn of a sample."""
    recording = setup.given.recording
    is_replayed = recording is not None and turn == 0
    kept = recording.run if recording is not None else None
    overrides = setup.variant.overrides
    return RunRequest(
        thread_id=setup.thread_id,
        run_id_hint=run_of(setup.thread_id, turn),
        agent_id=setup.agent_id,
        messages=messages,
        # A thread that begins with state has its history already.
        history=list_history(setup.given) if turn == 0 and not build_state(setup.given) else (),
        context=setup.given.case.context or (kept.context if kept is not None else None),
        overrides=overrides or (kept.overrides if kept is not None and is_replayed else None),
        tool_choice=kept.tool_choice if kept is not None and is_replayed else None,
        # What its client brought is part of what the agent was asked with.
        frontend_tools=()
        if kept is None
        else tuple(describe_tool(it, setup.variant) for it in kept.frontend_tools),
        output_schema=None if kept is None else kept.output_schema,
        tenant_id=setup.tenant_id,
        origin=RunOrigin.INTERNAL,
        purpose=RunKind.EVAL,
        publication=setup.publication,
        world=world,
        budgets=(*list_budgets(setup.spec), *_list_recorded_budgets(kept)),
        budget_group=group_of(setup.eval_id),
    )


def choose_decisions(
    tickets: Sequence[Ticket], world: World, find_call: FindCall
) -> list[tuple[str, ToolCallResume]] | None:
    """Return decisions on all open questions of a sample; None if nothing decides one of them.

    The case decides first, then the recorded call that `find_call` matches a ticket with, then the
    rule for questions that nothing decides. What goes on by itself needs no decision.
    """
    made: list[tuple[str, ToolCallResume]] = []
    for ticket in tickets:
        chosen = _choose_decision(ticket, world, find_call)
        if chosen is not None:
            made.append((ticket.ticket_id, chosen))
        elif find_next_deadline((ticket,)) is None:
            return None
    return made


def find_next_deadline(tickets: Sequence[Ticket]) -> int | None:
    """Return when a run goes on by itself: the end of a sleep or of a wait for an event, or None.

    The deadline of a question to a person is none: nobody was asked.
    """
    times = (it.expires_at for it in tickets if it.asks is Asks.EVENT)
    return min((it for it in times if it is not None), default=None)


def _choose_decision(ticket: Ticket, world: World, find_call: FindCall) -> ToolCallResume | None:
    planned = find_planned(world.decisions, ticket)
    if planned is not None:
        return planned
    recorded = find_recorded(find_call(ticket), ticket)
    if recorded is not None and recorded.decision is not None:
        return _repeat_decision(ticket, recorded.decision)
    match world.on_question:
        case OnQuestion.APPROVE:
            return build_decision(ticket, DecisionAction.RESUME, None)
        case OnQuestion.DENY:
            return build_decision(ticket, DecisionAction.CANCEL, None)
        case OnQuestion.STOP:
            return None


def _repeat_decision(ticket: Ticket, kept: ToolCallResume) -> ToolCallResume:
    """Return a recorded decision for a call of a sample; nothing of it outlives the sample."""
    remember = kept.remember
    if remember is not None and remember.scope in (PermissionScope.PROJECT, PermissionScope.USER):
        # Later calls of the recorded run were not asked about, so those of the sample are not.
        remember = msgspec.structs.replace(remember, scope=PermissionScope.THREAD)
    return ToolCallResume(
        decision_id=f"world {ticket.ticket_id}",
        action=kept.action,
        result=kept.result,
        reason=kept.reason,
        arguments=kept.arguments,
        remember=remember,
        is_text=kept.is_text,
    )
