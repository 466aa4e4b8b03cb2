"""The reply about what agents may name, as types."""

from typing import Any

from awaken.contracts.record import Record
from awaken.contracts.tools.tool import ToolEffect

from .views import ConfigRecord, ConfigView


class ToolOrigin(Record, frozen=True, kw_only=True):
    """Where a tool comes from: `builtin`, `plugin` or `mcp`, and of which agent or server."""

    kind: str
    id: str | None = None


class ToolCapability(ConfigView, frozen=True, kw_only=True):
    """A tool that agents may name."""

    id: str
    name: str
    description: str
    source: ToolOrigin
    effect: ToolEffect
    parameters_schema: ConfigRecord | None


class SectionSchema(ConfigView, frozen=True, kw_only=True):
    """A section of agents that a plugin reads."""

    key: str
    schema: ConfigRecord
    display_name: str
    default_value: ConfigRecord


class PluginCapability(ConfigView, frozen=True, kw_only=True):
    """A plugin that agents may have on."""

    id: str
    config_schemas: tuple[SectionSchema, ...]


class SkillCapability(ConfigView, frozen=True, kw_only=True):
    """A skill of this process."""

    id: str
    name: str
    description: str
    allowed_tools: Any
    when_to_use: str | None
    arguments: Any
    argument_hint: str | None
    user_invocable: bool
    model_invocable: bool
    model_override: str | None
    context: Any
    paths: Any


class ProviderCapability(ConfigView, frozen=True, kw_only=True):
    """A provider that models may name."""

    id: str


class NamespaceSchema(ConfigView, frozen=True, kw_only=True):
    """A namespace, and the schema of its records."""

    namespace: str
    schema: ConfigRecord


class Capabilities(ConfigView, frozen=True, kw_only=True):
    """What agents may name in this process."""

    agents: tuple[str, ...]
    tools: tuple[ToolCapability, ...]
    plugins: tuple[PluginCapability, ...]
    skills: tuple[SkillCapability, ...]
    models: tuple[ConfigRecord, ...]
    providers: tuple[ProviderCapability, ...]
    backends: tuple[Any, ...]
    supported_adapters: tuple[str, ...]
    namespaces: tuple[NamespaceSchema, ...]
