"""The plugin: four tools, facts at the start of a run, and learning after its end."""

from collections.abc import Mapping, Sequence

import msgspec

from awaken.contracts.errors import InvalidPluginConfig, InvalidSpec, KeyCodecError, Misuse
from awaken.contracts.memory.access import MemoryAccess
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import (
    PRIVATE_CONTEXT,
    TOOL_FILTER,
    RemoveContext,
    ToolFilter,
)
from awaken.contracts.plugins.plugin import (
    AfterRunContext,
    BeforeInferenceContext,
    ConfigSection,
    Plugin,
    PluginHost,
    PluginRegistrar,
    RunStartContext,
)
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import ToolDescriptor

from .config import SECTION, MemoryConfig
from .extraction import extract_facts, wants_extraction
from .injection import (
    CONTEXT_KEY,
    IS_INJECTED,
    TOLD_FACTS,
    decide_injection,
    repeat_injection,
)
from .tools import SEARCH, make_tools

_HIDE_SEARCH = StateCommand().update(TOOL_FILTER, ToolFilter(excluded=(SEARCH,)))


class MemoryPlugin(Plugin):
    """Remembers facts about users and projects across conversations, and searches documents.

    The section `memory` of an agent overrides `config`. Facts belong to the tenant and the user of
    the run. Memory is that of the runtime's store, or `memory` if it is given.

    Raises:
        InvalidSpec: The configuration is not a `MemoryConfig`.
    """

    name = "memory"

    def __init__(
        self, config: MemoryConfig | None = None, *, memory: MemoryAccess | None = None
    ) -> None:
        if config is not None and not isinstance(config, MemoryConfig):
            problem = f"its configuration is a MemoryConfig, not {type(config).__name__}"
            raise InvalidSpec(what="MemoryPlugin", problem=problem)
        self._config = config or MemoryConfig()
        self._given = memory
        self._host: PluginHost | None = None
        self._tools = make_tools(self._get_memory)

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the tools, the state keys, the hooks of a run, and the work after it."""
        registrar.key(IS_INJECTED)
        registrar.key(TOLD_FACTS)
        for tool in self._tools:
            registrar.tool(tool)
        registrar.hook(Phase.RUN_START, self._begin)
        registrar.observer(Phase.RUN_START, _make_durable)
        registrar.hook(Phase.BEFORE_INFERENCE, _hide_search)
        registrar.hook(Phase.BEFORE_INFERENCE, self._repeat)
        registrar.after_run(self._learn, is_wanted=wants_extraction)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `memory`."""
        return (ConfigSection.of(SECTION, MemoryConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> MemoryConfig:
        """Check the section; what it leaves out is as the plugin has it."""
        if SECTION not in agent.sections:
            return self._config
        try:
            agent.config(SECTION, MemoryConfig)
            given = dict(agent.sections[SECTION])
            return msgspec.structs.replace(
                self._config,
                **{
                    name: getattr(agent.config(SECTION, MemoryConfig), name)
                    for name in given
                    if name in MemoryConfig.__struct_fields__
                },
            )
        except KeyCodecError as error:
            raise InvalidPluginConfig(
                section=SECTION, agent_id=agent.id, problem=error.problem
            ) from error

    async def open(self, host: PluginHost) -> None:
        """Keep the way to the memory of the runtime; nothing is loaded before it is used."""
        self._host = host

    def on_deactivate(self) -> StateCommand:
        """Tell the facts to no other agent."""
        removed = StateCommand().update(PRIVATE_CONTEXT, RemoveContext(key=CONTEXT_KEY))
        return removed.clear(TOLD_FACTS)

    async def _begin(self, context: RunStartContext) -> StateCommand | None:
        return await decide_injection(self._get_memory().facts, context)

    async def _repeat(self, context: BeforeInferenceContext) -> StateCommand | None:
        return await repeat_injection(self._get_memory().facts, context)

    async def _learn(self, context: AfterRunContext) -> None:
        await extract_facts(self._get_memory().facts, context)

    def _get_memory(self) -> MemoryAccess:
        if self._given is not None:
            return self._given
        if self._host is None:
            message = "The plugin 'memory' is used before its runtime was opened."
            raise Misuse(message)
        return self._host.memory


async def _make_durable(_context: RunStartContext) -> None:
    """Do nothing: what a run is told is durable before an observer runs, and so before a model."""


async def _hide_search(context: BeforeInferenceContext) -> StateCommand | None:
    """Offer the search of documents only to agents that have collections."""
    config: MemoryConfig = context.prepared
    return None if config.collections else _HIDE_SEARCH
