"""The plugin: a catalog for the model, three tools, and a task that rescans the folders."""

import asyncio
import logging
import math
import os
from collections.abc import Mapping, Sequence

from awaken.contracts.errors import InvalidPluginConfig, InvalidSpec, KeyCodecError
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import ConfigSection, Plugin, PluginHost, PluginRegistrar
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.skills import Skill, SkillSource
from awaken.contracts.tools.tool import ToolDescriptor

from .activation import skill_tool
from .config import SECTION, SkillsConfig
from .folders import FolderSkills
from .hooks import AgentSkills, before_inference
from .library import SkillLibrary
from .resources import resource_tool
from .sandbox import Sandbox
from .scripts import script_tool
from .state import ACTIVE_SKILLS, FORKS

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 5.0


class SkillsPlugin(Plugin):
    """Offers the skills of folders and other sources to an agent's model.

    Folders are scanned every `refresh_s` seconds while the runtime is open.

    Raises:
        InvalidSpec: There is neither a folder nor a source, one of them is invalid or missing,
            two of them have the same skill, or `refresh_s` is not a positive number.
    """

    name = "skills"

    def __init__(
        self,
        *roots: str | os.PathLike[str],
        sources: Sequence[SkillSource] = (),
        refresh_s: float = REFRESH_SECONDS,
    ) -> None:
        _check(roots, sources, refresh_s)
        self._refresh_s: float | None = refresh_s
        self._use(SkillLibrary([*map(FolderSkills, roots), *sources]))

    def _use(self, library: SkillLibrary) -> None:
        self._library = library
        self._refreshing: asyncio.Task[None] | None = None
        self._tools = (
            skill_tool(self._library),
            resource_tool(self._library),
            script_tool(self._library, Sandbox()),
        )

    def with_source(self, source: SkillSource) -> "SkillsPlugin":
        """Return a plugin with one more source; this one goes on to scan their common folders.

        Raises:
            InvalidSpec: A skill of the source is already in another one.
        """
        return _ExtendedSkillsPlugin(self._library.with_source(source))

    @property
    def skills(self) -> tuple[Skill, ...]:
        """Every skill of every source, by name."""
        return tuple(entry.skill for entry in self._library.snapshot().entries.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """Current problems; these skills are not offered, or in their last valid version."""
        return self._library.problems

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the state keys, the tools and the hook that adds the catalog."""
        registrar.key(ACTIVE_SKILLS)
        registrar.key(FORKS)
        for tool in self._tools:
            registrar.tool(tool)
        registrar.hook(Phase.BEFORE_INFERENCE, before_inference)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `skills`."""
        return (ConfigSection.of(SECTION, SkillsConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> AgentSkills:
        """Check the section, and that `fork_agent` is a delegate."""
        try:
            config = agent.config(SECTION, SkillsConfig)
        except KeyCodecError as error:
            raise _config_error(agent, str(error)) from error
        if config.fork_agent is not None and config.fork_agent not in agent.delegates:
            raise _config_error(agent, f"fork_agent '{config.fork_agent}' is none of its delegates")
        return AgentSkills(self._library, config, agent)

    def list_warnings(self, agent: AgentSpec) -> Sequence[str]:
        """Names in the section that no skill has."""
        config = agent.config(SECTION, SkillsConfig)
        unknown = self._library.find_unknown((*(config.allowed or ()), *config.excluded))
        return [f"section 'skills' names '{name}', which is not a skill here" for name in unknown]

    async def open(self, host: PluginHost) -> None:
        """Start to rescan the folders."""
        if self._refreshing is None and self._refresh_s is not None:
            work = self._refresh_forever(self._refresh_s)
            self._refreshing = asyncio.create_task(work, name="skills-refresh")

    async def close(self) -> None:
        """Stop the rescanning."""
        task, self._refreshing = self._refreshing, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def refresh(self) -> bool:
        """Scan the folders now; return whether something has changed."""
        return await asyncio.to_thread(self._library.scan)

    async def _refresh_forever(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self.refresh()
            except Exception:
                # The skills stay as they were; the next scan may succeed.
                logger.exception("skills: the folders could not be scanned")


class _ExtendedSkillsPlugin(SkillsPlugin):
    """Shares its folders with the plugin that it was made from, which scans them."""

    def __init__(self, library: SkillLibrary) -> None:
        self._refresh_s = None
        self._use(library)


def _check(roots: Sequence[object], sources: object, refresh_s: object) -> None:
    problem = None
    if strange := [it for it in roots if not isinstance(it, str | os.PathLike)]:
        problem = f"a folder is a path, not {type(strange[0]).__name__}"
    elif not isinstance(sources, Sequence) or isinstance(sources, str):
        problem = f"sources is a list, not {type(sources).__name__}"
    elif strange := [it for it in sources if not isinstance(it, SkillSource)]:
        problem = f"a source is a SkillSource such as StaticSkills, not {type(strange[0]).__name__}"
    elif not _is_time(refresh_s):
        problem = f"refresh_s is a number of seconds above 0, not {refresh_s!r}"
    if problem is not None:
        raise InvalidSpec(what="SkillsPlugin", problem=problem)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


def _config_error(agent: AgentSpec, problem: str) -> InvalidPluginConfig:
    return InvalidPluginConfig(section=SECTION, agent_id=agent.id, problem=problem)
