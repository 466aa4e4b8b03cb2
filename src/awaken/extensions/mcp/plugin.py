"""The plugin: the servers of one runtime, and the tools that each agent gets."""

import asyncio
import importlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from awaken.contracts import errors
from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.phases import Phase
from awaken.contracts.plugins import plugin as plugins
from awaken.contracts.plugins.loop_state import TOOL_FILTER, ToolFilter
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.skills import SkillSource
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.suspension.tickets import DecisionAction
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolError, ToolOutput

from .calls import perform_call
from .catalog import SERVER, McpTool, ServerOffers, build_exclusion, component
from .config import SECTION, McpConfig, McpServer, check
from .exchange import Json
from .offers import PromptSkills, resource_tools
from .questions import QUESTIONS
from .server import ConnectedServer
from .status import ServerState, ServerStatus

if TYPE_CHECKING:
    from awaken.outbound.oauth import Person

logger = logging.getLogger(__name__)

FIRST_TRY_S = 10
"""How long a runtime that starts waits for its servers."""


class McpPlugin(plugins.Plugin):
    """Gives agents the tools, prompts and resources of MCP servers.

    An unreachable server delays no run: its tools are absent or fail at once, and a background task
    tries to connect again.
    """

    name = SECTION

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock, self._jitter = clock or SystemClock(), jitter
        self._servers = {it.name: self._make_server(it) for it in _check_servers(servers)}
        self._expected: frozenset[str] = frozenset()
        """Servers that agents may name although they are not applied yet."""
        self._applying = asyncio.Lock()
        self._is_started = False
        self._host: plugins.PluginHost | None = None
        self._publishing = asyncio.Lock()
        self._offered: dict[str, tuple[Tool, ...]] = {}
        """The tools with which agents were last resolved, by server."""
        self._resource_tools = resource_tools(self._servers)
        self._skills = PromptSkills(self._servers)

    def register(self, registrar: plugins.PluginRegistrar) -> None:
        """Register the servers' tools; those that a section withholds are hidden and refused."""
        for tool in self.tools():
            registrar.tool(tool)
        registrar.key(QUESTIONS)
        registrar.hook(Phase.BEFORE_INFERENCE, _hide_withheld)
        registrar.gate(_refuse_withheld)
        registrar.observer(Phase.AFTER_TOOL_EXECUTE, self._decline_held_calls)

    def config_sections(self) -> Sequence[plugins.ConfigSection]:
        """The section `mcp`."""
        return (plugins.ConfigSection.of(SECTION, McpConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> frozenset[str]:
        """The tools of servers that the agent may not use.

        Raises:
            InvalidPluginConfig: Its section has a malformed glob, or names an unknown server.
        """
        try:
            config = agent.config(SECTION, McpConfig)
            for name in config.servers or ():
                if name not in self._expected:
                    self._server(name)
            is_withheld = build_exclusion(config)
        except (errors.UsageError, errors.KeyCodecError) as error:
            problem = str(error).rstrip(".")
            raise errors.InvalidPluginConfig(
                section=SECTION, agent_id=agent.id, problem=problem
            ) from error
        known = (it.descriptor for it in self.tools() if it.descriptor.id in tools)
        return frozenset(it.id for it in known if is_withheld(it.id, it.metadata.get(SERVER)))

    async def open(self, host: plugins.PluginHost) -> None:
        """Connect to all servers concurrently; no server can make this fail or take long.

        The tools of slower servers are offered as soon as they are connected.

        Raises:
            InvalidSpec: The extra `mcp` is not installed.
        """
        try:
            # Loading the SDK takes a while.
            await asyncio.to_thread(importlib.import_module, "awaken.extensions.mcp.sdk")
        except ImportError as error:
            problem = f"it needs the package `mcp`: pip install 'awaken[mcp]' ({error})"
            raise errors.InvalidSpec(what="Plugin 'mcp'", problem=problem) from error
        self._is_started = True
        servers = [*self._servers.values()]
        for server in servers:
            server.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TRY_S):
                await asyncio.gather(*(server.wait_for_first_try() for server in servers))
        self._host = host
        for server in servers:
            await self._publish(server)

    async def close(self) -> None:
        """Disconnect from all servers; no task, process or connection remains."""
        self._host, self._is_started = None, False
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def servers(self) -> tuple[McpServer, ...]:
        """The servers that it has now."""
        return tuple(server.config for server in self._servers.values())

    def expect(self, names: Iterable[str]) -> None:
        """Let agents name these servers, which `apply` will bring, besides those it has."""
        self._expected = self._expected.union(names)

    async def apply(self, servers: Iterable[McpServer]) -> None:
        """Have these servers and no others; waits for no connection.

        New servers start to connect, changed ones are replaced, and the others are closed. A run
        in progress calls the server that has the name now.

        Raises:
            InvalidSpec, DuplicateRegistration: A server cannot be accepted; nothing has changed.
        """
        wanted = {it.name: it for it in _check_servers(servers)}
        async with self._applying:
            kept = {it.name for it in self.servers() if wanted.get(it.name) == it}
            closed = [self._servers.pop(it.name) for it in self.servers() if it.name not in kept]
            added = [self._make_server(it) for name, it in wanted.items() if name not in kept]
            self._servers.update((it.config.name, it) for it in added)
            await asyncio.gather(*(server.close() for server in closed))
            await self._withdraw([it.config.name for it in closed if it.config.name not in wanted])
            if self._is_started:
                for server in added:
                    server.start()

    def tools(self) -> tuple[Tool, ...]:
        """The tools that agents get now."""
        offered = [tool for tools in self._offered.values() for tool in tools]
        has_resources = any(it.listing.has_resources for it in self._servers.values())
        return (*offered, *(self._resource_tools if has_resources else ()))

    def status(self) -> tuple[ServerStatus, ...]:
        """The status of every server."""
        return tuple(server.status() for server in self._servers.values())

    def skills(self) -> SkillSource:
        """The servers' prompts as skills named `mcp:<server>:<prompt>`."""
        return self._skills

    async def accept(self, server: str, tool: str) -> None:
        """Accept the current version of a drifted tool; `tool` is the server's name of it.

        Raises:
            UnknownReference: There is no such server, or no such drift.
        """
        await self._server(server).accept(tool)

    async def enable(self, server: str) -> None:
        """Connect to a server that is disabled or was given up; its count of attempts restarts.

        Raises:
            UnknownReference: There is no such server.
        """
        self._server(server).start(is_asked_for=True)

    async def disable(self, server: str) -> None:
        """Disconnect from a server until it is enabled again.

        Raises:
            UnknownReference: There is no such server.
        """
        await self._server(server).close()

    async def restart(self, server: str) -> None:
        """Disconnect from a server and begin to connect again; waits for no connection.

        Raises:
            UnknownReference: There is no such server.
        """
        connected = self._server(server)
        await connected.close()
        connected.start(is_asked_for=True)

    async def list_offers(self, server: str) -> ServerOffers:
        """List what a server offers; the caller bounds the time.

        The resources of a server that is not connected are left out.

        Raises:
            UnknownReference: There is no such server.
        """
        connected, resources = self._server(server), list[Json]()
        if connected.listing.has_resources:
            with suppress(ToolError):
                resources = await connected.get_session().resources()
        return ServerOffers(
            tools=connected.listing.tools,
            prompts=connected.listing.prompts,
            resources=tuple(resources),
        )

    async def login(self, server: str, person: "Person", redirect: str | None = None) -> None:
        """Have a person log in to a server, and store the login; the caller bounds the time.

        `person` is called with an address to open, and returns the query of the redirect, which
        leads to `redirect` or else to that of the `Login`. The plugin need not be open; an open
        runtime finds the login by itself.

        Raises:
            UnknownReference: There is no such server.
            InvalidSpec: It has no `Login`.
            AwakenError: The login failed. A server that needs no login is no failure.
        """
        await self._server(server).login(person, redirect)

    async def wait_for_state(self, server: str, state: ServerState = ServerState.CONNECTED) -> None:
        """Wait until a server is in a state; the caller bounds the time.

        Raises:
            UnknownReference: There is no such server.
        """
        await self._server(server).wait_for_state(state)

    def _server(self, name: str) -> ConnectedServer:
        if name not in self._servers:
            known = ", ".join(self._servers) or "none"
            raise errors.UnknownReference(owner="mcp", kind="MCP server", name=name, known=known)
        return self._servers[name]

    def _make_server(self, config: McpServer) -> ConnectedServer:
        return ConnectedServer(config, self._clock, self._jitter, self._publish, self._call)

    async def _call(
        self, server: ConnectedServer, tool: McpTool, arguments: Json, context: ToolContext
    ) -> ToolOutput:
        """Call a tool at the server that has the name of its own now, which may be another."""
        current = self._servers.get(server.config.name, server)
        return await perform_call(current, tool, arguments, context)

    async def _withdraw(self, names: Iterable[str]) -> None:
        """Resolve the agents without the tools of servers that are gone."""
        async with self._publishing:
            offered = [self._offered.pop(name) for name in names if name in self._offered]
            if not any(offered) or self._host is None:
                return
            try:
                await self._host.renew()
            except errors.AwakenError:
                # The calls of these tools fail, as those of any server that is not there.
                logger.exception("mcp: agents cannot be resolved without the tools of a server")

    async def _publish(self, server: ConnectedServer) -> None:
        """Resolve the agents with the current tools of a server; on failure nothing changes."""
        name = server.config.name
        # One server at a time: a failure is that of the server whose tools are new.
        async with self._publishing:
            if self._servers.get(name) is not server:
                return
            offered, before = server.catalog.usable_tools, self._offered.get(name, ())
            if self._host is None or (*map(id, before),) == (*map(id, offered),):
                return
            self._offered[name], server.refused = offered, ()
            try:
                await self._host.renew()
            except errors.AwakenError as error:
                self._offered[name] = before
                server.refused = (f"its tools cannot be offered: {error}",)

    async def _decline_held_calls(self, context: plugins.AfterToolExecuteContext) -> None:
        """End a held call whose question was declined: no tool call waits for it any more."""
        if context.resume is not None and context.resume.action is DecisionAction.CANCEL:
            for server in self._servers.values():
                await server.decline(context.run.run_id, context.call.id)


def _check_servers(servers: Iterable[McpServer]) -> list[McpServer]:
    found: list[McpServer] = []
    for config in servers:
        check(config)
        if any(component(config.name) == component(known.name) for known in found):
            raise errors.DuplicateRegistration(kind="MCP server", name=config.name)
        found.append(config)
    return found


async def _hide_withheld(context: plugins.BeforeInferenceContext) -> StateCommand | None:
    withheld = tuple(sorted(context.prepared or ()))
    return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=withheld)) if withheld else None


async def _refuse_withheld(context: plugins.ToolGateContext) -> plugins.GateDecision | None:
    name = context.call.name
    if name not in (context.prepared or ()):
        return None
    problem = f"Denied: agent '{context.agent.id}' may not use '{name}'"
    return plugins.SetResult(result=ToolResult.error(name, problem, code="tool_denied"))
