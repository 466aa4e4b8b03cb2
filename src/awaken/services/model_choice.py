"""The model that a caller chooses for a run, in place of the agent's own."""

from collections.abc import Mapping

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.runs.records import RunRequest
from awaken.runtime.resolution.resolver import ResolvedAgent

from .view import TenantView


async def list_choices(
    view: TenantView, agent_id: str, publication: int | None = None
) -> tuple[ResolvedAgent, tuple[ModelSpec, ...]]:
    """Return an agent, and the models that may answer for it: those of its provider, by id.

    Raises:
        UnknownAgent: There is no such agent.
        UnknownPublication: There is no such publication.
    """
    agent = await view.agent(agent_id, publication)
    pinned = await view.engine.registry.pin(agent_id, publication)
    return agent, _find_siblings(agent, pinned.registries.models)


async def choose_model(view: TenantView, request: RunRequest, model_id: str) -> RunRequest:
    """Return a request whose steps ask another model of the agent's provider.

    Raises:
        UnknownAgent: There is no such agent.
        InvalidInput: The model is not one that may answer for the agent.
    """
    agent, choices = await list_choices(view, request.agent_id or "", request.publication)
    chosen = next((it for it in choices if it.id == model_id), None)
    if chosen is None:
        known = ", ".join(it.id for it in choices) or "none"
        problem = f"'{model_id}' cannot answer for agent '{agent.spec.id}'; known: {known}"
        raise InvalidInput(what="model", problem=problem)
    override = InferenceOverride(upstream_model=chosen.upstream_model)
    return msgspec.structs.replace(request, overrides=override)


def _find_siblings(
    agent: ResolvedAgent, models: Mapping[str, ModelSpec | ModelPool]
) -> tuple[ModelSpec, ...]:
    if not (agent.is_local and agent.models):
        return ()
    provider_id = agent.models[0].spec.provider_id
    # The client of the agent's first model makes the calls, so no other provider can answer.
    found = [
        it for it in models.values() if isinstance(it, ModelSpec) and it.provider_id == provider_id
    ]
    return tuple(sorted(found, key=lambda it: it.id))
