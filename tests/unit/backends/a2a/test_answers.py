"""Which error an answer of the other side is, and which way of asking its card asks for."""

from typing import Any

import msgspec
import pytest

from awaken.backends.a2a.bindings import RestBinding, RpcBinding, choose_binding
from awaken.backends.a2a.channel import Channel
from awaken.backends.a2a.config import config_of
from awaken.backends.a2a.failures import (
    RemoteNotFound,
    RemoteNotReached,
    RemoteTaskEnded,
    RemoteTaskUnknown,
    failure_of_error,
    failure_of_status,
    shorten_text,
)
from awaken.backends.a2a.wire import AgentCard, Task, parse_json, read_as
from awaken.contracts.backends.errors import (
    RemoteError,
    RemoteMalformed,
    RemoteRefused,
    RemoteTooLarge,
    RemoteUnreachable,
    RemoteUnsupported,
)
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.outbound.guard import Outbound


def refusal(reason: str = "", message: str = "no") -> bytes:
    details = [{"reason": reason}] if reason else []
    return msgspec.json.encode({"error": {"message": message, "details": details}})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"", RemoteRefused),
        (403, refusal(), RemoteRefused),
        (404, b"<html>", RemoteNotFound),
        (404, refusal("TASK_NOT_FOUND"), RemoteTaskUnknown),
        (409, refusal("TASK_NOT_CANCELABLE"), RemoteTaskEnded),
        (400, refusal("UNSUPPORTED_OPERATION"), RemoteUnsupported),
        (400, refusal("INVALID_PARAMS"), RemoteRefused),
        (405, b"", RemoteUnsupported),
        (501, b"", RemoteUnsupported),
        (400, b"[1]", RemoteRefused),
        (400, b'{"error": {"details": [7, {"reason": 7}]}}', RemoteRefused),
        (408, b"", RemoteUnreachable),
        (429, b"", RemoteNotReached),
        (500, b"", RemoteUnreachable),
        (503, b"\xff", RemoteUnreachable),
        (599, b"", RemoteError),
    ],
)
def test_a_refusal_over_http_has_its_error(status: int, body: bytes, error: type) -> None:
    found = failure_of_status(status, body)
    assert type(found) is error
    assert str(status) in str(found)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"code": -32001, "message": "x"}, RemoteTaskUnknown),
        ({"code": -32002}, RemoteTaskEnded),
        ({"code": -32004}, RemoteUnsupported),
        ({"code": -32601}, RemoteUnsupported),
        ({"code": -32602}, RemoteRefused),
        ({"code": -32603}, RemoteUnreachable),
        ({"code": -1}, RemoteError),
        ({"code": True}, RemoteError),
        ({"code": "-32001"}, RemoteError),
        ({"code": -1, "data": [{"reason": "TASK_NOT_FOUND"}]}, RemoteTaskUnknown),
        ("text", RemoteMalformed),
    ],
)
def test_an_error_object_has_its_error(given: Any, error: type) -> None:
    assert type(failure_of_error(given)) is error


def test_only_what_may_pass_is_retryable() -> None:
    assert failure_of_status(503, b"").retryable
    assert not failure_of_status(400, b"").retryable


def test_foreign_text_is_short_and_on_one_line() -> None:
    assert shorten_text("a\n b\x1b[31m\u202e") == "a b[31m"
    assert len(shorten_text("x" * 10_000)) == 500


@pytest.mark.parametrize("task_id", ["", "..", "a\nb", "x" * 257, "\u00fc"])
def test_an_id_that_cannot_be_part_of_an_address_is_malformed(task_id: str) -> None:
    with pytest.raises(RemoteMalformed):
        read_as({"id": task_id, "status": {"state": "TASK_STATE_WORKING"}}, Task)


def test_json_is_read_64_levels_deep() -> None:
    assert parse_json(b"[" * 64 + b"]" * 64)
    with pytest.raises(RemoteTooLarge):
        parse_json(b"[" * 66 + b"]" * 66)
    with pytest.raises(RemoteTooLarge):
        parse_json(b"[" * 200_000 + b"]" * 200_000)
    with pytest.raises(RemoteMalformed):
        parse_json(b'"\xff"')


BASE = "https://peer.example/v1/a2a"


def binding(*interfaces: tuple[str, str, str]) -> Any:
    offered = [
        {"url": url, "protocolBinding": kind, "protocolVersion": version}
        for url, kind, version in interfaces
    ]
    channel = Channel(config_of(RemoteEndpoint(base_url=BASE)), Outbound())
    return choose_binding(read_as({"supportedInterfaces": offered}, AgentCard), channel)


def test_http_json_at_the_address_that_was_set_up_comes_first() -> None:
    assert isinstance(binding(), RestBinding)
    both = (f"{BASE}/x", "JSONRPC", "1.0"), (BASE, "HTTP+JSON", "1.0")
    assert isinstance(binding(*both), RestBinding)


def test_json_rpc_is_spoken_where_nothing_else_is_offered() -> None:
    elsewhere = ("https://other.example", "HTTP+JSON", "1.0")
    first, exact = f"{BASE}/rpc", f"{BASE}/"
    found = binding(elsewhere, (first, "JSONRPC", "1.0"))
    assert isinstance(found, RpcBinding)
    assert found._url == first
    assert binding((first, "JSONRPC", "1.0"), (exact, "JSONRPC", "1.1"))._url == exact


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/v1/a2a",
        "http://peer.example/v1/a2a",
        "https://peer.example:444/v1/a2a",
        "https://peer.example@other.example/",
        "no url",
    ],
)
def test_an_interface_at_another_origin_is_refused(url: str) -> None:
    with pytest.raises(RemoteRefused, match="points to"):
        binding((url, "JSONRPC", "1.0"))


@pytest.mark.parametrize("offer", [(BASE, "GRPC", "1.0"), (BASE, "JSONRPC", "0.3.0")])
def test_an_agent_that_speaks_something_else_is_told_so(offer: tuple[str, str, str]) -> None:
    with pytest.raises(RemoteUnsupported, match=offer[1]):
        binding(offer)
