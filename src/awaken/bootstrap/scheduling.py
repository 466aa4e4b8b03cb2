"""Connects schedules and triggers with a runtime; loaded when one of them is first used."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from awaken.authoring.agents import Agent
from awaken.contracts.clock import IdSource
from awaken.contracts.config.secret_fields import check_ref
from awaken.contracts.errors import InvalidInput, UnknownAgent
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.schedules import ScheduleStore
from awaken.contracts.storage.store import Store
from awaken.mailbox.cancels import cancel_run
from awaken.mailbox.services import MailboxServices
from awaken.managed.secrets import SecretResolver
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.scheduling.rights import FindProblem, RunStarter
from awaken.scheduling.scheduling import Scheduling, SecretReader
from awaken.services.workers import list_workers

if TYPE_CHECKING:
    from awaken.managed.configuration import ManagedConfig
    from awaken.services.view import AppServices

CAUSE = "schedule"
"""The cause of a run that is cancelled because the next one of its schedule is due."""


def build_scheduling(
    services: "AppServices",
    ids: IdSource,
    managed: "ManagedConfig | None",
    judges: list[FindProblem],
    on_queued: Callable[[], None],
) -> Scheduling:
    """Build the schedules and triggers of a runtime.

    Raises:
        InvalidInput: The store keeps none.
    """
    view, control = services.view(None), services.control

    async def check_agent(agent_id: str) -> None:
        try:
            await view.agent(agent_id)
        except UnknownAgent:
            # Another process may serve it: the dispatch waits for that one.
            if not await _is_served_elsewhere(services, agent_id):
                raise

    async def check_target(request: RunRequest) -> None:
        with suppress(UnknownAgent):
            check_fits(await view.agent(request.agent_id or ""), request)

    async def check_receiver(agent_id: str) -> None:
        with suppress(UnknownAgent):
            if (await view.agent(agent_id)).workflow is None:
                raise _refuse_event(agent_id)

    async def screen(request: RunRequest) -> RunRequest:
        # A workflow that is open on the thread takes the message as an event.
        checkout = await services.store.checkout(request.thread_id or "")
        if checkout is None or checkout.open_run is None:
            await check_target(request)
        return await services.engine.screen_request(request)

    async def check_event(run: RunRecord, name: str, payload: Any) -> None:
        # Only what delivers events loads the code of workflows.
        from awaken.services.workflows import check_declared_event  # noqa: PLC0415

        await check_declared_event(services.engine, run, name, payload)

    starter = RunStarter(
        check_agent=check_agent,
        check_target=check_target,
        check_receiver=check_receiver,
        screen=screen,
        check_event=check_event,
        cancel_run=lambda run_id: control.cancel_run(run_id, CAUSE),
        on_queued=on_queued,
        judges=judges,
    )
    resolver = SecretResolver() if managed is None else managed.parts.resolver
    secrets = SecretReader(resolve=resolver.resolve, find_problem=check_ref)
    mailbox = control.mailbox.services
    return Scheduling(find_schedule_store(services.store), mailbox, starter, ids, secrets)


def build_operator_scheduling(
    store: Store, services: MailboxServices, agents: Sequence[Agent] = ()
) -> Scheduling:
    """Build the schedules and triggers of a store for an operator, who executes none of its agents.

    What is for one of the given agents is checked; others are accepted.

    Raises:
        InvalidInput: The store keeps none.
    """

    async def accept_agent(_agent_id: str) -> None:
        """Accept any agent: only the processes that execute runs know theirs."""

    # Only commands need it: no server loads the code of workflows here.
    from awaken.authoring.workflows import Workflow  # noqa: PLC0415

    known = {it.id: it for it in agents}

    async def check_target(request: RunRequest) -> None:
        agent = known.get(request.agent_id or "")
        if isinstance(agent, Workflow):
            agent.read_arguments(request.messages)

    async def check_receiver(agent_id: str) -> None:
        if not isinstance(known.get(agent_id), Workflow | None):
            raise _refuse_event(agent_id)

    async def accept_event(_run: RunRecord, _name: str, _payload: Any) -> None:
        """Accept any event, for the same reason."""

    async def keep(request: RunRequest) -> RunRequest:
        return request

    starter = RunStarter(
        check_agent=accept_agent,
        check_target=check_target,
        check_receiver=check_receiver,
        screen=keep,
        check_event=accept_event,
        cancel_run=lambda run_id: cancel_run(services, run_id, CAUSE),
        on_queued=lambda: None,
    )
    secrets = SecretReader(resolve=SecretResolver().resolve, find_problem=check_ref)
    return Scheduling(find_schedule_store(store), services, starter, services.ids, secrets)


def _refuse_event(agent_id: str) -> InvalidInput:
    problem = f"agent '{agent_id}' is no workflow, so it takes no events"
    return InvalidInput(what="target.event", problem=problem)


def check_fits(agent: ResolvedAgent, request: RunRequest) -> None:
    """Refuse a request that no run of the agent could begin with.

    Raises:
        InvalidContext: The context does not fit.
        InvalidWorkflowInput: The input does not fit the parameters of the workflow.
    """
    if agent.context is not None:
        agent.context.decode(agent.spec.id, request.context)
    if agent.workflow is not None:
        agent.workflow.read_arguments(request.messages)


def find_schedule_store(store: Store) -> ScheduleStore:
    """Return the place of schedules in a store.

    Raises:
        InvalidInput: The store has none.
    """
    if not hasattr(store, "claim_schedules"):
        problem = "it keeps no schedules; use one in memory, SQLite or Postgres"
        raise InvalidInput(what=f"store '{store.name}'", problem=problem)
    return cast(ScheduleStore, store)


async def _is_served_elsewhere(services: "AppServices", agent_id: str) -> bool:
    if services.report is None:
        return False
    entries = await list_workers(services.profile, await services.store.now_ms())
    return any(agent_id in it.agents for it in entries)
