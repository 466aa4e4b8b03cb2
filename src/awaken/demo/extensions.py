"""The demo agents that use extensions. `demo_agents` adds them to the others."""

from collections.abc import Mapping, Sequence
from typing import Any

from awaken import (
    Phase,
    Plugin,
    PluginRegistrar,
    RemoteEndpoint,
    StateCommand,
    StateKey,
    ToolContext,
    tool,
)
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.extensions.generative_ui import (
    GenerativeUiPlugin,
    OpenUiConfig,
    json_render_rules,
    openui_rules,
)
from awaken.extensions.mcp import McpPlugin, McpServer, Stdio
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.skills import Skill, SkillArgument, SkillsPlugin, StaticSkills
from awaken.plugins import MergeStrategy, PhaseContext, ProfileKey, agent_type_scope

from .settings import DemoSettings

JSON_COMPONENTS = {"Card": "a frame; props: title", "Text": "a line of text; props: text"}
OPENUI_COMPONENTS: dict[str, tuple[str, ...]] = {
    "Stack": ("children: Component[]",),
    "TextContent": ("text: string",),
}

PHASES: StateKey[tuple[str, ...], str] = StateKey(
    "demo.phases",
    default=(),
    type=tuple[str, ...],
    apply=lambda seen, phase: (*seen, phase),
    merge=MergeStrategy.COMMUTATIVE,
)
PREFERENCE: ProfileKey[str] = ProfileKey("demo.preference", default="none yet", type=str)


class PhasesPlugin(Plugin):
    """Records every phase of a run, and offers a tool that lists them."""

    name = "demo_phases"

    def register(self, registrar: PluginRegistrar) -> None:
        """Hook every phase that takes hooks."""
        registrar.key(PHASES)
        registrar.tool(phases_seen)
        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, _build_phase_hook(phase))


def _build_phase_hook(phase: Phase) -> Any:
    async def note(_: PhaseContext) -> StateCommand:
        return StateCommand().update(PHASES, phase.value)

    return note


class PreferencesPlugin(Plugin):
    """Stores a person's preference for all conversations with one agent."""

    name = "demo_preferences"

    def register(self, registrar: PluginRegistrar) -> None:
        """Offer the tools."""
        registrar.profile_key(PREFERENCE)
        registrar.tool(set_preference)
        registrar.tool(get_preference)


@tool(effect="none")
async def phases_seen(ctx: ToolContext) -> list[str]:
    """Tell which phases the run has passed so far."""
    seen: tuple[str, ...] = ctx.state.get(PHASES)
    return list(seen)


@tool(effect="idempotent")
async def set_preference(preference: str, ctx: ToolContext) -> str:
    """Remember what the person likes, beyond this conversation.

    Args:
        preference: What they like.
    """
    assert ctx.profile is not None
    await ctx.profile.write(PREFERENCE, agent_type_scope(ctx.agent.id), preference)
    return "remembered"


@tool(effect="none")
async def get_preference(ctx: ToolContext) -> str:
    """Tell what the person likes."""
    assert ctx.profile is not None
    return await ctx.profile.read(PREFERENCE, agent_type_scope(ctx.agent.id))


GREETING = Skill(
    name="greeting",
    description="Greets a person the way they like to be greeted.",
    when_to_use="A person wants a greeting.",
    arguments=(SkillArgument(name="who", description="Who is greeted.", required=True),),
    body="Greet ${who} in one warm sentence. Never use exclamation marks.",
)


def extension_agents(tools: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of each agent that uses extensions; `tools` are the demo's tools, by id."""
    generative_ui = GenerativeUiPlugin()
    openui = {"agent": "openui-ui", "components": OPENUI_COMPONENTS, "root": "Stack"}
    json_render = {"agent": "json-render-ui", "components": JSON_COMPONENTS}
    openui_library = OpenUiConfig(agent="openui-ui", components=OPENUI_COMPONENTS, root="Stack")
    return {
        "permission": {
            "description": "Asks before it deletes, and never fails; try RUN_DELETE_TOOL.",
            "instructions": "You tidy up files. Every deletion needs a person's consent.",
            "tools": [tools["delete_file"], tools["askUserQuestion"], tools["failingTool"]],
            "plugins": [PermissionPlugin()],
            "config": {"permission": _PERMISSION},
        },
        "skills": {
            "description": "Takes skills up; try RUN_SKILL_TOOL.",
            "plugins": [SkillsPlugin(sources=[StaticSkills(GREETING)])],
        },
        "deferred": {
            "description": "Finds its tools first; try RUN_TOOL_SEARCH_WEATHER.",
            "plugins": [DeferredToolsPlugin()],
            "config": {"deferred_tools": {"enabled": True}},
        },
        "phases": {
            "description": "Notes the phases of its runs; try RUN_PHASES_TOOL.",
            "plugins": [PhasesPlugin()],
        },
        "profile": {
            "description": "Remembers across conversations; try RUN_PREFERENCE_TOOL.",
            "plugins": [PreferencesPlugin()],
        },
        "a2ui": {
            "description": "Shows A2UI surfaces; try RUN_A2UI_TOOL.",
            "plugins": [generative_ui],
        },
        "genui": {
            "description": "Shows interfaces of all three kinds.",
            "plugins": [generative_ui],
            "delegates": ["json-render-ui", "openui-ui"],
            "config": {"generative_ui": {"json_render": json_render, "openui": openui}},
        },
        "json-render": {
            "description": "Shows JSON interfaces; try RUN_JSON_UI_TOOL.",
            "plugins": [generative_ui],
            "delegates": ["json-render-ui"],
            "config": {"generative_ui": {"a2ui": False, "json_render": json_render}},
        },
        "json-render-ui": {
            "description": "Writes JSON interfaces.",
            "instructions": json_render_rules(JSON_COMPONENTS),
            "tools": [],
        },
        "openui": {
            "description": "Shows OpenUI interfaces; try RUN_UI_TOOL.",
            "plugins": [generative_ui],
            "delegates": ["openui-ui"],
            "config": {"generative_ui": {"a2ui": False, "openui": openui}},
        },
        "openui-ui": {
            "description": "Writes OpenUI Lang.",
            "instructions": openui_rules(openui_library),
            "tools": [],
        },
    }


def mcp_plugins(command: Sequence[str]) -> list[Plugin]:
    """A plugin with the tools of an MCP server, if a program is configured."""
    if not command:
        return []
    program, *arguments = command
    transport = Stdio(command=program, args=tuple(arguments))
    return [McpPlugin([McpServer(name="demo", transport=transport)])]


def remote_agents(settings: DemoSettings) -> dict[str, dict[str, Any]]:
    """An agent that executes at a remote server, if a URL is configured."""
    if settings.a2a_url is None:
        return {}
    token = settings.a2a_token
    auth = None if token is None else {"type": "bearer", "token": token.reveal()}
    endpoint = RemoteEndpoint(base_url=settings.a2a_url, auth=auth)
    return {"a2a": {"endpoint": endpoint, "description": "Executes at another server."}}


_PERMISSION = {
    "default_behavior": "allow",
    "rules": [
        {"tool": "delete_file", "behavior": "ask", "scope": "thread"},
        {"tool": "failingTool", "behavior": "deny"},
    ],
}
