"""Agents that execute at an endpoint: settings without an effect there are refused, not ignored."""

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.specs.agents import AgentSpec

from .registries import AgentSource

_LOCAL_FIELDS = {
    "system_prompt": "instructions",
    "delegates": "delegates",
    "allowed_tools": "allowed_tools",
    "excluded_tools": "excluded_tools",
    "parallel_tools": "parallel_tools",
    "frontend_tools_may_replace": "frontend_tools_may_replace",
    "stop_conditions": "stop",
    "max_rounds": "max_rounds",
    "max_continuation_retries": "max_continuation_retries",
    "context_policy": "context_policy",
    "reasoning_effort": "reasoning_effort",
}
"""The settings that only the local loop uses: the field of the spec, and its name in code."""
_PLAIN = AgentSpec(id="plain", model_id="plain")


def check_remote(source: AgentSource) -> None:
    """Refuse settings of an agent with an endpoint that are never sent to the other side.

    Raises:
        InvalidSpec: Names the field and the way out.
    """
    spec = source.spec
    if spec.endpoint is None:
        return
    found = [
        shown
        for name, shown in _LOCAL_FIELDS.items()
        if getattr(spec, name) != getattr(_PLAIN, name)
    ]
    found += ["tools"] if source.tools else []
    found += ["output_type"] if source.output is not None else []
    if found:
        problem = (
            "the agent executes at its endpoint, which never receives this field; set it there, "
            "or leave the endpoint out (`description` says what the agent is for)"
        )
        raise InvalidSpec(what=f"Agent '{spec.id}': field '{found[0]}'", problem=problem)
