"""The handoff plugin: tools by which an agent hands the conversation over.

The active agent is kept in the thread's state, so that the next run that names no agent uses it
as well.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from awaken.authoring.foreign_calls import call_function
from awaken.authoring.functions import tool
from awaken.authoring.typed_delegates import NamedAgent
from awaken.authoring.typed_tools import TypedTool, object_schema
from awaken.contracts.errors import DuplicateRegistration, InvalidSpec
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.plugins.plugin import Plugin, PluginRegistrar
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import InvalidArguments, Tool, ToolDescriptor, ToolEffect

_ID_CHARACTERS = 64


class Handoff:
    """An agent to hand over to, with what the model has to say for it.

    Args:
        agent: The agent, which is registered with the one that has the plugin, or its id.
        hint: When to hand over; the model reads it.
        input: What the model passes on: a dataclass, a `msgspec.Struct` or a pydantic model. Then
            the handoff has a tool of its own, `transfer_to_<agent>`.
        on_handoff: Called before the switch with the input, if there is one, and the context of the
            call, which comes first if it is annotated as ToolContext there; async or not. If it
            raises, the conversation stays where it is. After a crash it may be called again, with
            the same `ctx.idempotency_key`.

    Raises:
        InvalidSpec: The input is not an object in JSON, or `on_handoff` takes other arguments.
    """

    def __init__(
        self,
        agent: str | NamedAgent,
        hint: str = "",
        *,
        input: Any = None,
        on_handoff: Callable[..., Any] | None = None,
    ) -> None:
        self.agent_id = _read_agent_id(agent)
        self.named_agents = () if isinstance(agent, str) else (agent,)
        self.hint = hint or ("" if isinstance(agent, str) else agent.spec.description)
        self.input = input
        self.on_handoff = on_handoff
        self._is_context_first = False
        if on_handoff is not None:
            self._is_context_first = _read_callback(
                self.agent_id, on_handoff, has_input=input is not None
            )
        self._schema = (
            None if input is None else object_schema(input, f"Handoff({self.agent_id!r})")
        )

    def build_tool(self) -> Tool:
        """Make the tool of a handoff with an input."""
        assert self._schema is not None
        slug = "".join(
            it if it.isascii() and (it.isalnum() or it in "_-") else "_" for it in self.agent_id
        )
        tool_id = f"transfer_to_{slug}"[:_ID_CHARACTERS]
        about = f" {self.hint}" if self.hint else ""
        descriptor = ToolDescriptor(
            id=tool_id,
            name=tool_id,
            description=f"Hand the conversation over to the agent '{self.agent_id}'.{about}",
            parameters=self._schema,
            effect=ToolEffect.IDEMPOTENT,
        )
        made = TypedTool(descriptor, self.input, self.switch)
        made.hands_off_to = lambda _: self.agent_id
        return made

    async def switch(self, given: Any, ctx: ToolContext) -> str:
        """Call `on_handoff`, then make the agent the active one."""
        if self.on_handoff is not None:
            both = (ctx, given) if self._is_context_first else (given, ctx)
            values = (ctx,) if self.input is None else both
            await call_function(self.on_handoff, *values)
        ctx.state.set(ACTIVE_AGENT, self.agent_id)
        return f"Transferred to {self.agent_id}."


class HandoffPlugin(Plugin):
    """Lets an agent hand over to other agents.

    Args:
        to: The agents: a list of agents, ids and `Handoff`, or ids with a hint when to hand over to
            each.

    Raises:
        InvalidSpec: `to` names no agent.
        DuplicateRegistration: It names one twice.
    """

    name = "agent_handoff"

    def __init__(self, to: Mapping[str, str] | Sequence[Handoff | NamedAgent | str]) -> None:
        passed: Any = to
        if isinstance(passed, str) or not isinstance(passed, Mapping | Sequence) or not passed:
            problem = "pass a list of agents to hand over to, HandoffPlugin([billing])"
            raise InvalidSpec(what="HandoffPlugin", problem=problem)
        given = [Handoff(*it) for it in to.items()] if isinstance(to, Mapping) else to
        listed = [it if isinstance(it, Handoff) else Handoff(it) for it in given]
        self.named_agents = tuple(agent for it in listed for agent in it.named_agents)
        plain: dict[str, Handoff] = {}
        self._tools: list[Tool] = []
        for handoff in listed:
            if handoff.input is not None:
                self._tools.append(handoff.build_tool())
            elif plain.setdefault(handoff.agent_id, handoff) is not handoff:
                raise DuplicateRegistration(kind="Handoff", name=handoff.agent_id)
        if plain:
            self._tools.append(_transfer_tool(plain))

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the tools."""
        for each in self._tools:
            registrar.tool(each)


def _read_agent_id(agent: Any) -> str:
    agent_id = agent if isinstance(agent, str) else getattr(getattr(agent, "spec", None), "id", "")
    if not agent_id.strip():
        problem = f"{agent!r} is no agent; pass an Agent, its id, or Handoff(agent, …)"
        raise InvalidSpec(what="Handoff", problem=problem)
    return str(agent_id)


def _read_callback(agent_id: str, function: Any, *, has_input: bool) -> bool:
    """Whether a callback takes the context first; that is what its annotation says."""
    what = f"Handoff({agent_id!r})"
    wanted = "the input and a ToolContext" if has_input else "a ToolContext"
    problem = f"on_handoff is called with {wanted}; make it a function of these"
    if not callable(function):
        raise InvalidSpec(what=what, problem=problem)
    try:
        signature = inspect.signature(function)
    except ValueError:
        return False  # A builtin without a signature: the first call shows whether it fits.
    try:
        bound = signature.bind(*(None,) * (2 if has_input else 1))
    except TypeError as error:
        raise InvalidSpec(what=what, problem=problem) from error
    first = signature.parameters[next(iter(bound.arguments))]
    return has_input and "ToolContext" in str(first.annotation)


def _transfer_tool(to: dict[str, Handoff]) -> Tool:
    choices = "; ".join(f"{agent_id}: {it.hint}" for agent_id, it in to.items())

    @tool(
        effect="idempotent",
        description=f"Hand the conversation over to another agent. Agents: {choices}",
    )
    async def transfer_to_agent(agent_id: str, ctx: ToolContext) -> str:
        return await to[find_target({"agent_id": agent_id})].switch(None, ctx)

    def find_target(arguments: Any) -> str:
        agent_id = str(arguments["agent_id"])
        if agent_id not in to:
            raise InvalidArguments(f"agent_id must be one of {', '.join(to)}")
        return agent_id

    transfer_to_agent.hands_off_to = find_target
    return transfer_to_agent
