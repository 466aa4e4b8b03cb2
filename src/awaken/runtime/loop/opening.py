"""The way in: the first commit of a run, its first phase, and a change of agent on the way."""

from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.events import RunStart
from awaken.contracts.lifecycle import Blocked, Cancelled, NaturalEnd, RunStatus
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, RUN_LIFECYCLE, Begin, End
from awaken.contracts.plugins.plugin import RunStartContext
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.state.profile import ProfileAccess
from awaken.contracts.suspension.permissions import TOOL_GRANTS, WANTED_TOOLS
from awaken.contracts.suspension.tickets import SUPERSEDED as TICKET_SUPERSEDED
from awaken.contracts.tasks import PARENT
from awaken.contracts.tracing import CURRENT_RUN
from awaken.runtime.journal.known_messages import wakes_model
from awaken.runtime.journal.run_log import log_recovery
from awaken.runtime.phases.commands import submit
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.phases.instruments import tell_handover
from awaken.runtime.phases.runner import has_work, run_phase
from awaken.runtime.resolution.host_agents import include_agent
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.run import Run, block_run, unheard_by
from awaken.runtime.spending.ledgers import keep_budgets
from awaken.runtime.suspension.resume import has_decided
from awaken.runtime.tools.settle import close_tickets, interrupt

from .session_tools import add_session_tools

SUPERSEDED = "[Not executed: a new message came instead of a decision]"


async def open_run(run: Run) -> None:
    """Make the run durable, announce it, and let plugins prepare.

    A run that another process began was announced by it, and its plugins have begun; its first
    commit here only shows that the thread is still this process's.
    """
    run.state.update(RUN_LIFECYCLE, Begin(run_id=run.identity.run_id, step_count=run.record.steps))
    if run.request.blocked is not None:
        block_run(run, run.request.blocked)
    if run.is_recovered:
        _go_on(run)
    else:
        await _begin(run)
    await run.flush_record(RunStatus.RUNNING)
    if run.is_recovered:
        log_recovery(run.record)
    if run.on_open is not None:
        run.on_open()
    if has_work(run, Phase.RUN_START):
        await run_phase(run, Phase.RUN_START, phase_context(run, RunStartContext))


def _go_on(run: Run) -> None:
    if run.ended_before is not None:
        run.state.update(RUN_LIFECYCLE, End(termination=run.ended_before))
    _equip(run, run.agent)
    if run.request.messages:
        run.hold(run.request.messages)


async def _begin(run: Run) -> None:
    identity = run.identity
    run.journal.announce(
        RunStart(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            identity=identity,
        )
    )
    _take_in_messages(run)
    _take_in_grant(run)
    # Plugins are foreign code: whatever they do, the run has begun and has its input.
    await _activate(run, run.agent)


async def switch_agent(run: Run) -> Blocked | None:
    """Hand the run over when the state names another agent; returns why that is impossible."""
    wanted = run.state.get(ACTIVE_AGENT)
    if wanted is None or wanted == run.agent.spec.id:
        return None
    try:
        await include_agent(run, wanted)
        agent = run.pinned.resolve(wanted).with_frontend_tools(run.request.frontend_tools)
        agent = agent.with_output(run.request.output_schema)
        agent = add_session_tools(agent, run.request, run.services.session_tools)
        _check_backend(run, agent)
    except AwakenError as error:
        # The thread stays with the agent that is there, or nobody could ever answer on it.
        run.state.update(ACTIVE_AGENT, run.agent.spec.id)
        return Blocked(reason=f"handoff resolve failed: {error}")
    for plugin in run.agent.env.plugins:
        await submit(run, plugin.on_deactivate() or StateCommand())
    keep_budgets(run)
    run.agent = agent
    run.identity = run.identity.speaking_as(wanted)
    CURRENT_RUN.set(run.identity)
    tell_handover(run, agent.spec)
    run.state.declare(agent.env.keys.values())
    await _activate(run, agent)
    return None


def _check_backend(run: Run, agent: ResolvedAgent) -> None:
    if agent.backend is not run.agent.backend:
        problem = f"agent '{agent.spec.id}' executes on another backend"
        raise InvalidSpec(what="The handoff", problem=problem)


async def _activate(run: Run, agent: ResolvedAgent) -> None:
    _equip(run, agent)
    for plugin in agent.env.activated:
        command = plugin.on_activate(agent.spec)
        if command is not None:
            await submit(run, command)


def _equip(run: Run, agent: ResolvedAgent) -> None:
    """Give the agent's plugins what lives only in this process."""
    env, services = agent.env, run.services
    run.profile = ProfileAccess(services.profile, env.profile_keys, services.clock)
    run.own = env.own_objects(run.identity, agent.spec)


def _take_in_grant(run: Run) -> None:
    """Keep what whoever began the run allows in it: it ends with the run's state."""
    request = run.request
    if request.grant is not None:
        run.state.update(TOOL_GRANTS, request.grant)
    if request.wanted_tools:
        run.state.update(WANTED_TOOLS, request.wanted_tools)


def _take_in_messages(run: Run) -> None:
    """Append the request's messages; on a waiting run they take the place of its decisions."""
    messages = run.request.messages
    if run.is_continued or any(message.sender is not None for message in messages):
        messages = unheard_by(run, messages)
    if messages and run.open_calls:
        if has_decided(run) or all(message.sender is not None for message in messages):
            # The decided calls go on first; their results come before the messages. And what
            # tasks and other agents say takes nobody's decision away.
            run.hold(messages)
            return
        close_tickets(run, TICKET_SUPERSEDED)
        interrupt(run, tuple(run.open_calls.values()), SUPERSEDED)
        run.take_in_news()
    for message in messages:
        run.append_user(message)
    if not run.is_continued and run.request.is_quiet:
        # It is written down, and nobody acts: whoever cancelled the tasks' run wants it to stop,
        # and how far a task is can be read later.
        is_stopped = wakes_model(run.request.messages)
        ended = Cancelled(cause=PARENT) if is_stopped else NaturalEnd()
        run.state.update(RUN_LIFECYCLE, End(termination=ended))
