"""Variants: the agent of a recording with something changed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.worlds import Variant, World
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor
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
    """Return the registries with the changed agent; texts of tools change when it is equipped.

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
    # What the code gives the agent would win over its spec.
    if variant.model_id is not None or "model_id" in variant.changes:
        changed = replace(changed, model=None)
    if variant.instructions is not None or "system_prompt" in variant.changes:
        changed = replace(changed, instructions=None)
    return registries.with_agent(changed)


def describe_tool(descriptor: ToolDescriptor, variant: Variant | None) -> ToolDescriptor:
    """Return a descriptor with the text that a variant has for it."""
    text = None if variant is None else variant.tool_descriptions.get(descriptor.id)
    return descriptor if text is None else msgspec.structs.replace(descriptor, description=text)


def find_lost_agents(registries: RegistrySet, recording: Recording) -> dict[str, AgentSource]:
    """Return the agents of a recording, and of the runs below it, that are gone here.

    A delegate that none of these runs had is gone as well: the tool that would ask it answers as
    it did then.
    """
    specs = {
        name: spec
        for it in _walk_runs(recording)
        for name, spec in it.config.agents.items()
        if name not in registries.agents
    }
    known = {*registries.agents, *specs}
    return {
        name: AgentSource(
            spec=msgspec.structs.replace(
                spec,
                plugin_ids=(),
                delegates=tuple(it for it in spec.delegates if registries.name_of(it) in known),
            )
        )
        for name, spec in specs.items()
    }


def _walk_runs(recording: Recording) -> Iterator[Recording]:
    """Yield a recording and all below it."""
    yield recording
    for step in recording.steps:
        for child in step.children:
            yield from _walk_runs(child)


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
    what = f"Variant '{variant.name}'"
    if (problem := _find_wrong_field(changes)) is not None:
        raise InvalidSpec(what=what, problem=problem)
    data = {**msgspec.to_builtins(spec), **changes}
    try:
        return msgspec.convert(data, AgentSpec)
    except msgspec.ValidationError as error:
        raise InvalidSpec(what=what, problem=str(error)) from error


def _find_wrong_field(changes: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the names of changed fields."""
    for name in changes:
        if name == "id":
            return "an agent keeps its id; name another agent by agent_id"
        if name in Variant.__struct_fields__ and name not in AgentSpec.__struct_fields__:
            return f"'{name}' is a field of the variant itself, not of its changes"
        if name not in AgentSpec.__struct_fields__:
            known = ", ".join(it for it in AgentSpec.__struct_fields__ if it != "id")
            return f"an agent has no field '{name}'; it has {known}"
    return None
