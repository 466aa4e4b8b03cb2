"""Describes resolved agents, to compare what two configurations make of them."""

import asyncio
from collections.abc import Iterator

import msgspec

from awaken.contracts.config.compiler import AgentChange, AgentForm
from awaken.contracts.config.publications import encode_canonical, hash_object
from awaken.contracts.errors import AwakenError
from awaken.contracts.secrets import encode_reference
from awaken.contracts.suspension.policy import PolicyInspector
from awaken.extensions.permission.inspector import PermissionInspector
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot

AT_ONCE = 20
"""How many agents are described before the event loop gets a turn."""


async def compare_snapshots(
    before: RegistrySnapshot, after: RegistrySnapshot
) -> tuple[AgentChange, ...]:
    """List the agents of this runtime that differ; an agent that is the same object does not."""
    inspector, changes = PermissionInspector(), list[AgentChange]()
    for at, (name, old, new) in enumerate(_list_pairs(before, after)):
        if at % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        forms = [None if it is None else describe_agent(it, inspector) for it in (old, new)]
        if forms[0] != forms[1]:
            changes.append(AgentChange(agent_id=name, before=forms[0], after=forms[1]))
    return tuple(changes)


def describe_agent(agent: ResolvedAgent, inspector: PolicyInspector) -> AgentForm:
    """Describe a resolved agent."""
    policy = inspector.inspect(agent.env.prepared, agent.tools)
    hidden = frozenset() if policy is None else frozenset(policy.hidden)
    models = tuple(route.spec for route in agent.models)
    shown = [it for it in agent.model_tools if it.id not in hidden]
    asked = [(it.provider_id, it.upstream_model, it.options) for it in models]
    prefix = [agent.system, msgspec.to_builtins(shown), asked]
    return AgentForm(
        fields=msgspec.to_builtins(agent.spec, enc_hook=encode_reference),
        tools=tuple(it.id for it in shown),
        prefix=hash_object(encode_canonical(prefix)),
        models=models,
        rules=None if policy is None else inspector.rules_of(agent.env.prepared),
    )


def _list_pairs(
    before: RegistrySnapshot, after: RegistrySnapshot
) -> Iterator[tuple[str, ResolvedAgent | None, ResolvedAgent | None]]:
    names = {*before.registries.agents, *after.registries.agents}
    for name in sorted(names):
        old, new = _find(before, name), _find(after, name)
        if old is not new:
            yield name, old, new


def _find(snapshot: RegistrySnapshot, name: str) -> ResolvedAgent | None:
    """Return an agent that new runs can take; not one of another server."""
    source = snapshot.registries.agents.get(name)
    is_left_out = source is None or source.spec.registry is not None
    if is_left_out or name in snapshot.registries.hidden or name in snapshot.unusable:
        return None
    try:
        return snapshot.resolve(name)
    except AwakenError:
        # It is unusable, and a problem of the configuration says why.
        return None
