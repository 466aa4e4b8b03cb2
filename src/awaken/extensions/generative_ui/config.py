"""Which interfaces an agent may show: its section `generative_ui`."""

import re
from typing import ClassVar

import msgspec

from awaken.contracts.record import StrictRecord
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDenied

from .a2ui_language import Version

SECTION = "generative_ui"

_COMPONENT = re.compile(r"[A-Z][A-Za-z0-9_]*")
_RESERVED = ("Query", "Mutation", "Action")


class JsonRenderConfig(StrictRecord, frozen=True, kw_only=True):
    """Which agent writes JSON render specs, and with which components."""

    agent: str
    """One of the agent's delegates."""
    components: dict[str, str] = msgspec.field(default_factory=dict)
    """The purpose and props of each component; without any, every type is accepted."""


class OpenUiConfig(StrictRecord, frozen=True, kw_only=True):
    """Which agent writes OpenUI Lang, and with which components."""

    agent: str
    """One of the agent's delegates."""
    components: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The arguments of each component in their order, like `title: string`; optional ones have a
    `?` after their name. Without any component, every one is accepted."""
    root: str | None = None
    """The component that a program begins with."""


class GenerativeUiConfig(StrictRecord, frozen=True, kw_only=True):
    """The formats that an agent may use."""

    section: ClassVar[str] = SECTION

    a2ui: bool = True
    version: Version = "v0.8"
    """The version of A2UI that the clients render."""
    catalog_id: str | None = None
    """The catalog of components; of a catalog that is not A2UI's own only trees are checked."""
    examples: str | None = None
    instructions: str | None = None
    """Added to the prompt after the rules of the format."""
    json_render: JsonRenderConfig | None = None
    openui: OpenUiConfig | None = None


def config_of(agent: AgentSpec) -> GenerativeUiConfig:
    """The section of an agent."""
    return agent.config(SECTION, GenerativeUiConfig)


def config_problem(agent: AgentSpec, config: GenerativeUiConfig) -> str | None:
    """Why a config cannot be used, or None when it can."""
    openui = config.openui
    writers = [it.agent for it in (config.json_render, openui) if it is not None]
    for writer in writers:
        if writer not in agent.delegates:
            return f"agent '{writer}' must be among the delegates of '{agent.id}'"
    return None if openui is None else _library_problem(openui)


def _library_problem(openui: OpenUiConfig) -> str | None:
    for name, arguments in openui.components.items():
        if not _COMPONENT.fullmatch(name) or name in _RESERVED:
            return f"'{name}' is not a component name: those begin with a capital letter"
        if (problem := _arguments_problem(arguments)) is not None:
            return f"component '{name}': {problem}"
    if openui.root is not None and openui.components and openui.root not in openui.components:
        return f"root '{openui.root}' is not among the components"
    return None


def withheld_tools(config: GenerativeUiConfig) -> tuple[str, ...]:
    """The tools that an agent does not have."""
    offered = {
        "render_a2ui": config.a2ui,
        "render_json_ui": config.json_render is not None,
        "render_openui": config.openui is not None,
    }
    return tuple(name for name, is_offered in offered.items() if not is_offered)


def check_offered(tool_name: str, agent: AgentSpec) -> GenerativeUiConfig:
    """The config of an agent that has the tool: a model may call a tool that it was not shown.

    Raises:
        ToolDenied: The tool is withheld from the agent.
    """
    config = config_of(agent)
    if tool_name in withheld_tools(config):
        raise ToolDenied(f"agent '{agent.id}' may not use '{tool_name}'")
    return config


def argument_name(argument: str) -> tuple[str, bool]:
    """The name of a component's argument, and whether it is required."""
    name = re.split(r"[:\s]", argument, maxsplit=1)[0]
    return name.rstrip("?"), not name.endswith("?")


def _arguments_problem(arguments: tuple[str, ...]) -> str | None:
    needed = [is_needed for _, is_needed in map(argument_name, arguments)]
    if needed != sorted(needed, reverse=True):
        return "arguments that must be given come before those that may be left out"
    return None
