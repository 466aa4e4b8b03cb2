"""Plugins that a configuration needs: installed ones, MCP servers, remote registries and skills."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Protocol

from awaken.bootstrap.plugins import load_installed_plugins
from awaken.contracts.config.specs import ManagedSkill
from awaken.contracts.errors import AwakenError
from awaken.contracts.plugins.plugin import Plugin
from awaken.extensions.mcp import McpPlugin, McpServer
from awaken.extensions.mcp.catalog import component
from awaken.extensions.mcp.config import check
from awaken.extensions.skills import SkillsConfig, SkillsPlugin
from awaken.extensions.skills.managed_skills import ManagedSkills

from .build import LayerBuild

MCP, SKILLS = McpPlugin.name, SkillsPlugin.name


class PluginOpener(Protocol):
    """Opens plugins while the runtime runs, and closes those that no snapshot uses."""

    async def ensure(self, plugins: Iterable[Plugin]) -> None:
        """Open those that are not open.

        Raises:
            PluginFailed: One could not be opened, and is closed.
        """
        ...

    async def release(self, plugins: Iterable[Plugin]) -> None:
        """Close those that no snapshot uses."""
        ...


class PluginShelf:
    """The plugins that configurations have needed so far; each is made once."""

    def __init__(self, opener: PluginOpener) -> None:
        self._opener = opener
        self._made: dict[object, Plugin] = {}

    async def add_plugins(self, build: LayerBuild) -> None:
        """Make and open what agents name and the code does not have."""
        self._add_servers(build)
        self._add_skills(build)
        known = {**build.code.registries.plugins, **build.plugins}
        for name in {name for name, _ in _list_wanted(build)} - known.keys():
            try:
                plugin = self._made.get(name) or await _find_installed(name)
            except AwakenError as error:
                _refuse_agents(build, name, str(error))
                continue
            if plugin is None:
                message = f"No plugin '{name}' is known."
                _refuse_agents(build, name, message, "unknown_reference", {*known})
            else:
                self._made[name] = build.plugins[name] = plugin
        for name, plugin in [*build.plugins.items()]:
            await self._open(build, name, plugin)

    async def release_unused(self, used: Iterable[Plugin]) -> None:
        """Close plugins that neither a snapshot nor one of these compilations uses."""
        kept = {id(plugin) for plugin in used}
        unused = {key: it for key, it in self._made.items() if id(it) not in kept}
        self._made = {key: it for key, it in self._made.items() if key not in unused}
        await self._opener.release(unused.values())

    async def _open(self, build: LayerBuild, name: str, plugin: Plugin) -> None:
        try:
            await self._opener.ensure((plugin,))
        except AwakenError as error:
            del build.plugins[name]
            _refuse_agents(build, name, str(error))
            if name == MCP:
                for server in build.records("mcp-servers"):
                    build.refuse_error(f"mcp-servers/{server}", error)

    def _add_servers(self, build: LayerBuild) -> None:
        found = build.code.registries.plugins.get(MCP)
        servers = _check_servers(build)
        is_named = any(name == MCP for name, _ in _list_wanted(build))
        if found is None and (servers or is_named):
            found = self._made.setdefault(MCP, McpPlugin(()))
            build.plugins[MCP] = found
        if isinstance(found, McpPlugin):
            found.expect(servers)
            declared = build.code.records["mcp-servers"]
            extra = {it.name for it in found.servers()} - declared.keys()
            build.has_managed_servers = bool(servers or extra)
        elif found is not None:
            for server in servers:
                message = "The runtime's plugin 'mcp' is another one, and takes no servers."
                build.refuse(f"mcp-servers/{server}", "unsupported", message)

    def _add_skills(self, build: LayerBuild) -> None:
        found, records = build.code.registries.plugins.get(SKILLS), build.records("skills")
        is_named = any(name == SKILLS for name, _ in _list_wanted(build))
        if not records and (found is not None or not is_named):
            return
        if found is not None and not isinstance(found, SkillsPlugin):
            for name in records:
                message = "The runtime's plugin 'skills' is another one, and takes no skills."
                build.refuse(f"skills/{name}", "unsupported", message)
            return
        key = (SKILLS, *((name, it.hash) for name, it in sorted(records.items())))
        if key not in self._made:
            specs: list[ManagedSkill] = [it.spec for it in records.values()]
            skills = tuple(it.spec.as_skill(it.hash) for it in records.values())
            try:
                source = ManagedSkills(skills, {it.id: it.files for it in specs})
                made = found.with_source(source) if found else SkillsPlugin(sources=[source])
            except AwakenError as error:
                for name in records:
                    build.refuse_error(f"skills/{name}", error)
                return
            self._made[key] = made
        build.plugins[SKILLS] = self._made[key]
        _warn_of_unseen(build)


async def _find_installed(name: str) -> Plugin | None:
    # Reading the metadata of packages, and importing one, takes a while.
    found = await asyncio.to_thread(load_installed_plugins, (name,), {}, ())
    return found.get(name)


def _list_wanted(build: LayerBuild) -> Iterator[tuple[str, str]]:
    """Every plugin that an agent names and does not bring along, with the agent's id."""
    sources = build.code.registries.agents
    for agent_id, record in build.candidates("agents").items():
        base = sources.get(agent_id)
        own = {plugin.name for plugin in base.plugins} if base is not None else set()
        for name in record.spec.plugin_ids:
            if name not in own:
                yield name, agent_id


def _refuse_agents(
    build: LayerBuild,
    plugin: str,
    message: str,
    code: str = "plugin_failed",
    known: Iterable[str] = (),
) -> None:
    names = [*known]
    for name, agent_id in [*_list_wanted(build)]:
        if name == plugin:
            at = build.config.records["agents"][agent_id].spec.plugin_ids.index(name)
            build.refuse(f"agents/{agent_id}/plugin_ids/{at}", code, message, names)


def _check_servers(build: LayerBuild) -> tuple[str, ...]:
    """The usable servers of the configuration; tool ids must tell them apart."""
    taken = {component(name): name for name in build.code.records["mcp-servers"]}
    found: list[str] = []
    for name, record in build.records("mcp-servers").items():
        server: McpServer = record.spec
        try:
            check(server)
        except AwakenError as error:
            build.refuse_error(f"mcp-servers/{name}", error)
            continue
        if (other := taken.setdefault(component(name), name)) != name:
            message = f"Its tools would have the ids of those of '{other}': rename it."
            build.refuse(f"mcp-servers/{name}", "duplicate_id", message)
            continue
        found.append(name)
    return tuple(found)


def check_remotes(build: LayerBuild) -> None:
    """Refuse remote registries that have the name of the local one."""
    local_name = build.code.registries.local_name
    if local_name in build.records("a2a-servers"):
        message = f"'{local_name}' is the name of this runtime's own agents."
        build.refuse(f"a2a-servers/{local_name}", "reserved", message)


def _warn_of_unseen(build: LayerBuild) -> None:
    """Warn of skills that no agent can see."""
    everywhere = build.code.registries.everywhere
    code = {name: it.spec for name, it in build.code.registries.agents.items()}
    specs = {**code, **{name: it.spec for name, it in build.records("agents").items()}}
    readers = []
    for spec in specs.values():
        if SKILLS in (*spec.plugin_ids, *everywhere):
            try:
                readers.append(spec.config(SKILLS, SkillsConfig))
            except AwakenError:
                # The agent is refused for it when it is resolved.
                continue
    for name in build.records("skills"):
        if not any(config.permits(name) for config in readers):
            build.warn(f"skills/{name}", "unseen_skill", f"No agent can see the skill '{name}'.")
