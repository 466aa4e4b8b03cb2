"""An agent as declared in code; `spec` is its part that is plain data."""

import functools
import importlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Unpack, overload

import msgspec

from awaken.contracts.errors import DuplicateRegistration, InvalidSpec, Misuse
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ContextWindowPolicy, ModelClient, ReasoningEffort
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.record import ContextT, OutputT
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint, StopCondition
from awaken.contracts.tools.tool import Tool

from .functions import as_tool
from .output import OutputType
from .plugin_names import name_agents, plugin_problem
from .pydantic_models import encode_model

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from awaken.contracts.messages.message import Input, Message
    from awaken.contracts.runs.records import RunResult

    from .agent_options import AgentOptions, Instructions
    from .run_contexts import ContextType, RunContext

    # Few agents have one.
    from .typed_delegates import Delegate
    from .validators import BoundValidator

_SPEC_NAMES = {
    "model_id": "model",
    "system_prompt": "instructions",
    "plugin_ids": "plugins",
    "stop_conditions": "stop",
    "sections": "config",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Agent(Generic[ContextT, OutputT]):
    """An agent: its id, its model, its instructions and what it may use. Checked when it is made.

    Args:
        id: The agent's name. Runs, delegation and handoffs use it.
        model: `provider:model`, the id of a registered model or pool, a `ModelSpec`, a `ModelPool`,
            or a `ModelClient` of your own.
        endpoint: The remote server that executes the agent. Such an agent names no model.
        instructions: The system prompt, sent before the conversation: a text, in which
            `{context.name}` stands for a field of the run's context, or a function of a
            `RunContext`, async or not, which is called once for each run.
        tools: Tools and plain functions that only this agent has.
        plugins: Plugins that only this agent has. Their hooks run in this order.
        output_type: The type of the final answer. Without one the answer is text.
        output_validators: Functions of the output, or of a `RunContext` and the output, async or
            not, that raise `Retry` or ValueError to send the model back with the reason. Without
            an output type they get the text.
        output_retries: How often the model may answer again. The runtime's limit unless given.
        context_type: The type of the context that a run is given: a dataclass, a Struct or a
            pydantic model. Without one the context is any JSON object.
        description: What the agent is for. Clients and agents that may delegate to it read it.
        max_rounds: The largest number of inferences in one run. 0 means no limit.
        stop: Stop conditions, checked between steps in this order.
        budgets: What a run, a thread or a tenant may spend with this agent.
        parallel_tools: Whether the tool calls of one step run side by side.
        frontend_tools_may_replace: Whether a client's tool replaces an own tool of the same id.
        allowed_tools: Ids or glob patterns of the tools that it may use. None allows all.
        excluded_tools: Ids or glob patterns of tools that it may not use. Exclusion wins.
        delegates: Agents that it may ask, or their ids; an agent given here is registered with
            this one. Each becomes a tool `agent_run_<id>`; a `Delegate` has its own arguments.
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
    instructions: "str | Callable[[RunContext[Any, ContextT]], str | Awaitable[str]]" = field(
        kw_only=True, default=""
    )
    tools: Sequence[Tool | Callable[..., Any]] = field(kw_only=True, default=())
    plugins: Sequence[Plugin] = field(kw_only=True, default=())
    output_type: Any = field(kw_only=True, default=None)
    output_validators: Sequence[Callable[..., Any]] = field(kw_only=True, default=())
    output_retries: int | None = field(kw_only=True, default=None)
    context_type: type[ContextT] | None = field(kw_only=True, default=None)
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
    context: "ContextType | None" = field(init=False)

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "Agent[ContextT, str]",
            id: str,
            *,
            output_type: None = None,
            context_type: type[ContextT] | None = None,
            instructions: "Instructions[ContextT]" = "",
            **options: "Unpack[AgentOptions]",
        ) -> None: ...

        @overload
        def __init__(
            self,
            id: str,
            *,
            output_type: type[OutputT],
            context_type: type[ContextT] | None = None,
            instructions: "Instructions[ContextT]" = "",
            **options: "Unpack[AgentOptions]",
        ) -> None: ...

        # Of a union, a Literal and the like, a type checker knows no more than that they are
        # values: `Agent[Context, A | B](…)` says more.
        @overload
        def __init__(
            self,
            id: str,
            *,
            output_type: Any,
            context_type: type[ContextT] | None = None,
            instructions: "Instructions[ContextT]" = "",
            **options: "Unpack[AgentOptions]",
        ) -> None: ...

        def __init__(self, id: str, **options: Any) -> None:
            """See the class."""

    else:
        # Accepts `Agent[Context]` as well: the second variable has a default.
        __class_getitem__ = classmethod(GenericAlias)

        def __getattr__(self, name: str) -> NoReturn:
            # Reached only for what an agent does not have.
            from .other_frameworks import explain_attribute  # noqa: PLC0415

            message = f"an Agent has no '{name}'{explain_attribute(name)}"
            raise AttributeError(message, name=name, obj=self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugins", tuple(_read_list(self, "plugins")))
        object.__setattr__(self, "spec", _build_spec(self))
        object.__setattr__(self, "tools", tuple(_read_list(self, "tools")))
        object.__setattr__(self, "own_tools", _build_tools(self))
        given = list(self.own_tools.values())[: len(self.tools)]
        # Without the tools of delegates, so that `dataclasses.replace` makes them once.
        object.__setattr__(self, "tools", tuple(given))
        object.__setattr__(self, "output", _build_output(self))
        object.__setattr__(self, "context", _build_context(self))

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"

    @property
    def named_agents(self) -> "tuple[Agent[Any, Any], ...]":
        """The agents that it was given as objects: a runtime registers them with it."""
        return tuple(_find_agents((self.delegates, self.tools, self.plugins, self.config)))

    async def run(
        self,
        input: "Input",
        *,
        context: "ContextT | Mapping[str, Any] | None" = None,
        deps: Any = None,
        messages: "Sequence[Message]" = (),
        thread_id: str | None = None,
    ) -> "RunResult[OutputT]":
        """Run the agent once, by itself, in a runtime in memory; for scripts and notebooks.

        Args:
            input: A text, content blocks, or messages.
            context: The context of the run.
            deps: What tools find as `ctx.deps`; see `AgentRuntime`.
            messages: The conversation so far, with the assistant's turns.
            thread_id: What tools and traces know the conversation by; a new id unless given. The
                conversation itself ends with the run: an `AgentRuntime` keeps it.

        Raises:
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The agent or the request cannot be served.
        """
        async with _make_runtime(self, deps) as runtime:
            result: RunResult[OutputT] = await runtime.run(
                self, input, context=context, messages=messages, thread_id=thread_id
            )
            return result

    def run_sync(
        self,
        input: "Input",
        *,
        context: "ContextT | Mapping[str, Any] | None" = None,
        deps: Any = None,
        messages: "Sequence[Message]" = (),
        thread_id: str | None = None,
    ) -> "RunResult[OutputT]":
        """Run the agent once, as `run` does, from code without an event loop.

        Raises:
            Misuse: An event loop runs here: `await agent.run(…)`.
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The agent or the request cannot be served.
        """
        import asyncio  # noqa: PLC0415 - a process that only declares agents does not need it

        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - does not raise
            raise Misuse("An event loop runs here: use `await agent.run(…)`.")
        result: RunResult[OutputT] = _make_runtime(self, deps).run_sync(
            self, input, context=context, messages=messages, thread_id=thread_id
        )
        return result

    async def stream_text(
        self,
        input: "Input",
        *,
        context: "ContextT | Mapping[str, Any] | None" = None,
        deps: Any = None,
        messages: "Sequence[Message]" = (),
        thread_id: str | None = None,
    ) -> "AsyncGenerator[str, None]":
        """Run the agent once, as `run` does, and yield the text of its answers while they come.

        An answer that an output type or a validator can refuse is yielded when it is accepted.
        `AgentRuntime.stream_text` has the result of the run as well.

        Raises:
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The agent or the request cannot be served.
        """
        async with _make_runtime(self, deps) as runtime:
            texts = runtime.stream_text(
                self, input, context=context, messages=messages, thread_id=thread_id
            )
            try:
                async for text in texts:
                    yield text
            finally:
                await texts.aclose()


def _find_agents(value: Any) -> "Iterator[Agent[Any, Any]]":
    """The agents among values and in what they name, such as rules in a section."""
    if isinstance(value, Agent):
        yield value
    elif isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        for it in value.values() if isinstance(value, Mapping) else value:
            yield from _find_agents(it)
    elif not isinstance(value, type):
        yield from _find_agents(tuple(getattr(value, "named_agents", ())))


def _make_runtime(agent: Agent, deps: Any) -> Any:
    # By name: the runtime is composed above this layer, and an agent that is only declared, or
    # that runs in a runtime of its program, never reaches up to it.
    composed = importlib.import_module("awaken.bootstrap.agent_runtime")
    return composed.AgentRuntime([agent], deps=deps)


_declare = Agent.__init__


@functools.wraps(_declare)
def _explain_fields(self: Any, *given: Any, **fields: Any) -> None:
    """Make an agent; a field that it does not have is refused with the name of the right one."""
    try:
        _declare(self, *given, **fields)
    except TypeError as error:
        from .other_frameworks import explain_fields  # noqa: PLC0415 - for such an error only

        if (problem := explain_fields(fields, inspect.signature(_declare))) is None:
            raise
        name = given[0] if given else fields.get("id", fields.get("name", ""))
        raise InvalidSpec(what=f"agent {name!r}", problem=problem) from error


Agent.__init__ = _explain_fields  # type: ignore[method-assign]


def _build_spec(agent: Agent) -> AgentSpec:
    for name in ("max_rounds", "max_continuation_retries"):
        limit = getattr(agent, name)
        if isinstance(limit, int) and limit < 0:
            _refuse(agent, name, "it must not be negative")
    fields = {
        "id": agent.id,
        "model_id": _model_id(agent),
        "system_prompt": _read_text(agent),
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


def _read_text(agent: Agent) -> Any:
    """Return instructions that are a text; those of a function are made for each run."""
    made = agent.instructions
    if isinstance(made, str) or not callable(made):
        return made
    if agent.endpoint is not None:
        _refuse(agent, "instructions", "it executes at its endpoint, with instructions of its own")
    # Most agents have neither a function nor validators nor a context type: the modules of these
    # are loaded by the agents that do.
    from .instructions import find_function_problem  # noqa: PLC0415

    if problem := find_function_problem(made):
        _refuse(agent, "instructions", problem)
    return ""


def _model_id(agent: Agent) -> str:
    model: Any = agent.model
    if agent.endpoint is not None and model != "":
        _refuse(agent, "model", "it executes at its endpoint, with a model of its own; name none")
    if isinstance(model, ModelSpec | ModelPool):
        return model.id
    if isinstance(model, str):
        is_named = bool(model.strip()) or (not model and agent.endpoint is not None)
        if is_named:
            return model
        hint = f"; write Agent('name', model={agent.id!r})" if ":" in str(agent.id) else ""
        _refuse(agent, "model", f"it is blank; give it model='provider:model'{hint}")
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
    plain = (it for it in agent.delegates if not hasattr(it, "delegates_to"))
    named = (it.id if isinstance(it, Agent) else it for it in plain)
    return (*named, *dict.fromkeys(it for it in typed if it is not None))


def _encode_sections(agent: Agent) -> dict[str, Any]:
    sections = agent.config if isinstance(agent.config, Mapping) else _name_sections(agent)
    try:
        return {
            name: msgspec.to_builtins(name_agents(section), str_keys=True, enc_hook=encode_model)
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
    typed: list[Any] = [it for it in agent.delegates if hasattr(it, "delegates_to")]
    for candidate in (*agent.tools, *typed):
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
    retries = agent.output_retries
    if retries is not None and (type(retries) is not int or retries < 0):
        _refuse(agent, "output_retries", "pass a whole number, 0 or more")
    given = _read_list(agent, "output_validators")
    validators: tuple[BoundValidator, ...] = ()
    if given:
        from .validators import bind_validators  # noqa: PLC0415 - see `_read_text`

        try:
            validators = bind_validators(given)
        except InvalidSpec as error:
            _refuse(agent, "output_validators", str(error).rstrip("."), error)
    type_ = agent.output_type
    if type_ is None and not validators:
        return None
    try:
        return OutputType(str if type_ is None else type_, validators, retries)
    except InvalidSpec as error:
        _refuse(agent, "output_type", error.problem, error)


def _build_context(agent: Agent) -> "ContextType | None":
    given: Any = agent.context_type
    tools = [it for it in agent.own_tools.values() if getattr(it, "context_type", None) is not None]
    if tools:
        from .run_contexts import find_context_problem  # noqa: PLC0415 - see `_read_text`

        if problem := find_context_problem(given, tools):
            _refuse(agent, "context_type", problem)
    if given is None:
        return None
    from .run_contexts import ContextType  # noqa: PLC0415 - see `_read_text`

    if isinstance(agent.instructions, str) and "{context." in agent.instructions:
        from .instructions import find_placeholder_problem  # noqa: PLC0415 - see `_read_text`

        if problem := find_placeholder_problem(agent.instructions, given):
            _refuse(agent, "instructions", problem)
    try:
        return ContextType(given)
    except InvalidSpec as error:
        _refuse(agent, "context_type", error.problem, error)


def _read_list(agent: Agent, name: str) -> Sequence[Any]:
    values = getattr(agent, name)
    if isinstance(values, str) or not isinstance(values, Sequence):
        _refuse(agent, name, f"pass a list, {name}=[…]")
    return values


def _refuse(agent: Agent, name: str, problem: str, error: Exception | None = None) -> NoReturn:
    what = f"agent {agent.id!r}" if name in ("", "id") else f"agent {agent.id!r}: field '{name}'"
    raise InvalidSpec(what=what, problem=problem) from error
