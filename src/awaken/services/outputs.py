"""Decodes answers of agents into JSON of their output types."""

from contextlib import suppress
from typing import Any

import msgspec

from awaken.authoring.pydantic_models import encode_model
from awaken.contracts.errors import AwakenError
from awaken.runtime.resolution.registry import RegistryHandle


class AgentOutputs:
    """Decodes answers by the output types that the agents have now."""

    __slots__ = ("_registry",)

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry

    async def recall(self, agent_id: str) -> None:
        """Ask the host's resolver for an agent, so that its answers can be decoded.

        If the resolver fails, which it logs, the answers stay plain text.
        """
        if self._registry.host is not None:
            with suppress(AwakenError):
                await self._registry.pin(agent_id)

    def decode(self, agent_id: str, text: str) -> Any:
        """Decode an agent's answer into JSON of its output type; None for plain text."""
        try:
            output = self._registry.last_seen(agent_id).resolve(agent_id).output
            if output is None or output.schema is None:
                return None
            return msgspec.to_builtins(output.decode(text), enc_hook=encode_model)
        except (AwakenError, TypeError):
            # The agent has changed since: the text of the answer remains.
            return None
