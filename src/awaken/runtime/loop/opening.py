"""Opening a run: its first commit and its first phase; also the change of its agent later."""

import msgspec

from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.events import RunStart
from awaken.contracts.lifecycle import Blocked, Cancelled, NaturalEnd
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, RUN_LIFECYCLE, TOOL_FILTER, Begin
from awaken.contracts.plugins.plugin import RunStartContext
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.state.profile import ProfileAccess
from awaken.contracts.suspension.permissions import TOOL_GRANTS, WANTED_TOOLS
from awaken.contracts.suspension.tickets import SUPERSEDED as TICKET_SUPERSEDED
from awaken.contracts.tasks import PARENT
from awaken.contracts.tracing import CURRENT_RUN
from awaken.runtime.journal.known_messages import wakes_model
from awaken.runtime.journal.run_log import log_recovery
from awaken.runtime.phases.commands import commit_command, submit
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.phases.instruments import tell_handover
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.plugins.input_screens import look_at_messages
from awaken.runtime.resolution.host_agents import include_agent
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.run import Run, list_new_messages
from awaken.runtime.spending.ledgers import keep_budgets
from awaken.runtime.suspension.resume import has_decided
from awaken.runtime.tools.settle import close_tickets, interrupt

from .queued_input import mark_words
from .session_tools import equip_agent

SUPERSEDED = "[Not executed: a new message came instead of a decision]"


async def open_run(run: Run) -> None:
    """Make the run durable, announce it, and let plugins prepare.

    If another process started the run, that process announced it and activated its plugins; the
    first commit here only proves that this process has the thread.
    """
    identity, recovery = run.identity, run.recovery
    run.state.update(RUN_LIFECYCLE, Begin(run_id=identity.run_id, step_count=run.record.steps))
    if run.request.blocked is not None:
        run.end(Blocked(reason=run.request.blocked))
    if recovery is None:
        run.journal.announce(
            RunStart(
                thread_id=identity.thread_id,
                run_id=identity.run_id,
                parent_run_id=identity.parent_run_id,
                identity=identity,
            )
        )
        _take_in_request(run)
        if run.profile is None or run.agent.env.activated:
            _equip(run, run.agent)
            # Plugins are foreign code: the run's start and input are recorded before they act.
            await _activate(run, run.agent)
    else:
        if recovery.ending is not None:
            run.end(recovery.ending)
        _equip(run, run.agent)
        if run.request.messages:
            run.hold(mark_words(run, run.request))
    await run.flush_record()
    if recovery is not None:
        log_recovery(run.record)
    if run.on_open is not None:
        on_open, run.on_open = run.on_open, None
        on_open()
    if run.has_phases and run.has_work(Phase.RUN_START):
        await run_phase(run, Phase.RUN_START, phase_context(run, RunStartContext))


async def switch_agent(run: Run) -> Blocked | None:
    """Switch to the agent that the state names; return why that is impossible, or None."""
    wanted = run.state.get(ACTIVE_AGENT)
    if wanted is None or wanted == run.agent.spec.id:
        return None
    try:
        await include_agent(run, wanted)
        agent = equip_agent(run.pinned.resolve(wanted), run.request, run.services.session_tools)
        _check_backend(run, agent)
        if agent.context is not None or agent.instructions is not None:
            # Loaded by the first run that needs it: most programs have no such agent.
            from .instructions import instruct_agent  # noqa: PLC0415

            agent = await instruct_agent(run, agent)
    except AwakenError as error:
        # The thread keeps its current agent; otherwise no later run could answer on it.
        run.state.update(ACTIVE_AGENT, run.agent.spec.id)
        return Blocked(reason=f"handoff resolve failed: {error}")
    for plugin in run.agent.env.plugins:
        await submit(run, plugin.on_deactivate() or StateCommand())
    keep_budgets(run)
    if run.state.has(TOOL_FILTER):
        # It was meant for the next request of the agent that spoke until now.
        commit_command(run, StateCommand().clear(TOOL_FILTER))
    run.agent = agent
    run.has_phases = run.has_phases or bool(agent.env.phases)
    run.has_budgets = run.has_budgets or bool(agent.spec.budgets)
    run.identity = run.identity.with_active_agent(wanted)
    CURRENT_RUN.set(run.identity)
    tell_handover(run, agent.spec)
    run.state.declare(agent.env.keys.values())
    _equip(run, agent)
    await _activate(run, agent)
    return None


def _check_backend(run: Run, agent: ResolvedAgent) -> None:
    if agent.backend is not run.agent.backend:
        problem = f"agent '{agent.spec.id}' executes on another backend"
        raise InvalidSpec(what="The handoff", problem=problem)


async def _activate(run: Run, agent: ResolvedAgent) -> None:
    for plugin in agent.env.activated:
        command = plugin.on_activate(agent.spec)
        if command is not None:
            await submit(run, command)


def _equip(run: Run, agent: ResolvedAgent) -> None:
    """Give the agent's plugins the objects that exist only in this process."""
    env, services = agent.env, run.services
    if env.profile is None:
        env.profile = ProfileAccess(services.profile, env.profile_keys, services.clock)
    run.profile = env.profile
    run.own = env.own_objects(run.identity, agent.spec) if env.activated else {}


def _take_in_request(run: Run) -> None:
    """Append the request's messages, and keep its tool grants in the run's state.

    On a waiting run the messages supersede its pending decisions.
    """
    request = run.request
    if request.grant is not None:
        run.state.update(TOOL_GRANTS, request.grant)
    if request.wanted_tools:
        run.state.update(WANTED_TOOLS, request.wanted_tools)
    if request.history and not run.is_continued:
        _take_in_history(run)
    messages, is_sent, is_marked = request.messages, False, run.is_continued
    for message in messages:
        is_sent = is_sent or message.sender is not None
        is_marked = is_marked or message.metadata is not None
    if is_marked:
        messages = mark_words(run, request)
    if run.is_continued or is_sent:
        messages = list_new_messages(run, messages)
    if messages and run.open_calls:
        if has_decided(run) or all(message.sender is not None for message in messages):
            # The decided calls resume first; their results come before the messages. Messages
            # of tasks and other agents do not supersede decisions.
            run.hold(messages)
            return
        close_tickets(run, TICKET_SUPERSEDED)
        interrupt(run, tuple(run.open_calls.values()), SUPERSEDED)
        run.drain_inbox()
    for message in messages:
        run.append_user(message)
    if is_sent and not run.is_continued and request.is_quiet:
        # The input is only recorded: a cancelled run whose tasks end must not start again, and
        # the progress of a task can be read later.
        is_stopped = wakes_model(request.messages)
        run.end(Cancelled(cause=PARENT) if is_stopped else NaturalEnd())


def _take_in_history(run: Run) -> None:
    """Begin the transcript with messages of elsewhere; nothing in them is executed."""
    messages, blocked = look_at_messages(run.agent.env, run.request.history)
    if blocked is not None:
        run.end(Blocked(reason=blocked))
    for message in messages:
        run.append(msgspec.structs.replace(message, id=message.id or run.services.ids.new_id()))
    # An answer of the history is no answer of this run.
    run.response = ""
