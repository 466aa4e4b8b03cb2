"""Which error a provider's failure is, whatever its shape."""

import json
from typing import Any

import pytest

from awaken.contracts.models.errors import (
    ContextOverflow,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    Overloaded,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
)
from awaken.outbound.sse import SseDecoder
from awaken.providers.http.failures import MESSAGE_CHARS, failure_of_body, failure_of_event

GOOGLE = "type.googleapis.com/google.rpc"


def found(status: int, body: Any, path: str = "", **headers: str) -> ModelError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return failure_of_body(status, headers, raw, path)


def problem(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


OVERFLOWS = [
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    "the request exceeds the available context size, try increasing it",
    "The prompt (total length 9000) is longer than the maximum model length of 8192.",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_every_word_for_a_full_window_is_understood(text: str) -> None:
    assert type(found(400, problem(text, type="invalid_request_error"))) is ContextOverflow


def test_a_full_window_that_is_called_a_validation_error_is_one() -> None:
    body = {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096", "error_type": "x"}
    assert type(found(422, body)) is ContextOverflow


def test_a_limit_of_tokens_per_minute_is_no_full_window() -> None:
    assert type(found(429, problem("too many tokens", type="tokens"))) is RateLimited


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, problem("Your credit balance is too low.", type="invalid_request_error")),
        (429, problem("You exceeded your current quota, please check your plan and billing.")),
        (429, problem("please check your plan and billing", status="RESOURCE_EXHAUSTED")),
        (429, problem("Insufficient balance or no resource package.", code="1113")),
        (429, problem("wait", type="exceeded_current_quota_error")),
    ],
)
def test_an_empty_account_is_not_waited_for(status: int, body: Any) -> None:
    error = found(status, body)
    assert type(error) is QuotaExceeded
    assert not error.retryable


def test_a_quota_that_comes_back_is_waited_for_as_long_as_the_provider_says() -> None:
    delay = {"@type": f"{GOOGLE}.RetryInfo", "retryDelay": "27.5s"}
    text = "You exceeded your current quota, please check your plan and billing details."
    error = found(429, problem(text, status="RESOURCE_EXHAUSTED", details=[{}, 7, delay]))
    assert type(error) is RateLimited
    assert error.retry_after_ms == 27_500
    header = found(429, problem(text, details=[delay]), **{"retry-after": "3"})
    assert header.retry_after_ms == 3_000


def test_an_account_that_is_empty_stays_so_whatever_is_said_of_waiting() -> None:
    body = problem("please check your plan and billing", code="insufficient_quota")
    assert type(found(429, body, **{"retry-after": "3"})) is QuotaExceeded


@pytest.mark.parametrize("delay", [None, 5, "soon", "-1s", "9" * 20 + "s", ["1s"]])
def test_a_delay_that_is_none_is_passed_over(delay: Any) -> None:
    assert found(429, problem("no", details=[{"retryDelay": delay}])).retry_after_ms is None


@pytest.mark.parametrize(
    "body",
    [
        problem(
            "API key not valid. Please pass a valid API key.",
            status="INVALID_ARGUMENT",
            details=[{"@type": f"{GOOGLE}.ErrorInfo", "reason": "API_KEY_INVALID"}],
        ),
        problem("API key expired.", details=[{"reason": "API_KEY_INVALID"}]),
        problem("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"),
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided."},
    ],
)
def test_a_wrong_key_is_one_although_the_status_blames_the_request(body: Any) -> None:
    assert type(found(400, body)) is Unauthorized


def test_a_status_tells_more_than_a_word_for_everything() -> None:
    assert type(found(404, problem("no such model", type="api_error"))) is ModelNotFound
    assert type(found(400, problem("no", type="api_error"))) is InvalidRequest
    assert type(found(529, problem("full", type="api_error"))) is Overloaded
    assert type(failure_of_event(b'{"type":"api_error","message":"x"}')) is ProviderFailed


def test_a_model_that_broke_down_is_the_providers_failure() -> None:
    assert type(found(424, {"message": "x", "type": "ModelErrorException"})) is ProviderFailed


@pytest.mark.parametrize("code", [None, 400.0, 7.5, True, [], {}])
@pytest.mark.parametrize("message", [None, 5, [], {"a": 1}])
def test_no_field_of_a_wrong_type_hides_the_kind(code: Any, message: Any) -> None:
    body = problem("", type="overloaded_error", code=code) | {}
    body["error"]["message"] = message
    assert type(found(400, body)) is Overloaded
    assert type(failure_of_event(json.dumps(body).encode())) is Overloaded


def test_a_path_that_is_not_there_is_named() -> None:
    error = found(404, b"404 page not found\n", "/chat/completions")
    assert type(error) is ModelNotFound
    assert "/chat/completions: 404 page not found" in str(error)
    assert "/chat/completions" in str(found(404, b"x" * 9_000, "/chat/completions"))
    assert len(str(found(404, b"x" * 9_000, "/" * 9_000))) < MESSAGE_CHARS + 50
    assert "/chat/completions" not in str(found(400, b"no", "/chat/completions"))


@pytest.mark.parametrize("event", [b"data:", b"data: ", b"data:\ndata:", b"event: ping\ndata: "])
def test_an_event_with_nothing_in_it_is_none(event: bytes) -> None:
    assert SseDecoder().feed(event + b"\n\ndata: x\n\n") == [b"x"]
