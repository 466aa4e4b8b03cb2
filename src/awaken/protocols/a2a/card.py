"""Agent cards: describe the agents to clients before the first message."""

from importlib.metadata import distributions
from urllib.parse import quote

import msgspec

from awaken.runtime.resolution.resolver import ResolvedAgent

from .states import Payload
from .wire import Ask, Request

PREFIX = "/v1/a2a"
PROTOCOL_VERSION = "1.0"
CONTEXT_EXTENSION = "urn:awaken:run-context"
_INPUTS = ["text/plain", "application/json", "image/*", "audio/*", "video/*", "application/pdf"]
_BEARER = {
    "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
}


async def get_extended_card(ask: Ask[Request]) -> Payload:
    """The card for callers with the scope `read`: includes models and plugins."""
    return await agent_card(ask, is_extended=True)


async def agent_card(ask: Ask[Request], *, is_extended: bool = False) -> Payload:
    """The card of the requested agent, or of the server with all agents."""
    await ask.check()
    agent_id, view = ask.agent_id, ask.view
    known = (await view.agents()).values() if agent_id is None else [await view.agent(agent_id)]
    shown = tuple(known)
    skills = [_skill(agent, is_extended=is_extended) for agent in shown]
    contexts = {it.spec.id: it.context.schema for it in shown if it.context is not None}
    subject = {"name": "awaken", "description": "Agents served by awaken."}
    if agent_id is not None:
        subject = {field: skills[0][field] for field in subject}
    url = ask.call.base_url + PREFIX + ("" if agent_id is None else f"/{quote(agent_id, safe='')}")
    return {
        **subject,
        # A package that runs from its sources without an installation has no version.
        "version": next((it.version for it in distributions(name="awaken")), "0"),
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "extendedAgentCard": True,
            **({"extensions": [_describe_contexts(contexts)]} if contexts else {}),
        },
        "defaultInputModes": _INPUTS,
        "defaultOutputModes": ["text/plain"],
        "skills": skills,
        **(_BEARER if ask.asks_tokens else {}),
    }


def _describe_contexts(schemas: Payload) -> Payload:
    """The extension that says which context the runs of an agent take, by its id."""
    return {
        "uri": CONTEXT_EXTENSION,
        "description": "JSON Schemas of `metadata.context` of a message, by agent.",
        "required": False,
        "params": {"schemas": schemas},
    }


def _skill(agent: ResolvedAgent, *, is_extended: bool) -> Payload:
    spec, workflow = agent.spec, agent.workflow
    more = [f"model:{spec.model_id}", *(f"plugin:{it}" for it in spec.plugin_ids)]
    tags = ["agent", *(more if is_extended else ())]
    text = spec.description or f"The agent '{spec.id}'."
    if workflow is not None and workflow.arguments.names:
        # A skill has no field for a schema, and a caller must learn it somewhere.
        schema = msgspec.json.encode(workflow.arguments.schema).decode()
        text += f" Send a JSON object that fits this schema: {schema}"
    return {"id": spec.id, "name": spec.id, "description": text, "tags": tags}
