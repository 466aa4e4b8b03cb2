"""Answers of agents as JSON of their output types."""

from contextlib import suppress
from typing import Any

import msgspec

from awaken.authoring.pydantic_models import encode_model
from awaken.contracts.errors import AwakenError
from awaken.runtime.resolution.registry import RegistryHandle


class AgentOutputs:
    """Decodes what agents have answered, by the types that they have now."""

    __slots__ = ("_registry",)

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry

    async def recall(self, agent_id: str) -> None:
        """Have the host's resolver asked for an agent, so that its answers can be decoded.

        If that fails, which is logged there, its answers stay the texts that they are.
        """
        if self._registry.host is not None:
            with suppress(AwakenError):
                await self._registry.pin(agent_id)

    def decode(self, agent_id: str, text: str) -> Any:
        """An agent's answer as JSON of its output type; None when it answers in plain text."""
        try:
            output = self._registry.last_seen(agent_id).resolve(agent_id).output
            if output is None or output.schema is None:
                return None
            return msgspec.to_builtins(output.decode(text), enc_hook=encode_model)
        except (AwakenError, TypeError):
            # The agent was changed since: the text is still there.
            return None
