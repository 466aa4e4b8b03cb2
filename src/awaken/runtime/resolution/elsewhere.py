"""Agents that execute elsewhere: what means nothing there is refused, not ignored."""

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
"""What only our own loop heeds, by its name in a spec: how code calls it."""
_PLAIN = AgentSpec(id="plain", model_id="plain")


def check_remote(source: AgentSource) -> None:
    """Refuse what an agent has beside its endpoint and the other side would never hear of.

    Raises:
        InvalidSpec: Naming the field and the way out.
    """
    spec = source.spec
    if spec.endpoint is None:
        return
    found = [
        said for name, said in _LOCAL_FIELDS.items() if getattr(spec, name) != getattr(_PLAIN, name)
    ]
    found += ["tools"] if source.tools else []
    found += ["output_type"] if source.output is not None else []
    if found:
        problem = (
            "the agent executes at its endpoint, where this is not heard of; set it there, or "
            "leave the endpoint out (what the agent is for is said by `description`)"
        )
        raise InvalidSpec(what=f"Agent '{spec.id}': field '{found[0]}'", problem=problem)
