"""The requests of child runs: their agent, their ancestors, and their budgets."""

from collections.abc import Mapping, Sequence
from functools import reduce

import msgspec

from awaken.contracts.backends.errors import AgentNotFound, BackendExecutionFailed
from awaken.contracts.errors import AwakenError, UnknownAgent
from awaken.contracts.identity import RunOrigin, derive_id
from awaken.contracts.messages.message import user
from awaken.contracts.models.budgets import (
    RUN_LEDGER,
    THREAD_LEDGER,
    Allowance,
    Amount,
    Budget,
    BudgetExceeded,
    BudgetScope,
    Ledger,
    Share,
    split_budgets,
)
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.state.keys import StateKey
from awaken.contracts.tasks import BACKGROUND_TASKS, TaskInfo
from awaken.contracts.tools.sub_runs import Delegation
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.runtime.resolution.host_agents import include_agent
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import allowances, applicable

DELEGATE_SHARE = 0.5
"""The share of its parent's remaining budget that a child may spend."""


async def agent_request(
    run: Run, call_id: str, child_id: str, delegation: Delegation, task: TaskInfo | None = None
) -> RunRequest:
    """Build the request of an agent's run below a call.

    Raises:
        AgentNotFound: There is no such agent.
        BackendExecutionFailed: The agent may not be called from this run.
    """
    agent_id = delegation.agent_id
    try:
        await include_agent(run, agent_id)
        agent = run.pinned.resolve(agent_id)
        if run.pinned.registries.hidden:
            run.pinned.check_start(agent.spec.id)
        if agent.context is not None:
            agent.context.decode(agent.spec.id, run.record.context)
    except UnknownAgent as error:
        raise AgentNotFound(problem=f"failed to resolve agent '{agent_id}': {error}") from error
    except AwakenError as error:
        raise BackendExecutionFailed(problem=str(error)) from error
    request = child_request(run, call_id, child_id, agent.spec.id, task)
    _check_lineage(agent.spec.id, request.lineage, run.services.limits.delegate_depth)
    prompt = user(delegation.prompt)
    return msgspec.structs.replace(
        request,
        messages=(msgspec.structs.replace(prompt, id=derive_id(child_id, "prompt")),),
        budgets=await _budgets(run, call_id, child_id),
        grant=delegation.grant,
        wanted_tools=delegation.wanted_tools,
        output_schema=delegation.output_schema,
    )


def child_request(
    run: Run, call_id: str, child_id: str, agent_id: str, task: TaskInfo | None
) -> RunRequest:
    """Build a request without input for a run below a call, on a thread of its own."""
    identity, world = run.identity, run.record.world
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
        context=run.record.context,
        publication=run.record.publication,
        purpose=run.record.purpose,
        world=None if world is None else run.pinned.name_child_world(world, call_id),
        budget_group=run.request.budget_group,
    )


def is_child(run: Run, record: RunRecord) -> bool:
    """Whether a record is a child of this run; the id proves nothing, clients choose ids too."""
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
    """Return a child's share of the budget that its parent has left and has not given away.

    The share is durable when this returns, so that a process that continues the parent counts every
    child that may spend something.
    """
    own = [it for it in applicable(run) if not it.scope.is_shared]
    # The child spends from the ledger of the group itself, too.
    groups = tuple(it for it in run.request.budgets if it.scope is BudgetScope.GROUP)
    if not own:
        return groups
    judged = await allowances(run, own)
    keys = tuple(dict.fromkeys(map(_ledger_key, own)))
    given = {key: _shares_out(run, key) for key in keys}
    if (known := given[keys[0]].get(child_id)) is not None:
        # Another process wrote the share, and died before it started the child.
        return (*known.budgets, *groups)
    try:
        budgets = split_budgets(
            [_rest(it, given[_ledger_key(it.budget)]) for it in judged], DELEGATE_SHARE
        )
    except BudgetExceeded as error:
        raise BackendExecutionFailed(problem=str(error)) from error
    share = Share(run_id=run.identity.run_id, call_id=call_id, budgets=budgets)
    for key, shares in given.items():
        ledger = msgspec.structs.replace(run.state.get(key), shares={**shares, child_id: share})
        run.state.update(key, ledger)
    await run.flush()
    return (*budgets, *groups)


def _rest(allowance: Allowance, shares: Mapping[str, Share]) -> Allowance:
    """Return what is left if the other children spend their whole shares."""
    given = (share.most for share in shares.values())
    return msgspec.structs.replace(allowance, used=reduce(Amount.plus, given, allowance.used))


def _shares_out(run: Run, key: StateKey[Ledger, Ledger]) -> dict[str, Share]:
    """Return the shares of children whose spending is not in a ledger yet."""
    tasks, run_id = run.state.get(BACKGROUND_TASKS), run.identity.run_id
    return {
        name: it
        for name, it in run.state.get(key).shares.items()
        if name in tasks or (it.run_id == run_id and it.call_id in run.open_calls)
    }


def _ledger_key(budget: Budget) -> StateKey[Ledger, Ledger]:
    return THREAD_LEDGER if budget.scope is BudgetScope.THREAD else RUN_LEDGER
