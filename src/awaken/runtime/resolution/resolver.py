"""The resolve pipeline: an agent's spec becomes something the loop can run."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from awaken.authoring.delegates import AgentTool, description_of
from awaken.authoring.frontend import FrontEndTool
from awaken.authoring.json_schemas import JsonSchema
from awaken.authoring.output import OutputType, SchemaOutput
from awaken.contracts.backends.backend import (
    FULL_CAPABILITIES,
    ExecutionBackend,
    ExecutionBackendFactory,
)
from awaken.contracts.backends.errors import InvalidBackendConfig
from awaken.contracts.errors import (
    DuplicateRegistration,
    InvalidInput,
    InvalidPluginConfig,
    InvalidSpec,
    PluginGivenTwice,
    UnknownAgent,
    UnknownDefaultAgent,
    UnknownReference,
)
from awaken.contracts.models.inference import InferenceOverride, ModelClient, ModelTool
from awaken.contracts.models.model_specs import ModelPool, RetryPolicy
from awaken.contracts.plugins.plugin import ConfigSection, Plugin
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.errors import FrontendToolConflict
from awaken.contracts.tools.tool import (
    Tool,
    ToolDescriptor,
    ToolInternalError,
    approval_of,
    check_of,
)
from awaken.runtime.plugins.environment import ExecutionEnv
from awaken.runtime.plugins.loop_actions import LoopActions
from awaken.runtime.stop_conditions import StopRules

from .backends import complete_backend
from .elsewhere import check_remote
from .models import ModelRoute, names, routes_of
from .registries import AgentSource, RegistrySet

if TYPE_CHECKING:
    from awaken.authoring.instructions import InstructionsMaker
    from awaken.authoring.run_contexts import ContextType
    from awaken.authoring.workflows import Workflow

_SECTIONS: dict[str, tuple[dict[str, Any], JsonSchema]] = {}
"""The compiled schemas of sections, each with the schema that it was compiled from."""
_SECTIONS_MAX = 256

DEFAULT_AGENT = "default"
"""The agent that runs if neither the request nor the thread names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAgent:
    """An agent that can run: everything looked up, compiled and checked."""

    spec: AgentSpec
    backend: ExecutionBackend
    models: tuple[ModelRoute, ...]
    """The agent's one model, or those of its pool."""
    system: tuple[str, ...]
    tools: Mapping[str, Tool]
    model_tools: tuple[ModelTool, ...]
    """Sorted by id, so that requests are byte-stable."""
    tool_ids: tuple[str, ...]
    env: ExecutionEnv
    stop_rules: StopRules
    retry: RetryPolicy
    pool: ModelPool | None = None
    overrides: InferenceOverride | None = None
    output: OutputType | None = None
    approvals: frozenset[str] = frozenset()
    """The tools that require an approval of their calls, or of some of them."""
    checks: frozenset[str] = frozenset()
    """The tools that check their arguments with a function of the application."""
    context: "ContextType | None" = None
    """The type of its runs' context; None: any JSON object."""
    instructions: "InstructionsMaker | None" = None
    """Makes `system` for each run; None if it is the same for all."""
    workflow: "Workflow | None" = None
    """The function of steps that its runs execute; None: its model answers."""
    diagnostics: tuple[str, ...] = ()
    """Warnings, such as about a pattern that matches nothing."""
    is_local: bool = field(init=False)
    """Whether its runs execute in the agent loop of this process."""
    upstream_model: str = field(init=False)
    """The first model's name at its provider; blank without a model."""
    is_limited: bool = field(init=False)
    """Whether its backend may be unable to serve some requests."""
    frame_digest: str = field(init=False, default="", compare=False)
    """The digest of what all its requests have in common; blank until its first request."""

    def __post_init__(self) -> None:
        """Compute once per agent what every turn needs."""
        object.__setattr__(self, "is_local", self.spec.endpoint is None)
        name = self.models[0].spec.upstream_model if self.models else ""
        object.__setattr__(self, "upstream_model", name)
        is_full = self.is_local and self.backend.capabilities() == FULL_CAPABILITIES
        object.__setattr__(self, "is_limited", not is_full)

    def keep_frame_digest(self, digest: str) -> None:
        """Keep the digest for later requests; what it covers never changes."""
        object.__setattr__(self, "frame_digest", digest)

    def with_clients(self, change: Callable[[ModelClient], ModelClient]) -> "ResolvedAgent":
        """Return the agent with every client of its models replaced."""
        routes = (replace(route, client=change(route.client)) for route in self.models)
        return replace(self, models=tuple(routes))

    def with_frontend_tools(self, descriptors: Iterable[ToolDescriptor]) -> "ResolvedAgent":
        """Return the agent with tools that the client executes.

        They replace tools of equal id only where the spec allows it; see `check_frontend_tools`.

        Raises:
            InvalidInput: One has no name, or its schema is invalid.
        """
        added = {descriptor.id: _frontend_tool(descriptor) for descriptor in descriptors}
        if not self.spec.frontend_tools_may_replace:
            added = {tool_id: it for tool_id, it in added.items() if tool_id not in self.tools}
        if not added:
            return self
        return self._with_tools({**self.tools, **added})

    def with_tools(self, tools: Iterable[Tool]) -> "ResolvedAgent":
        """Return the agent with more tools; its own tools win where ids are equal."""
        return self._with_tools({**{it.descriptor.id: it for it in tools}, **self.tools})

    def with_own_tools(self, tools: dict[str, Tool]) -> "ResolvedAgent":
        """Return the agent with these tools in place of its own."""
        return self._with_tools(tools)

    def _with_tools(self, tools: dict[str, Tool]) -> "ResolvedAgent":
        return replace(
            self,
            tools=tools,
            model_tools=_model_tools(tools),
            tool_ids=tuple(sorted(tools)),
            approvals=_list_tools_with(approval_of, tools),
            checks=_list_tools_with(check_of, tools),
        )

    def with_instructions(self, text: str) -> "ResolvedAgent":
        """Return the agent with the instructions of one run."""
        return replace(self, system=(text,) if text else ())

    def with_output(self, schema: dict[str, Any]) -> "ResolvedAgent":
        """Return the agent with the output schema of a request."""
        return replace(self, output=check_output(schema))


def check_output(schema: dict[str, Any]) -> SchemaOutput:
    """The output type of a request's schema.

    Raises:
        InvalidInput: It is not a valid schema.
    """
    try:
        return SchemaOutput(schema)
    except InvalidSpec as error:
        raise InvalidInput(what="output_schema", problem=str(error)) from error


def check_frontend_tools(agent: ResolvedAgent, descriptors: Iterable[ToolDescriptor]) -> None:
    """Refuse a client's tool that would replace one that the agent executes itself.

    A tool that the agent leaves to clients anyway keeps the agent's description.

    Raises:
        FrontendToolConflict: There is such a tool, and the spec does not allow it.
    """
    if agent.spec.frontend_tools_may_replace:
        return
    for descriptor in descriptors:
        known = agent.tools.get(descriptor.id)
        if known is not None and not isinstance(known, FrontEndTool):
            raise FrontendToolConflict(tool_name=descriptor.id, agent_id=agent.spec.id)


def resolve(registries: RegistrySet, agent_id: str) -> ResolvedAgent:
    """Resolve one agent.

    Raises:
        UnknownAgent: It is not registered.
        UnknownReference: It names a provider, plugin, agent or backend that is not registered.
        InvalidPluginConfig: A config section does not fit its plugin's schema.
        DuplicateRegistration: Two tools have one id.
        InvalidSpec: It executes at an endpoint, and has settings that only work locally.
    """
    source = registries.agents.get(agent_id)
    if source is None:
        raise _unknown_agent(agent_id, names(registries.agents))
    spec = source.spec
    check_remote(source)
    has_model = spec.endpoint is None and source.workflow is None
    models, pool = routes_of(registries, source) if has_model else ((), None)
    plugins = _plugins(registries, source)
    _check_sections(registries, spec, (LoopActions(), *plugins))
    _check_agents(registries, f"Agent '{spec.id}'", spec.delegates)
    env = ExecutionEnv.compile(
        plugins,
        active=spec.active_hook_filter,
        everywhere=registries.everywhere,
        runtime_owned=(LoopActions(),),
    )
    tools, diagnostics = _tools(registries, source, env)
    env.prepare(spec, tools)
    effort = spec.reasoning_effort
    return ResolvedAgent(
        spec=spec,
        backend=_backend(registries, spec),
        models=models,
        pool=pool,
        system=(spec.system_prompt,) if spec.system_prompt else (),
        tools=tools,
        model_tools=_model_tools(tools),
        tool_ids=tuple(sorted(tools)),
        env=env,
        stop_rules=StopRules.of(spec),
        overrides=InferenceOverride(reasoning_effort=effort) if effort is not None else None,
        output=source.output,
        approvals=_list_tools_with(approval_of, tools),
        checks=_list_tools_with(check_of, tools),
        context=source.context,
        instructions=_find_maker(source),
        workflow=source.workflow,
        retry=spec.config("retry", RetryPolicy),
        diagnostics=(*diagnostics, *_oddities(registries, spec, plugins)),
    )


def _find_maker(source: AgentSource) -> "InstructionsMaker | None":
    """Return what makes the agent's instructions for each run, if they are not the same for all."""
    if source.instructions is None and "{context." not in source.spec.system_prompt:
        return None
    # Loaded by the first such agent: most programs have none.
    from awaken.authoring.instructions import find_maker  # noqa: PLC0415

    return find_maker(source.spec, source.instructions)


def _frontend_tool(descriptor: ToolDescriptor) -> FrontEndTool:
    what = f"Frontend tool '{descriptor.id}'"
    if not descriptor.id.strip():
        raise InvalidInput(what=what, problem="its name is blank")
    try:
        return FrontEndTool(descriptor)
    except ToolInternalError as error:
        problem = error.message.removesuffix(".")
        raise InvalidInput(what=what, problem=problem) from error


def _unknown_agent(agent_id: str, known: str) -> UnknownAgent:
    if agent_id != DEFAULT_AGENT:
        return UnknownAgent(agent_id=agent_id, known=known)
    return UnknownDefaultAgent(agent_id=agent_id, known=known)


def _plugins(registries: RegistrySet, source: AgentSource) -> tuple[Plugin, ...]:
    own = {plugin.name: plugin for plugin in source.plugins}
    found = []
    for plugin_id in dict.fromkeys((*registries.everywhere, *source.spec.plugin_ids)):
        if plugin_id in own and plugin_id in registries.everywhere:
            raise PluginGivenTwice(kind="Plugin", name=plugin_id, agent_id=source.spec.id)
        plugin = own.get(plugin_id) or registries.plugins.get(plugin_id)
        if plugin is None:
            raise UnknownReference(
                owner=f"Agent '{source.spec.id}'",
                kind="plugin",
                name=plugin_id,
                known=names({**registries.plugins, **own}),
            )
        found.append(plugin)
    return tuple(found)


def _check_sections(registries: RegistrySet, spec: AgentSpec, plugins: Iterable[Plugin]) -> None:
    """Refuse a section that does not fit its plugin, or that no plugin of the agent reads."""
    declared = {section.name: section for plugin in plugins for section in plugin.config_sections()}
    for name, config in spec.sections.items():
        if name not in declared:
            problem = f"no plugin of the agent reads it; known sections: {names(declared)}"
            raise InvalidPluginConfig(section=name, agent_id=spec.id, problem=problem)
        violations = _compile_section(declared[name]).violations(config)
        if violations:
            problem = "; ".join(violations)
            raise InvalidPluginConfig(section=name, agent_id=spec.id, problem=problem)
        for agent_field in declared[name].agent_fields:
            owner = f"Section '{name}' of agent '{spec.id}'"
            _check_agents(registries, owner, _read_agents(config, agent_field))


def _compile_section(section: ConfigSection) -> JsonSchema:
    """Compile the schema of a section, once for all agents that have it."""
    known = _SECTIONS.get(section.name)
    if known is None or known[0] is not section.schema:
        made = JsonSchema(section.schema, what=f"schema of section '{section.name}'")
        _SECTIONS[section.name] = known = section.schema, made
        if len(_SECTIONS) > _SECTIONS_MAX:
            del _SECTIONS[next(iter(_SECTIONS))]
    return known[1]


def _check_agents(registries: RegistrySet, owner: str, agents: Iterable[str]) -> None:
    for name in agents:
        if not registries.is_open and not registries.knows(name):
            raise UnknownReference(
                owner=owner, kind="agent", name=name, known=names(registries.agents)
            )


def unknown_agents(registries: RegistrySet, agent_id: str) -> tuple[str, ...]:
    """The agents that an agent names and that are not registered.

    Raises:
        UnknownReference: It names a plugin that is not registered.
    """
    named = named_agents(registries, registries.name_of(agent_id))
    return tuple(name for name in named if not registries.knows(name))


def named_agents(registries: RegistrySet, agent_id: str) -> tuple[str, ...]:
    """The agents that an agent names as delegates or in a section of its plugins.

    Raises:
        UnknownReference: It names a plugin that is not registered.
    """
    source = registries.agents.get(agent_id)
    if source is None or not (source.spec.delegates or source.spec.sections):
        return ()
    named = [*source.spec.delegates]
    for plugin in _plugins(registries, source):
        for section in plugin.config_sections():
            config = source.spec.sections.get(section.name, {})
            for agent_field in section.agent_fields:
                named += _read_agents(config, agent_field)
    return tuple(dict.fromkeys(named))


def _read_agents(config: Any, agent_field: str) -> list[str]:
    """The agents in a field of a section: a list of them, or `rules.agent`, one in each rule.

    A value that does not fit the section's schema is refused at resolution.
    """
    name, _, inner = agent_field.partition(".")
    found = config.get(name) if isinstance(config, Mapping) else None
    listed = found if isinstance(found, list | tuple) else ()
    if inner:
        listed = [it.get(inner) for it in listed if isinstance(it, Mapping)]
    return [it for it in listed if isinstance(it, str)]


def _oddities(registries: RegistrySet, spec: AgentSpec, plugins: Iterable[Plugin]) -> Iterator[str]:
    asked = Counter(map(registries.name_of, spec.delegates))
    if spec.id in asked:
        yield f"Agent '{spec.id}': it is its own delegate, but an agent cannot delegate to itself."
    for name, times in asked.items():
        if times > 1:
            yield f"Agent '{spec.id}': delegate '{name}' is listed {times} times."
    for plugin in plugins:
        for oddity in plugin.list_warnings(spec):
            yield f"Agent '{spec.id}': {oddity}."


def _tools(
    registries: RegistrySet, source: AgentSource, env: ExecutionEnv
) -> tuple[Mapping[str, Tool], tuple[str, ...]]:
    offered: dict[str, Tool] = dict(registries.tools)
    for more in (_own_tools(registries, source), env.tools, _delegates(registries, source)):
        for tool_id, tool in more.items():
            if offered.setdefault(tool_id, tool) is not tool:
                raise DuplicateRegistration(kind="Tool", name=tool_id)
    spec = source.spec
    allowed, unmatched = match_patterns(offered, spec.allowed_tools)
    excluded, unmatched_too = match_patterns(offered, spec.excluded_tools or ())
    kept = {
        tool_id: tool
        for tool_id, tool in offered.items()
        if (spec.allowed_tools is None or tool_id in allowed) and tool_id not in excluded
    }
    for tool_id in registries.disabled_tools:
        kept.pop(tool_id, None)
    return kept, tuple(
        f"Agent '{spec.id}': tool pattern '{pattern}' matches nothing."
        for pattern in (*unmatched, *unmatched_too)
    )


@lru_cache(maxsize=1_024)
def _make_agent_tool(agent_id: str, description: str) -> AgentTool:
    # It has no state, and its description is made once for all agents that have it.
    return AgentTool(agent_id, description)


def _own_tools(registries: RegistrySet, source: AgentSource) -> Mapping[str, Tool]:
    """The agent's own tools, without delegates that its spec does not list any more."""
    if not any(map(_delegate_of, source.tools.values())):
        return source.tools
    listed = set(map(registries.name_of, source.spec.delegates))
    return {
        tool_id: tool
        for tool_id, tool in source.tools.items()
        if (asked := _delegate_of(tool)) is None or registries.name_of(asked) in listed
    }


def _delegate_of(tool: Tool) -> str | None:
    """The agent that a tool asks, if it is a `Delegate`; a tool that wraps one passes it on."""
    return getattr(tool, "delegates_to", None)


def _delegates(registries: RegistrySet, source: AgentSource) -> Mapping[str, Tool]:
    """A tool for each delegate of the agent that has no arguments of its own."""
    found: dict[str, Tool] = {}
    typed = {registries.name_of(it) for it in map(_delegate_of, source.tools.values()) if it}
    for name in dict.fromkeys(map(registries.name_of, source.spec.delegates)):
        if name in typed:
            continue
        asked = registries.agents[name].spec if name in registries.agents else None
        tool = _make_agent_tool(name, description_of(asked))
        if found.setdefault(tool.descriptor.id, tool) is not tool:
            raise DuplicateRegistration(kind="Tool", name=tool.descriptor.id)
    return found


def match_patterns(
    offered: Iterable[str], patterns: tuple[str, ...] | None
) -> tuple[set[str], list[str]]:
    """The tools that patterns match, and the patterns that match none."""
    if not patterns:
        return set(), []
    # Patterns run on RE2, which only an agent that has some must load.
    from awaken.patterns import compile_tool_glob  # noqa: PLC0415

    matched: set[str] = set()
    unmatched = []
    for pattern in patterns:
        hits = set(filter(compile_tool_glob(pattern), offered))
        matched |= hits
        if not hits:
            unmatched.append(pattern)
    return matched, unmatched


def _backend(registries: RegistrySet, spec: AgentSpec) -> ExecutionBackend:
    name = spec.endpoint.backend if spec.endpoint else "local"
    backend = registries.backends.get(name)
    if isinstance(backend, ExecutionBackendFactory):
        assert spec.endpoint is not None
        backend.validate(spec.endpoint)
        return _check_backend(name, backend.build(spec.endpoint))
    if backend is None:
        raise UnknownReference(
            owner=f"Agent '{spec.id}'",
            kind="backend",
            name=name,
            known=names(registries.backends),
        )
    return backend


def _check_backend(name: str, made: object) -> ExecutionBackend:
    backend = complete_backend(made)
    if backend is None:
        problem = (
            f"its factory built a {type(made).__name__}, which has neither execute_root nor "
            "execute_delegate"
        )
        raise InvalidBackendConfig(backend=name, problem=problem)
    return backend


def _list_tools_with(read: Callable[[Tool], Any], tools: Mapping[str, Tool]) -> frozenset[str]:
    return frozenset(it for it, tool in tools.items() if read(tool) is not None)


def _model_tools(tools: Mapping[str, Tool]) -> tuple[ModelTool, ...]:
    described = (tools[tool_id].descriptor for tool_id in sorted(tools))
    return tuple(
        ModelTool(id=d.id, description=d.description, parameters=d.parameters) for d in described
    )
