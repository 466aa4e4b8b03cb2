"""What a sample is given: its world, and the requests of its turns. Pure functions of a case."""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidEval
from awaken.contracts.evals.eval_runs import EvalSpec
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.worlds import (
    ModelSource,
    OnQuestion,
    PlannedDecision,
    ScriptedTurn,
    Variant,
    World,
)
from awaken.contracts.identity import RunOrigin
from awaken.contracts.messages.message import Message, user
from awaken.contracts.models.budgets import Budget, BudgetScope
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunKind, RunRequest
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.scoring.subsets import is_subset

from .planning import MODELS


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
    script: Sequence[ScriptedTurn] | None = None,
) -> World:
    """Build what a sample is given instead of reality; `script` is that of a further turn."""
    case, models = given.case, MODELS[spec.mode]
    is_scripted = models is ModelSource.SCRIPTED
    return World(
        models=models,
        recording=case.recording,
        script=tuple(case.provider_script if script is None else script) if is_scripted else (),
        tools=case.tools or spec.tools,
        decisions=case.decisions,
        on_question=case.on_question or OnQuestion.STOP,
        variant=variant,
        seed=spec.seed,
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
    if isinstance(value, dict) and value.keys() == {"version", "data"}:
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
    if MODELS[spec.mode] is not ModelSource.LIVE:
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
        tenant_id=setup.tenant_id,
        origin=RunOrigin.INTERNAL,
        purpose=RunKind.EVAL,
        publication=setup.publication,
        world=world,
        budgets=list_budgets(setup.spec),
        budget_group=group_of(setup.eval_id),
    )


def choose_decisions(
    tickets: Sequence[Ticket], world: World, recording: Recording | None
) -> list[tuple[str, ToolCallResume]] | None:
    """Return decisions on all open questions of a sample; None if nothing decides one of them.

    The case decides first, then the recording, then the rule for questions that nothing decides.
    """
    made: list[tuple[str, ToolCallResume]] = []
    for ticket in tickets:
        chosen = _choose_decision(ticket, world, recording)
        if chosen is None:
            return None
        made.append((ticket.ticket_id, chosen))
    return made


def _choose_decision(
    ticket: Ticket, world: World, recording: Recording | None
) -> ToolCallResume | None:
    decision_id = f"eval:{ticket.ticket_id}"
    for planned in world.decisions:
        if _fits(planned, ticket):
            return ToolCallResume(
                decision_id=decision_id, action=planned.action, result=planned.result
            )
    kept = _find_recorded(ticket, recording)
    if kept is not None:
        return ToolCallResume(
            decision_id=decision_id,
            action=kept.action,
            result=kept.result,
            reason=kept.reason,
            arguments=kept.arguments,
            is_text=kept.is_text,
        )
    match world.on_question:
        case OnQuestion.APPROVE:
            return ToolCallResume(decision_id=decision_id, action=DecisionAction.RESUME)
        case OnQuestion.DENY:
            return ToolCallResume(decision_id=decision_id, action=DecisionAction.CANCEL)
        case OnQuestion.STOP:
            return None


def _fits(planned: PlannedDecision, ticket: Ticket) -> bool:
    if planned.tool != ticket.tool_name:
        return False
    return planned.when is None or is_subset(planned.when, ticket.arguments)


def _find_recorded(ticket: Ticket, recording: Recording | None) -> ToolCallResume | None:
    """Return the decision that the recording has on the same question of an equal call."""
    for step in () if recording is None else recording.steps:
        for call in step.calls:
            if call.tool != ticket.tool_name or call.arguments != ticket.arguments:
                continue
            for it in call.decisions:
                if it.question.suspension.action == ticket.suspension.action:
                    return it.decision
    return None
