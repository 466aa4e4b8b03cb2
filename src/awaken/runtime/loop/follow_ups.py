"""Follow-up runs: what plugins do after a run has ended.

The commit that ends a run queues its follow-up run, so that a crash loses neither of them and the
caller waits for one of them only. It is a run like any other: leased, charged, cancelled and
listed (`kind=follow_up`). It takes no step and has no messages.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError, PluginFailed
from awaken.contracts.identity import RunMode, RunOrigin, derive_id
from awaken.contracts.lifecycle import NaturalEnd, Termination
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget, BudgetExceeded, BudgetScope, split_budgets
from awaken.contracts.plugins.plugin import AfterRunContext, AfterRunWork, FinishedRun
from awaken.contracts.runs.records import RunKind, RunRecord, RunRequest
from awaken.contracts.runs.speakers import find_first_speaker, is_said_by_user
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import MessageQuery, Order, RunQuery
from awaken.contracts.tenancy import namespace_in
from awaken.redaction import describe_error
from awaken.runtime.inference.side_calls import side_answer
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import allowances, applicable

logger = logging.getLogger(__name__)

MESSAGES_MAX = 500
"""How many messages of a run its follow-up reads, the newest."""
RUNS_MAX = 100
"""How many runs of a thread are asked who spoke in them."""
PRIORITY = 255
"""Runs that a person waits for are claimed first."""


async def queue_follow_up(run: Run, termination: Termination) -> None:
    """Let the last commit of a run queue its follow-up, if a plugin has work after it.

    Only runs in reality have one: a preview, a replay or an eval leaves nothing behind.
    """
    record = run.record
    if record.purpose is not RunKind.CHAT or record.world is not None or not run.agent.models:
        return
    if not _find_work(run, run.record, termination):
        return
    try:
        budgets = await _rest_of_budgets(run)
    except BudgetExceeded as error:
        logger.info("Run '%s' has no follow-up: %s", record.run_id, error)
        return
    run.successors = (*run.successors, _make_dispatch(run, budgets))


def make_follow_up_id(run_id: str) -> str:
    """Return the id of the run that follows a run."""
    namespace = namespace_in(run_id)
    return namespace + derive_id(run_id.removeprefix(namespace), "follow_up")


def make_order_id(follow_up_id: str) -> str:
    """Return the id of the dispatch of a follow-up, and of the order that queues it."""
    return derive_id(follow_up_id, "dispatch")


async def follow_up(run: Run) -> Termination:
    """Do what the plugins of the agent have to do after the parent run.

    Nothing is done if the parent was deleted meanwhile.

    Raises:
        PluginFailed: The work of a plugin failed; that of the others was done.
        BudgetExceeded: A budget does not allow the work.
    """
    if (ending := run.find_due_end()) is not None:
        return ending
    parent = await _load_parent(run)
    if parent is None or parent.termination is None:
        return NaturalEnd()
    messages = await _list_messages(run, parent)
    failures: list[AwakenError] = []
    for plugin, work in _find_work(run, parent, parent.termination):
        context = AfterRunContext(
            run=parent.identity,
            agent=run.agent.spec,
            termination=parent.termination,
            prepared=run.agent.env.prepared.get(plugin),
            messages=messages,
            is_said_by_user=partial(is_said_by_user, parent),
            is_private=partial(_is_private, run, parent),
            ask_model=partial(side_answer, run),
            exists=partial(_has_parent, run),
        )
        try:
            async with asyncio.timeout(run.services.limits.follow_up_ms / 1000):
                await work(context)
        except AwakenError as error:
            failures.append(error)
        except BaseException as error:
            if is_interruption(error):
                raise
            problem = f"raised {describe_error(error)}"
            failures.append(PluginFailed(what="Work after a run", plugin=plugin, problem=problem))
    if failures:
        raise failures[0]
    return NaturalEnd()


def _find_work(
    run: Run, record: RunRecord, termination: Termination
) -> list[tuple[str, AfterRunWork]]:
    """List the work that is wanted after a run, each with its plugin."""
    env, found = run.agent.env, []
    for plugin, is_wanted, work in env.after_runs:
        ended = FinishedRun(
            run=record.identity,
            agent=run.agent.spec,
            termination=termination,
            prepared=env.prepared.get(plugin),
        )
        try:
            if is_wanted(ended):
                found.append((plugin, work))
        except BaseException as error:
            if is_interruption(error):
                raise
            # The outcome of the run is decided; a plugin that fails now cannot change it.
            logger.exception("Plugin '%s' cannot follow run '%s'.", plugin, record.run_id)
    return found


async def _rest_of_budgets(run: Run) -> tuple[Budget, ...]:
    """Return what the run and its thread may still spend; shared ledgers are charged as such.

    Raises:
        BudgetExceeded: Nothing is left.
    """
    if not run.has_budgets:
        return ()
    own = [it for it in applicable(run) if not it.scope.is_shared]
    groups = tuple(it for it in run.request.budgets if it.scope is BudgetScope.GROUP)
    return (*split_budgets(await allowances(run, own), 1), *groups)


def _make_dispatch(run: Run, budgets: tuple[Budget, ...]) -> RunDispatch:
    """Make the dispatch of a follow-up: its ids depend on the run, so that it is queued once.

    All follow-ups of a user are on one thread: they are done one after the other.
    """
    identity, record = run.identity, run.record
    namespace, run_id = namespace_in(identity.run_id), make_follow_up_id(identity.run_id)
    owner = identity.user_id or identity.thread_id
    thread_id = namespace + derive_id("follow_up", owner)
    dispatch_id = make_order_id(run_id)
    request = RunRequest(
        thread_id=thread_id,
        agent_id=run.agent.spec.id,
        run_id_hint=run_id,
        tenant_id=identity.tenant_id,
        user_id=identity.user_id,
        # Not its thread: a thread that is deleted may not be kept by its follow-ups.
        parent_run_id=identity.run_id,
        origin=RunOrigin.INTERNAL,
        run_mode=RunMode.BACKGROUND,
        adapter=identity.adapter,
        trace=record.trace,
        # Never that of the run before on the same thread.
        context=record.context or {},
        publication=record.publication,
        purpose=RunKind.FOLLOW_UP,
        budgets=budgets,
        budget_group=run.request.budget_group,
        dispatch_id=dispatch_id,
    )
    return RunDispatch(
        dispatch_id=dispatch_id,
        thread_id=thread_id,
        run_id=run_id,
        request=request,
        priority=PRIORITY,
    )


async def _load_parent(run: Run) -> RunRecord | None:
    """Return the run that this one follows; only if it has the same tenant and user."""
    parent = await run.store.load_run(run.record.parent_run_id or "")
    if parent is None:
        return None
    is_own = (parent.tenant_id, parent.user_id) == (run.record.tenant_id, run.record.user_id)
    return parent if is_own else None


async def _has_parent(run: Run) -> bool:
    return await _load_parent(run) is not None


async def _is_private(run: Run, parent: RunRecord) -> bool:
    """Whether only the user of a run has spoken on its thread, as far as its runs tell.

    Not if the thread is a fork or has many runs, or if runs of it are no longer stored.
    """
    speaker = find_first_speaker(parent)
    query = RunQuery(thread_id=parent.thread_id, limit=RUNS_MAX)
    page = await run.store.list_runs(query)
    if page.damaged or page.next_cursor is not None or not page.items:
        return False
    is_whole = page.items[0].input.from_seq == 1
    return is_whole and all(
        not it.begun_by and find_first_speaker(it) == speaker for it in page.items
    )


async def _list_messages(run: Run, parent: RunRecord) -> Sequence[Message]:
    query = MessageQuery(run_id=parent.run_id, order=Order.DESC, limit=MESSAGES_MAX)
    page = await run.store.list_messages(parent.thread_id, query)
    return [it.message for it in reversed(page.items)]
