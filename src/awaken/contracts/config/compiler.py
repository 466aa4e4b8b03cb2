"""The port by which a configuration becomes something that can run."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.record import Record


class ConfigProblem(Record, frozen=True, kw_only=True):
    """What is wrong, and where: `agents/support/sections/permission/rules/3/tool`."""

    path: str
    code: str
    message: str
    known: tuple[str, ...] = ()
    """The names that would be accepted, if the problem is an unknown name."""
    file: str | None = None
    """The file that has it, if the record comes from one."""


class EffectiveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A managed record as this process sees it: the patch of an override is applied."""

    spec: Any
    """Of the kind's `spec` type; its secrets are resolved when they are used."""
    hash: str
    """Changes whenever the spec does."""
    source: str
    is_hidden: bool = False


class EffectiveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The managed layer of a registry: every record of a publication that could be read."""

    publication: int | None
    """None while it is only a candidate."""
    records: Mapping[str, Mapping[str, EffectiveRecord]]
    problems: tuple[ConfigProblem, ...] = ()
    """What could not be read here, such as a record of a newer version."""


class CompiledConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that this process can install.

    With problems it can be installed all the same, if they are not of the whole: an agent in
    `unusable` cannot start here, and every other agent runs on the new configuration.
    """

    config: EffectiveConfig
    layer: Any
    """What the registry installs; only the compiler reads it."""
    problems: tuple[ConfigProblem, ...] = ()
    diagnostics: tuple[ConfigProblem, ...] = ()
    """Warnings; they refuse nothing."""
    unusable: Mapping[str, str] = {}
    """Why an agent cannot start here, by its id."""


class AgentForm(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a configuration resolves it in this process."""

    fields: Mapping[str, Any]
    """Its spec as builtins; secrets are references."""
    tools: tuple[str, ...]
    """The tools that its model sees, after the permission rules."""
    prefix: str
    """A hash of what begins every request: system prompt, tools and model."""
    models: tuple[ModelSpec, ...]
    """The models that may answer for it."""
    rules: Any = None
    """The section of its permission rules; None if it has no such rules: every call passes."""


class AgentChange(msgspec.Struct, frozen=True, kw_only=True):
    """An agent before and after a change of the configuration; None: it cannot be started."""

    agent_id: str
    before: AgentForm | None
    after: AgentForm | None


class ConfigCompiler(Protocol):
    """Compiles configurations against the code of this process."""

    def code_records(self) -> Mapping[str, Mapping[str, Any]]:
        """The records that the code of this process declares, as specs, by namespace and id."""
        ...

    def code_hashes(self) -> Mapping[str, str]:
        """Hashes of the agents and tools of the code, by `agents/id` and `tools/id`."""
        ...

    async def compile(self, config: EffectiveConfig) -> CompiledConfig:
        """Compile a configuration; nothing is installed, and problems are collected, not raised.

        What it opens for the configuration is closed by `discard`, unless it was installed. The
        event loop is never held for longer than 20 ms.
        """
        ...

    async def install(self, compiled: CompiledConfig) -> None:
        """Make a compiled configuration the one that new runs take."""
        ...

    async def keep(self, compiled: CompiledConfig) -> None:
        """Keep a compiled configuration for runs that are pinned to its publication."""
        ...

    async def discard(self, compiled: CompiledConfig) -> None:
        """Close what only this configuration needs."""
        ...

    async def list_changes(self, compiled: CompiledConfig) -> tuple[AgentChange, ...]:
        """List the agents that differ from those that new runs take now, sorted by id.

        Call it before the configuration is installed or discarded.
        """
        ...
