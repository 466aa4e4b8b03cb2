"""What a world changes about agents: their specs, their models, and what models read of tools.

The changes are made to the snapshot of one run. So they need no managed configuration, and no other
run sees them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from awaken.contracts.errors import AwakenError, InvalidValue
from awaken.contracts.evals.errors import InvalidEval
from awaken.contracts.evals.eval_runs import Variant
from awaken.contracts.evals.worlds import AgentChanges, World
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.resolver import ResolvedAgent

_FIXED = ("id", "endpoint", "registry")
"""Fields of a spec that a variant cannot replace: they say which agent it is."""


class PinnedConfig(Record, frozen=True, kw_only=True):
    """A publication that runs can be pinned to, and the hash of its manifest."""

    publication: int
    manifest_hash: str


class SnapshotSource(Protocol):
    """Finds the publications that variants run on; managed configuration has it."""

    async def pin_live(self) -> PinnedConfig:
        """Return the live publication."""
        ...

    async def pin_publication(self, publication: int) -> PinnedConfig:
        """Return a publication.

        Raises:
            AwakenError: There is no such publication.
        """
        ...

    async def pin_draft(self, draft_id: str, actor: str) -> PinnedConfig:
        """Write an ephemeral publication of a draft, and return it.

        Raises:
            AwakenError: There is no such draft, or it does not compile.
        """
        ...


def changes_of(variant: Variant, agent_id: str) -> AgentChanges | None:
    """Return what a variant changes about its agent, or None if it changes nothing."""
    made = AgentChanges(
        agent_id=agent_id,
        model_id=variant.model_id,
        instructions=variant.instructions,
        tool_descriptions=variant.tool_descriptions,
        fields=variant.changes,
    )
    return None if made == AgentChanges(agent_id=agent_id) else made


def change_registries(registries: RegistrySet, world: World) -> RegistrySet:
    """Return what agents can name, with the agent and the changes of a world.

    Raises:
        InvalidEval: The changes do not fit the spec of the agent.
        UnknownAgent: There is no such agent.
    """
    if world.agent is not None:
        registries = registries.with_agent(AgentSource(spec=world.agent))
    changes = world.changes
    if changes is None:
        return registries
    agent_id = registries.name_of(changes.agent_id)
    source = registries.agents.get(agent_id)
    if source is None:
        problem = f"there is no agent '{changes.agent_id}'"
        raise InvalidEval(problem=problem)
    return registries.with_agent(_change_source(source, changes))


def describe_tools(agent: ResolvedAgent, changes: AgentChanges | None) -> ResolvedAgent:
    """Return an agent whose model reads the changed descriptions of its tools.

    Raises:
        InvalidEval: It has no such tool.
    """
    if changes is None or not changes.tool_descriptions or agent.spec.id != changes.agent_id:
        return agent
    given = changes.tool_descriptions
    if missing := sorted(set(given) - set(agent.tool_ids)):
        raise InvalidEval(problem=f"agent '{agent.spec.id}' has no tool '{missing[0]}'")
    tools = tuple(
        msgspec.structs.replace(it, description=given[it.id]) if it.id in given else it
        for it in agent.model_tools
    )
    return replace(agent, model_tools=tools)


def _change_source(source: AgentSource, changes: AgentChanges) -> AgentSource:
    fields: dict[str, Any] = dict(changes.fields)
    made = source
    if changes.instructions is not None:
        fields["system_prompt"] = changes.instructions
    if changes.model_id is not None:
        fields["model_id"] = changes.model_id
    if "system_prompt" in fields:
        made = replace(made, instructions=None)
    if "model_id" in fields:
        made = replace(made, model=None)
    return replace(made, spec=_change_spec(source.spec, fields))


def _change_spec(spec: AgentSpec, fields: Mapping[str, Any]) -> AgentSpec:
    for name in fields:
        if name in _FIXED or name not in AgentSpec.__struct_fields__:
            problem = f"a variant cannot change '{name}' of agent '{spec.id}'"
            raise InvalidEval(problem=problem)
    try:
        whole = {**msgspec.to_builtins(spec), **fields}
        return msgspec.convert(whole, AgentSpec)
    except (msgspec.ValidationError, InvalidValue, AwakenError) as error:
        raise InvalidEval(problem=f"agent '{spec.id}': {error}") from error
