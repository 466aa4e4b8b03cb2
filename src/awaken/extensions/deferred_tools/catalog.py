"""The result of `prepare`: which tools of an agent are deferred, and what each of them costs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from awaken.contracts.errors import InvalidPluginConfig
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.patterns import PatternError, compile_tool_glob

from .config import SECTION, TOOL_SEARCH, DeferredToolsConfig, LoadMode

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class DeferredTool:
    """A tool that the configuration defers."""

    descriptor: ToolDescriptor
    saving: float
    """Tokens that a request saves when it contains only the tool's id."""
    words: str
    """The text that a search matches, in lower case."""


@dataclass(frozen=True, slots=True)
class DeferredCatalog:
    """The deferred tools of one agent, computed once for all its runs."""

    config: DeferredToolsConfig
    tools: Mapping[str, DeferredTool]
    """By id, in the order of the ids; empty when nothing is deferred."""
    has_search: bool

    @property
    def is_on(self) -> bool:
        """Whether any tool is deferred."""
        return bool(self.tools)


def catalog_of(agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> DeferredCatalog:
    """Compile an agent's section and its tools.

    Raises:
        InvalidPluginConfig: A rule is not a glob, or tools would be deferred although the agent
            has no `ToolSearch`.
    """
    config = agent.config(SECTION, DeferredToolsConfig)
    has_search = TOOL_SEARCH in tools
    if not has_search and config.enabled:
        raise _config_error(
            agent, f"the agent may not use '{TOOL_SEARCH}'; allow it, or disable this"
        )
    try:
        deferred = _select_deferred(config, tools)
    except PatternError as error:
        raise _config_error(agent, str(error).removesuffix(".")) from error
    saving = sum(tool.saving for tool in deferred.values())
    is_on = saving > config.beta_overhead if config.enabled is None else config.enabled
    is_on = is_on and has_search
    return DeferredCatalog(config=config, tools=deferred if is_on else {}, has_search=has_search)


def match_tools(pattern: str, tool_ids: Iterable[str]) -> frozenset[str]:
    """The ids that equal the pattern or match it as a glob.

    Raises:
        PatternError: It is not a glob.
    """
    fits = compile_tool_glob(pattern)
    return frozenset(it for it in tool_ids if it == pattern or fits(it))


def _config_error(agent: AgentSpec, problem: str) -> InvalidPluginConfig:
    return InvalidPluginConfig(section=SECTION, agent_id=agent.id, problem=problem)


def _select_deferred(
    config: DeferredToolsConfig, tools: Mapping[str, ToolDescriptor]
) -> dict[str, DeferredTool]:
    modes = dict.fromkeys(tools, config.default_mode)
    # The first matching rule decides, so the rules are applied in reverse.
    for rule in reversed(config.rules):
        modes.update(dict.fromkeys(match_tools(rule.tool, tools), rule.mode))
    modes[TOOL_SEARCH] = LoadMode.EAGER
    return {
        tool_id: _build_deferred_tool(tools[tool_id])
        for tool_id in sorted(tools)
        if modes[tool_id] is LoadMode.DEFERRED
    }


def _build_deferred_tool(tool: ToolDescriptor) -> DeferredTool:
    name = tool.name or tool.id
    schema_characters = len(msgspec.json.encode(tool.parameters).decode())
    whole = max(10, schema_characters / CHARACTERS_PER_TOKEN)
    listed = max(1, len(name) / CHARACTERS_PER_TOKEN)
    return DeferredTool(
        descriptor=tool,
        saving=max(0.0, whole - listed),
        words=f"{tool.id} {name} {tool.description}".lower(),
    )
