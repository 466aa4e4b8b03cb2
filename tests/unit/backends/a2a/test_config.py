"""Which endpoints the A2A backend takes, and what it makes of them."""

import asyncio
from typing import Any

import pytest

from awaken.backends.a2a.backend import A2ABackendFactory
from awaken.backends.a2a.config import A2aOptions, config_of
from awaken.contracts.backends.backend import (
    CancellationCapability,
    ContinuationCapability,
    ExecutionBackendFactory,
    OutputCapability,
    TranscriptCapability,
    WaitCapability,
)
from awaken.contracts.backends.errors import InvalidBackendConfig
from awaken.contracts.clock import SystemClock
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.outbound.guard import Outbound


def endpoint(**given: Any) -> RemoteEndpoint:
    return RemoteEndpoint(**{"base_url": "https://peer.example/v1/a2a", **given})


def test_an_address_and_a_target_make_the_url_and_the_key() -> None:
    config = config_of(endpoint(base_url=" https://Peer.example:8443/v1/a2a/ ", target=" my bot "))
    assert config.url == "https://peer.example:8443/v1/a2a/my%20bot"
    assert config.key == f"a2a:{config.url}"
    assert config.origin == "https://peer.example:8443"
    assert config.options == A2aOptions(poll_interval_ms=2000, return_immediately=True)
    assert config.timeout_ms == 300_000


def test_a_blank_target_is_none() -> None:
    assert config_of(endpoint(target="  ")).url == "https://peer.example/v1/a2a"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"backend": "acp"}, "its backend is 'acp'"),
        ({"base_url": "ftp://peer"}, "http:// or https://"),
        ({"base_url": "peer.example"}, "http:// or https://"),
        ({"base_url": "https://"}, "http:// or https://"),
        ({"base_url": "https://me:secret@peer.example"}, "credentials"),
        ({"base_url": "https://peer.example?x=1"}, "query"),
        ({"base_url": "https://peer.example#x"}, "query or a fragment"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"target": ".."}, "target"),
        ({"auth": {}}, "bearer"),
        ({"auth": {"type": "basic", "token": "x"}}, "bearer"),
        ({"auth": {"type": "bearer"}}, "token"),
        ({"auth": {"type": "bearer", "token": " "}}, "token"),
        ({"auth": {"type": "bearer", "token": 7}}, "token"),
        ({"auth": {"type": "bearer", "token": "a\nb"}}, "a header cannot contain"),
        ({"auth": {"type": "bearer", "token": "x", "scope": "y"}}, "unknown fields: scope"),
        ({"options": {"pol_interval_ms": 1}}, "pol_interval_ms"),
        ({"options": {"poll_interval_ms": 0}}, "poll_interval_ms"),
        ({"options": {"poll_interval_ms": "fast"}}, "options"),
        ({"options": {"history_length": -1}}, "history_length"),
        ({"options": {"history_length": 2**32}}, "history_length"),
        ({"options": {"return_immediately": 1}}, "options"),
        ({"options": {"private_hosts": ["x"]}}, "private_hosts"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidBackendConfig, match=problem) as refused:
        factory().validate(endpoint(**given))
    assert "secret" not in str(refused.value)


def test_a_token_is_not_shown() -> None:
    config = config_of(endpoint(auth={"type": "bearer", "token": " a-secret-token "}))
    assert config.token is not None
    assert config.token.reveal() == "a-secret-token"
    assert "a-secret-token" not in repr(config)


def factory() -> A2ABackendFactory:
    return A2ABackendFactory(Outbound(), SystemClock())


def test_one_agent_has_one_backend_so_that_an_abort_finds_what_a_run_began() -> None:
    made = factory()
    assert isinstance(made, ExecutionBackendFactory)
    first = made.build(endpoint(target="a"))
    assert made.build(endpoint(target="a")) is first
    assert made.build(endpoint(target="b")) is not first
    asyncio.run(made.close())
    assert made.build(endpoint(target="a")) is not first


def test_the_capabilities_are_those_of_a_remote_that_keeps_its_state() -> None:
    found = factory().build(endpoint()).capabilities()
    assert found.cancellation is CancellationCapability.REMOTE_ABORT
    assert (found.decisions, found.overrides, found.frontend_tools) == (False,) * 3
    assert found.continuation is ContinuationCapability.REMOTE_STATE
    assert found.waits is WaitCapability.INPUT_AND_AUTH
    incremental = TranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE
    assert found.transcript is incremental
    assert found.output is OutputCapability.TEXT_AND_ARTIFACTS
