"""Finds what prevents an unfinished run from resuming with a given set of agents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError, KeyCodecError
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, PENDING_ACTIONS, REQUEST_OPTIONS
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.keys import StateKey, StoredValue, list_living_keys
from awaken.contracts.storage.store import Checkout, ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.permissions import APPROVAL
from awaken.contracts.suspension.tickets import DecisionAction, ResumeMode, Ticket
from awaken.contracts.tools.tool import Tool
from awaken.contracts.workflows.errors import InvalidWorkflowInput
from awaken.runtime.journal.bookmark import read_bookmark
from awaken.runtime.resolution.host_agents import include_agent
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.suspension.recovery import latest_turn

V = TypeVar("V")


class Resumability:
    """Checks runs against one set of agents. Every problem is a sentence that names the cause."""

    def __init__(self, snapshot: RegistrySnapshot) -> None:
        self.pinned = snapshot
        self._declared = _list_declared_keys(snapshot)
        self._refused: dict[str, str] = {}
        """Agents that the host's resolver failed to supply, and why."""

    async def load_agents(self, *agent_ids: str | None) -> None:
        """Ask the host's resolver, if there is one, for agents that are not registered."""
        for agent_id in filter(None, agent_ids):
            try:
                await include_agent(self, agent_id)
            except AwakenError as error:
                self._refused[agent_id] = str(error)
        self._declared = _list_declared_keys(self.pinned)

    def active_agent(self, checkout: Checkout) -> str | None:
        """The agent that a thread was handed over to, if any."""
        return _value(checkout.state, ACTIVE_AGENT)

    def handoff_problems(self, agent_id: str, checkout: Checkout) -> list[str]:
        """List what prevents a pending handoff from the agent."""
        due = self.active_agent(checkout)
        return [] if due in (None, agent_id) else self._with_agent(due, lambda _: iter(()))

    def start_problems(self, agent_id: str, checkout: Checkout) -> list[str]:
        """List what prevents a new run of the agent on the thread."""
        return self._with_agent(agent_id, lambda agent: self._state(agent, checkout.state))

    def input_problems(self, agent_id: str, messages: tuple[Message, ...]) -> list[str]:
        """List why a workflow does not take what a queued run would begin with."""

        def look(agent: ResolvedAgent) -> Iterator[str]:
            try:
                if agent.workflow is not None:
                    agent.workflow.read_arguments(messages)
            except InvalidWorkflowInput as error:
                yield str(error)

        return self._with_agent(agent_id, look)

    def problems(
        self, agent_id: str, checkout: Checkout, records: Iterable[ToolRecord]
    ) -> list[str]:
        """List what prevents the thread's open run from resuming."""

        def list_problems(agent: ResolvedAgent) -> Iterator[str]:
            if agent.workflow is not None:
                yield f"agent '{agent_id}' has become a workflow"
                return
            kept = _value(checkout.run_state, REQUEST_OPTIONS)
            equipped = agent.with_frontend_tools(kept.frontend_tools if kept else ())
            yield from self._state(agent, {**checkout.state, **checkout.run_state})
            yield from _actions(agent, checkout)
            yield from _place(checkout)
            for ticket in checkout.tickets:
                yield from _ticket(equipped, ticket)
            yield from _open_calls(equipped, checkout, records)

        return self._with_agent(agent_id, list_problems)

    async def journal_problems(
        self, record: RunRecord, checkout: Checkout, records: Any
    ) -> list[str]:
        """List what prevents the function of a workflow from being entered again."""
        # Loaded by the first workflow.
        from awaken.runtime.workflows.journal_check import find_journal_problem  # noqa: PLC0415

        try:
            workflow = self.pinned.resolve(record.agent_id).workflow
        except AwakenError as error:
            return [str(error)]
        if workflow is None:
            return [f"agent '{record.agent_id}' is no workflow any more"]
        found = await find_journal_problem(workflow, record, checkout, records)
        return [] if found is None else [found]

    def _with_agent(
        self, agent_id: str, look: Callable[[ResolvedAgent], Iterator[str]]
    ) -> list[str]:
        if agent_id in self._refused:
            return [self._refused[agent_id]]
        try:
            agent = self.pinned.resolve(agent_id)
        except AwakenError as error:
            return [str(error)]
        return list(look(agent))

    def _state(self, agent: ResolvedAgent, stored: Mapping[str, StoredValue]) -> Iterator[str]:
        for name, value in sorted(stored.items()):
            key = agent.env.keys.get(name)
            if key is not None:
                yield from _codec_problem(key, value)
            elif name not in self._declared:
                yield from _check_undeclared(name, value)


def _place(checkout: Checkout) -> Iterator[str]:
    kept = None if checkout.open_run is None else checkout.open_run.bookmark
    if kept is not None and read_bookmark(kept) is None:
        yield f"Its bookmark in the run has version {kept.version}, which is unknown here."


def _list_declared_keys(snapshot: RegistrySnapshot) -> frozenset[str]:
    """The state keys that any agent declares: a thread may have used several agents."""
    names: set[str] = set()
    for agent_id in snapshot.registries.agents:
        try:
            names.update(snapshot.resolve(agent_id).env.keys)
        except AwakenError:
            # A run that needs this agent gets the reason as its problem.
            continue
    return frozenset(names)


def _check_undeclared(name: str, value: StoredValue) -> Iterator[str]:
    """Check state that only tools declare; one key that can decode it is enough."""
    found = [tuple(_codec_problem(key, value)) for key in list_living_keys(name)]
    if not found:
        yield f"State '{name}' is kept, and no plugin declares it and no tool uses it any more."
    elif all(found):
        yield from found[0]


def _codec_problem(key: StateKey[Any, Any], value: StoredValue) -> Iterator[str]:
    try:
        key.decode(value)
    except KeyCodecError as error:
        yield str(error)
    except BaseException as error:  # a migration is code of the user's
        if is_interruption(error):
            raise
        yield f"State '{key.name}' cannot be migrated: {type(error).__name__}: {error}."


def _value(stored: Mapping[str, StoredValue], key: StateKey[V, Any]) -> V | None:
    found = stored.get(key.name)
    try:
        return None if found is None else key.decode(found)
    except KeyCodecError:
        # The check of the whole state reports it.
        return None


def _actions(agent: ResolvedAgent, checkout: Checkout) -> Iterator[str]:
    for queued in _value(checkout.run_state, PENDING_ACTIONS) or ():
        is_own = queued.agent_id in (None, agent.spec.id)
        if is_own and queued.action.key not in agent.env.actions:
            yield f"Action '{queued.action.key}' is scheduled, and no plugin handles it any more."


def _ticket(agent: ResolvedAgent, ticket: Ticket) -> Iterator[str]:
    plugins = {plugin.name for plugin in agent.env.plugins}
    if ticket.asked_by and ticket.asked_by not in (APPROVAL, *plugins):
        yield f"Plugin '{ticket.asked_by}', which asks for ticket '{ticket.ticket_id}', is gone."
    decision = ticket.decision
    is_given_up = decision is not None and decision.action is DecisionAction.CANCEL
    if is_given_up or ticket.effective_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return
    edited = decision.arguments if decision is not None else None
    arguments = ticket.arguments if edited is None else edited
    call = ToolCall(id=ticket.call_id, name=ticket.tool_name, arguments=arguments)
    yield from _call(agent.tools, call)


def _open_calls(
    agent: ResolvedAgent, checkout: Checkout, records: Iterable[ToolRecord]
) -> Iterator[str]:
    """Check calls that a process left open: finished ones need their keys, others their tool."""
    answer, calls = latest_turn(checkout.messages)
    mark = answer.metadata if answer is not None else None
    step = 1 + (mark.step_index or 0) if mark is not None else 0
    finished = {
        it.call_id: it
        for it in records
        if it.status is ToolRecordStatus.FINISHED and it.step == step
    }
    suspended = {ticket.call_id for ticket in checkout.tickets}
    for call in calls.values():
        if call.id in suspended:
            continue
        if call.id in finished:
            yield from _updates(agent, finished[call.id])
        else:
            yield from _call(agent.tools, call)


def _updates(agent: ResolvedAgent, record: ToolRecord) -> Iterator[str]:
    for name, verb, _ in record.updates:
        if verb not in ("update", "clear"):
            continue
        if name not in agent.env.keys and not list_living_keys(name):
            owner = f"Tool '{record.tool_name}' changed state '{name}'"
            yield f"{owner}, which no plugin and no tool declares."


def _call(tools: Mapping[str, Tool], call: ToolCall) -> Iterator[str]:
    tool = tools.get(call.name)
    if tool is None:
        yield f"Tool '{call.name}' of call '{call.id}' is gone."
        return
    try:
        tool.validate(call.arguments)
    except BaseException as error:  # a check is code of the user's
        if is_interruption(error):
            raise
        yield f"Tool '{call.name}' does not take the arguments of call '{call.id}': {error}"
