"""Fetches the cards that describe the agents of other servers."""

from awaken.contracts.backends.errors import InvalidBackendConfig, RemoteRefused
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.outbound.guard import Outbound
from awaken.wire.a2a import CARD_BYTES_MAX

from .channel import Channel
from .config import config_of


class A2ACards:
    """Fetches the cards of servers that an operator has configured."""

    def __init__(self, guard: Outbound) -> None:
        self._guard = guard

    async def fetch_card(self, registry: RemoteRegistry) -> bytes:
        """Fetch the card, with the registry's token if it has one.

        Raises:
            RemoteError: The card cannot be fetched; the text contains no credentials.
        """
        try:
            config = config_of(RemoteEndpoint(base_url=registry.origin, auth=registry.auth))
        except InvalidBackendConfig as error:
            raise RemoteRefused(problem=str(error)) from error
        channel, timeout_s = Channel(config, self._guard), registry.timeout_ms / 1000
        try:
            if registry.auth is None:
                return await channel.call_public(registry.card_url, CARD_BYTES_MAX, timeout_s)
            return await channel.call("GET", registry.card_url, None, timeout_s, CARD_BYTES_MAX)
        finally:
            await channel.close()
