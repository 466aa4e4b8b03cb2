"""Reasoning goes back to the provider that signed it, and to no other of the same format."""

import asyncio

import pytest

from awaken.bootstrap.providers import Connections, provider_clients
from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.message import assistant, user
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.testing.model_server import FakeModelServer

KEY = RedactedString("sk-test")


@pytest.mark.parametrize(
    ("provider", "origin", "is_sent"),
    [
        ("anthropic", "anthropic", True),
        ("anthropic", "anthropic:proxy", False),
        ("proxy", "anthropic", False),
        ("proxy", "anthropic:proxy", True),
    ],
)
def test_reasoning_goes_back_to_the_provider_that_signed_it(
    provider: str, origin: str, is_sent: bool
) -> None:
    thought = Thinking(thinking="Hm.", signature="its-signature", origin=origin)
    said = assistant([thought, Text(text="Yes.")])
    request = InferenceRequest(upstream_model="m", messages=[user("a"), said, user("b")])

    async def sent() -> str:
        async with FakeModelServer(["ok"]) as server:
            spec = ProviderSpec(id=provider, adapter="anthropic", base_url=server.url, api_key=KEY)
            connections = Connections()
            client = provider_clients({provider: spec}, connections)[provider]
            async for _ in client.stream(request):
                pass
            await connections.close()
            return server.requests[0].raw.decode()

    assert ("its-signature" in asyncio.run(sent())) is is_sent
