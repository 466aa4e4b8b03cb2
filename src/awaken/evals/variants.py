"""Variants: the agent of a recording with something changed."""

from dataclasses import replace
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.worlds import Variant, World
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolOutput
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.resolver import DEFAULT_AGENT


def change_agents(
    registries: RegistrySet, world: World, recording: Recording | None
) -> RegistrySet:
    """Return the registries with the agent and the variant of a world.

    Raises:
        InvalidSpec: A changed field does not exist, or does not fit.
    """
    if world.agent is not None:
        registries = registries.with_agent(AgentSource(spec=world.agent))
    if world.variant is None:
        return registries
    return apply_variant(registries, world.variant, recording)


def apply_variant(
    registries: RegistrySet, variant: Variant, recording: Recording | None
) -> RegistrySet:
    """Return the registries with the changed agent.

    Raises:
        InvalidSpec: A changed field does not exist, or does not fit.
    """
    kept = {} if recording is None else recording.config.agents
    named = variant.agent_id or (DEFAULT_AGENT if recording is None else recording.run.agent_id)
    agent_id = registries.name_of(named)
    source = registries.agents.get(agent_id)
    if source is None:
        spec = kept.get(agent_id)
        if spec is None:
            raise InvalidSpec(what=f"Variant '{variant.name}'", problem=f"no agent '{agent_id}'")
        source = AgentSource(spec=spec)
    spec = change_spec(source.spec, variant)
    changed = replace(source, spec=spec)
    if variant.model_id is not None:
        changed = replace(changed, model=None)
    if variant.instructions is not None:
        changed = replace(changed, instructions=None)
    texts = variant.tool_descriptions
    tools = {name: _describe(it, texts) for name, it in registries.tools.items()}
    own = {name: _describe(it, texts) for name, it in changed.tools.items()}
    changed = replace(changed, tools=own)
    return replace(registries.with_agent(changed), tools=tools)


def change_spec(spec: AgentSpec, variant: Variant) -> AgentSpec:
    """Return a spec with the changes of a variant.

    Raises:
        InvalidSpec: A changed field does not exist, or does not fit.
    """
    changes: dict[str, Any] = dict(variant.changes)
    if variant.model_id is not None:
        changes["model_id"] = variant.model_id
    if variant.instructions is not None:
        changes["system_prompt"] = variant.instructions
    if not changes:
        return spec
    data = {**msgspec.to_builtins(spec), **changes}
    try:
        return msgspec.convert(data, AgentSpec)
    except msgspec.ValidationError as error:
        raise InvalidSpec(what=f"Variant '{variant.name}'", problem=str(error)) from error


def _describe(tool: Tool, texts: dict[str, str]) -> Tool:
    text = texts.get(tool.descriptor.id)
    return tool if text is None else RedescribedTool(tool, text)


class RedescribedTool:
    """A tool with another description for the model."""

    def __init__(self, tool: Tool, description: str) -> None:
        self._tool = tool
        self._descriptor = msgspec.structs.replace(tool.descriptor, description=description)
        for name in ("approval", "delegates_to", "__wrapped__"):
            if (value := getattr(tool, name, None)) is not None:
                setattr(self, name, value)

    @property
    def descriptor(self) -> ToolDescriptor:
        """The descriptor with the other description."""
        return self._descriptor

    def validate(self, arguments: Any) -> Any:
        """Check the arguments as the tool does.

        Raises:
            InvalidArguments: They do not fit.
        """
        return self._tool.validate(arguments)

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Run the tool."""
        return await self._tool.execute(arguments, context)
