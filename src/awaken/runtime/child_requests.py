"""The requests of runs below a run: whom they ask, who is above them, what they may spend."""

from collections.abc import Sequence
from functools import reduce

import msgspec

from awaken.contracts.backend_errors import AgentNotFound, BackendExecutionFailed
from awaken.contracts.budgets import Amount, Budget, BudgetExceeded, split
from awaken.contracts.errors import AwakenError, UnknownAgent
from awaken.contracts.identity import RunOrigin, derived_id
from awaken.contracts.messages import user
from awaken.contracts.runs import RunRecord, RunRequest
from awaken.contracts.tasks import BACKGROUND_TASKS, TaskInfo
from awaken.contracts.tracing import CURRENT_TRACE

from .run import Run, Share
from .spending.ledgers import applicable, remaining

DELEGATE_SHARE = 0.5
"""How much of what its parent has left a child may spend."""


async def agent_request(
    run: Run, call_id: str, child_id: str, agent_id: str, prompt: str, task: TaskInfo | None = None
) -> RunRequest:
    """The request of an agent's run below a call.

    Raises:
        AgentNotFound: There is no such agent.
        BackendExecutionFailed: It may not be asked from here.
    """
    try:
        agent = run.pinned.resolve(agent_id)
    except UnknownAgent as error:
        raise AgentNotFound(problem=f"failed to resolve agent '{agent_id}': {error}") from error
    except AwakenError as error:
        raise BackendExecutionFailed(problem=str(error)) from error
    request = child_request(run, call_id, child_id, agent.spec.id, task)
    _check_lineage(agent.spec.id, request.lineage, run.services.limits.delegate_depth)
    message = msgspec.structs.replace(user(prompt), id=derived_id(child_id, "prompt"))
    budgets = await _budgets(run, call_id, child_id)
    return msgspec.structs.replace(request, messages=(message,), budgets=budgets)


def child_request(
    run: Run, call_id: str, child_id: str, agent_id: str, task: TaskInfo | None
) -> RunRequest:
    """A request without input for a run below a call, on a thread of its own."""
    identity = run.identity
    return RunRequest(
        thread_id=child_id,
        run_id_hint=child_id,
        agent_id=agent_id,
        origin=RunOrigin.SUBAGENT,
        run_mode=identity.run_mode,
        adapter=identity.adapter,
        parent_run_id=identity.run_id,
        parent_thread_id=identity.thread_id,
        parent_tool_call_id=call_id,
        lineage=(*run.record.lineage, identity.active_agent_id or identity.agent_id),
        task=task,
        session_id=identity.session_id,
        tenant_id=identity.tenant_id,
        user_id=identity.user_id,
        trace=CURRENT_TRACE.get(),
    )


def is_child(run: Run, record: RunRecord) -> bool:
    """Whether a record is that of a run below this one; clients may choose ids as well."""
    above = run.identity
    return record.origin is RunOrigin.SUBAGENT and (
        record.parent_run_id == above.run_id
        and record.parent_thread_id == above.thread_id
        and record.tenant_id == above.tenant_id
    )


def _check_lineage(agent_id: str, above: Sequence[str], depth: int) -> None:
    if agent_id in above:
        problem = f"agent '{agent_id}' asks itself ({' > '.join(above)})"
        raise BackendExecutionFailed(problem=problem)
    if len(above) > depth:
        problem = f"{len(above)} agents ask each other in a row, the limit is {depth}"
        raise BackendExecutionFailed(problem=problem)


async def _budgets(run: Run, call_id: str, child_id: str) -> tuple[Budget, ...]:
    """A child's share of what its parent has left and has not given to others."""
    if not applicable(run):
        return ()
    allowances = await remaining(run)
    given = {name: it for name, it in run.shares.items() if _is_out(run, name, it)}
    given.pop(child_id, None)
    promised = reduce(Amount.plus, (it.most for it in given.values()), Amount())
    left = [msgspec.structs.replace(it, used=it.used.plus(promised)) for it in allowances]
    try:
        budgets = split(left, DELEGATE_SHARE)
    except BudgetExceeded as error:
        raise BackendExecutionFailed(problem=str(error)) from error
    run.shares = {**given, child_id: Share(call_id=call_id, most=_most(budgets))}
    return budgets


def _is_out(run: Run, child_id: str, share: Share) -> bool:
    """Whether what a child has used is not counted in its parent yet."""
    return share.call_id in run.open_calls or child_id in run.state.get(BACKGROUND_TASKS)


def _most(budgets: Sequence[Budget]) -> Amount:
    """What budgets allow together. Time is not given away: it passes for all at once."""
    limits = [dict(budget.limits) for budget in budgets]
    tokens, nanos = (
        min((limit[unit] for limit in limits if unit in limit), default=0)
        for unit in ("tokens", "nanos")
    )
    return Amount(tokens=tokens, nanos=nanos)
