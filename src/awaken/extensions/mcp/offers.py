"""Prompts of servers as skills, and resources of servers through two tools."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from awaken.authoring.functions import tool
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.skills import Skill, SkillUnavailable
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDenied, ToolError

from .catalog import build_exclusion, tool_id
from .config import SECTION, McpConfig
from .results import cut_contents
from .server import ConnectedServer


class PromptSkills:
    """The prompts of all servers as remote skills."""

    name = "mcp"
    is_remote = True

    def __init__(self, servers: Mapping[str, ConnectedServer]) -> None:
        self._servers = servers
        self._skills: tuple[Skill, ...] = ()

    def skills(self) -> tuple[Skill, ...]:
        """The current skills; the same tuple as long as nothing changes."""
        now = tuple(
            Skill(
                name=f"mcp:{name}:{it.name}",
                description=(it.description or it.name)[: server.config.limits.description_chars],
                arguments=it.arguments,
            )
            for name, server in self._servers.items()
            for it in server.listing.prompts
        )
        if now != self._skills:
            self._skills = now
        return self._skills

    def build_exclusion(self, agent: AgentSpec) -> Callable[[str], bool]:
        """Build the check whether the agent's section withholds a prompt, by its id as a tool.

        Raises:
            KeyCodecError, PatternError: The section is invalid.
        """
        is_withheld = build_exclusion(agent.config(SECTION, McpConfig))

        def withholds(name: str) -> bool:
            server, prompt = _place(name)
            return server in self._servers and is_withheld(tool_id(server, prompt), server)

        return withholds

    async def render(self, name: str, arguments: Mapping[str, str]) -> str:
        """Have the server render the prompt, and return its text.

        Raises:
            SkillUnavailable: There is no such prompt, or the server is unavailable.
        """
        server_name, prompt = _place(name)
        server = self._servers.get(server_name)
        if server is None or not any(it.name == prompt for it in server.listing.prompts):
            raise SkillUnavailable(f"There is no prompt '{name}'.")
        try:
            async with asyncio.timeout(server.config.call_ms / 1000):
                messages = await server.get_session().prompt(prompt, dict(arguments))
        except (TimeoutError, ToolError) as error:
            raise SkillUnavailable(f"MCP server '{server_name}': {error!r}") from error
        text = "\n\n".join(map(_text, messages))
        if len(text) > server.config.limits.result_chars:
            raise SkillUnavailable(f"Prompt '{name}' is too long.")
        return replace_surrogates(text)


def _place(name: str) -> tuple[str, str]:
    """The server and the prompt in the name of a skill."""
    server, _, prompt = name.removeprefix("mcp:").partition(":")
    return server, prompt


def _text(message: dict[str, Any]) -> str:
    """The text of a message; other content is only named."""
    content = message.get("content") or {}
    part = content.get("resource") or content
    said = part.get("text")
    return said if isinstance(said, str) else f"[{content.get('type')}: {part.get('uri', '')}]"


def resource_tools(servers: Mapping[str, ConnectedServer]) -> tuple[Tool, ...]:
    """The tools `mcp_list_resources` and `mcp_read_resource` for these servers."""

    def usable(name: str, context: ToolContext) -> ConnectedServer:
        named = context.agent.config(SECTION, McpConfig).servers
        names = [it for it in servers if named is None or it in named]
        if name not in names:
            raise ToolDenied(f"this agent has no such MCP server; it has: {', '.join(names)}")
        return servers[name]

    @tool(effect="none", kind="read", category=SECTION)
    async def mcp_list_resources(server: str, context: ToolContext) -> dict[str, Any]:
        """List the resources of an MCP server."""
        found = usable(server, context)
        async with asyncio.timeout(found.config.call_ms / 1000):
            return {"resources": await found.get_session().resources()}

    @tool(effect="none", kind="read", category=SECTION)
    async def mcp_read_resource(server: str, uri: str, context: ToolContext) -> dict[str, Any]:
        """Read a resource of an MCP server."""
        found = usable(server, context)
        async with asyncio.timeout(found.config.call_ms / 1000):
            contents = await found.get_session().read(uri)
        return {"contents": cut_contents(contents, found.config.limits)}

    return (mcp_list_resources, mcp_read_resource)
