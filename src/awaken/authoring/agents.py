"""An agent as declared in code; `spec` is its part that is plain data."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from awaken.contracts.errors import DuplicateRegistration, InvalidSpec
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ContextWindowPolicy, ModelClient, ReasoningEffort
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint, StopCondition
from awaken.contracts.tools.tool import Tool

from .functions import as_tool
from .output import OutputType
from .plugin_names import plugin_problem
from .pydantic_models import encode_model

if TYPE_CHECKING:
    # Few agents have one.
    from .typed_delegates import Delegate

_SPEC_NAMES = {
    "model_id": "model",
    "system_prompt": "instructions",
    "plugin_ids": "plugins",
    "stop_conditions": "stop",
    "sections": "config",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Agent:
    """An agent: its id, its model, its instructions and what it may use. Checked when it is made.

    Args:
        id: The agent's name. Runs, delegation and handoffs use it.
        model: `provider:model`, the id of a registered model or pool, a `ModelSpec`, a `ModelPool`,
            or a `ModelClient` of your own.
        endpoint: The remote server that executes the agent. Such an agent names no model.
        instructions: The system prompt, sent before the conversation.
        tools: Tools and plain functions that only this agent has.
        plugins: Plugins that only this agent has. Their hooks run in this order.
        output_type: The type of the final answer. Without one the answer is text.
        description: What the agent is for. Clients and agents that may delegate to it read it.
        max_rounds: The largest number of inferences in one run. 0 means no limit.
        stop: Stop conditions, checked between steps in this order.
        budgets: What a run, a thread or a tenant may spend with this agent.
        parallel_tools: Whether the tool calls of one step run side by side.
        frontend_tools_may_replace: Whether a client's tool replaces an own tool of the same id.
        allowed_tools: Ids or glob patterns of the tools that it may use. None allows all.
        excluded_tools: Ids or glob patterns of tools that it may not use. Exclusion wins.
        delegates: Agents that it may ask, or their ids. Each becomes a tool `agent_run_<id>` with
            a prompt; a `Delegate` has arguments of its own.
        config: Configuration of plugins: a list of sections, such as `PermissionConfig(…)`, or a
            mapping of their names to structs or JSON data.
        reasoning_effort: `none`, `low`, `medium`, `high`, `max`, or a budget of tokens.
        context_policy: How much of the history a request carries.
        max_continuation_retries: How often an answer cut off at the output limit is continued.

    Raises:
        InvalidSpec: A value cannot be accepted; names the agent and the field.
        DuplicateRegistration: Two tools or two plugins share an id.
    """

    id: str
    model: str | ModelSpec | ModelPool | ModelClient = field(kw_only=True, default="")
    endpoint: RemoteEndpoint | None = field(kw_only=True, default=None)
    instructions: str = field(kw_only=True, default="")
    tools: Sequence[Tool | Callable[..., Any]] = field(kw_only=True, default=())
    plugins: Sequence[Plugin] = field(kw_only=True, default=())
    output_type: Any = field(kw_only=True, default=None)
    description: str = field(kw_only=True, default="")
    max_rounds: int = field(kw_only=True, default=16)
    stop: Sequence[StopCondition] = field(kw_only=True, default=())
    budgets: Sequence[Budget] = field(kw_only=True, default=())
    parallel_tools: bool = field(kw_only=True, default=True)
    frontend_tools_may_replace: bool = field(kw_only=True, default=False)
    allowed_tools: Sequence[str] | None = field(kw_only=True, default=None)
    excluded_tools: Sequence[str] | None = field(kw_only=True, default=None)
    delegates: "Sequence[str | Agent | Delegate]" = field(kw_only=True, default=())
    config: Mapping[str, Any] | Sequence[Any] = field(kw_only=True, default_factory=dict)
    reasoning_effort: ReasoningEffort | str | None = field(kw_only=True, default=None)
    context_policy: ContextWindowPolicy | None = field(kw_only=True, default=None)
    max_continuation_retries: int = field(kw_only=True, default=2)
    spec: AgentSpec = field(init=False)
    own_tools: dict[str, Tool] = field(init=False)
    """The declared tools by id."""
    output: OutputType | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugins", tuple(_read_list(self, "plugins")))
        object.__setattr__(self, "spec", _build_spec(self))
        object.__setattr__(self, "own_tools", _build_tools(self))
        object.__setattr__(self, "tools", tuple(self.own_tools.values()))
        object.__setattr__(self, "output", _build_output(self))

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"


def _build_spec(agent: Agent) -> AgentSpec:
    for name in ("max_rounds", "max_continuation_retries"):
        limit = getattr(agent, name)
        if isinstance(limit, int) and limit < 0:
            _refuse(agent, name, "it must not be negative")
    fields = {
        "id": agent.id,
        "model_id": _model_id(agent),
        "system_prompt": agent.instructions,
        "description": agent.description,
        "max_rounds": agent.max_rounds,
        "max_continuation_retries": agent.max_continuation_retries,
        "context_policy": agent.context_policy,
        "reasoning_effort": agent.reasoning_effort,
        "plugin_ids": _plugin_ids(agent),
        "allowed_tools": agent.allowed_tools,
        "excluded_tools": agent.excluded_tools,
        "stop_conditions": agent.stop,
        "budgets": agent.budgets,
        "parallel_tools": agent.parallel_tools,
        "frontend_tools_may_replace": agent.frontend_tools_may_replace,
        "delegates": _delegate_ids(agent),
        "endpoint": agent.endpoint,
        "sections": _encode_sections(agent),
    }
    try:
        spec = msgspec.convert(fields, AgentSpec)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        name = re.split(r"\W", path)[0]
        _refuse(agent, _SPEC_NAMES.get(name, name), problem, error)
    return spec


def _model_id(agent: Agent) -> str:
    model: Any = agent.model
    if agent.endpoint is not None and model != "":
        _refuse(agent, "model", "it executes at its endpoint, with a model of its own; name none")
    if isinstance(model, ModelSpec | ModelPool):
        return model.id
    if isinstance(model, str):
        is_named = bool(model.strip()) or (not model and agent.endpoint is not None)
        return model if is_named else _refuse(agent, "model", "it is blank")
    if isinstance(model, ModelClient) and not isinstance(model, type):
        return f"{agent.id}:model"
    _refuse(agent, "model", "it is not a model id, a ModelSpec, a ModelPool or a ModelClient")


def _plugin_ids(agent: Agent) -> tuple[str, ...]:
    names: list[str] = []
    for plugin in agent.plugins:
        if problem := plugin_problem(plugin):
            _refuse(agent, "plugins", problem)
        if plugin.name in names:
            raise DuplicateRegistration(kind=f"Agent '{agent.id}': plugin", name=plugin.name)
        names.append(plugin.name)
    return tuple(names)


def _delegate_ids(agent: Agent) -> Any:
    """The agents that it may ask, those that are given as a `Delegate` included."""
    if isinstance(agent.delegates, str) or not isinstance(agent.delegates, Sequence):
        return agent.delegates
    typed = (
        getattr(it, "delegates_to", None) for it in (*agent.delegates, *_read_list(agent, "tools"))
    )
    plain = (it for it in agent.delegates if not _is_typed(it))
    named = (it.id if isinstance(it, Agent) else it for it in plain)
    return (*named, *dict.fromkeys(it for it in typed if it is not None))


def _is_typed(delegate: object) -> bool:
    """Whether it is a `Delegate`, whose module only programs that have one load."""
    return hasattr(delegate, "delegates_to")


def _encode_sections(agent: Agent) -> dict[str, Any]:
    sections = agent.config if isinstance(agent.config, Mapping) else _name_sections(agent)
    try:
        return {
            name: msgspec.to_builtins(section, str_keys=True, enc_hook=encode_model)
            for name, section in sections.items()
        }
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(agent, "config", str(error), error)


def _name_sections(agent: Agent) -> dict[str, Any]:
    """The sections of a list by the name that each of their classes has as `section`."""
    if isinstance(agent.config, str) or not isinstance(agent.config, Sequence):
        _refuse(agent, "config", "it is neither a list of sections nor a mapping of their names")
    sections: dict[str, Any] = {}
    for section in agent.config:
        class_name, name = type(section).__name__, getattr(type(section), "section", None)
        if not isinstance(name, str):
            problem = f"{class_name} names no section; give the class `section: ClassVar[str]`, or "
            _refuse(agent, "config", f"{problem}pass a mapping, config={{'name': …}}")
        if name in sections:
            _refuse(agent, "config", f"section '{name}' is given twice")
        sections[name] = section
    return sections


def _build_tools(agent: Agent) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    typed: list[Any] = [it for it in agent.delegates if _is_typed(it)]
    for candidate in (*_read_list(agent, "tools"), *typed):
        try:
            tool = as_tool(candidate)
        except InvalidSpec as error:
            _refuse(agent, "tools", str(error).rstrip("."), error)
        if tool.descriptor.id in tools:
            kind = f"Agent '{agent.id}': tool"
            raise DuplicateRegistration(kind=kind, name=tool.descriptor.id)
        tools[tool.descriptor.id] = tool
    return tools


def _build_output(agent: Agent) -> OutputType | None:
    try:
        return None if agent.output_type is None else OutputType(agent.output_type)
    except InvalidSpec as error:
        _refuse(agent, "output_type", error.problem, error)


def _read_list(agent: Agent, name: str) -> Sequence[Any]:
    values = getattr(agent, name)
    if isinstance(values, str) or not isinstance(values, Sequence):
        _refuse(agent, name, f"pass a list, {name}=[…]")
    return values


def _refuse(agent: Agent, name: str, problem: str, error: Exception | None = None) -> NoReturn:
    what = f"agent {agent.id!r}" if name in ("", "id") else f"agent {agent.id!r}: field '{name}'"
    raise InvalidSpec(what=what, problem=problem) from error
