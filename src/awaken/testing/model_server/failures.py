"""How vendors say that they failed: the word and the status of each for every model error."""

from collections.abc import Mapping
from typing import NamedTuple

from awaken.contracts.models import errors as errors
from awaken.testing.scripted_model import Failure


class ScriptedRefusal(NamedTuple):
    """A failure in the words of every vendor."""

    status: int
    openai: str
    anthropic: str = "invalid_request_error"
    gemini: str = "INVALID_ARGUMENT"
    message: str = ""
    retry_after_ms: int | None = None


_REFUSALS: Mapping[type[BaseException], ScriptedRefusal] = {
    errors.RateLimited: ScriptedRefusal(
        429, "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"
    ),
    errors.QuotaExceeded: ScriptedRefusal(
        429, "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"
    ),
    errors.Overloaded: ScriptedRefusal(503, "slow_down", "overloaded_error", "UNAVAILABLE"),
    errors.ModelTimeout: ScriptedRefusal(
        504, "timeout_error", "timeout_error", "DEADLINE_EXCEEDED"
    ),
    errors.ProviderFailed: ScriptedRefusal(500, "server_error", "api_error", "INTERNAL"),
    errors.ContextOverflow: ScriptedRefusal(400, "context_length_exceeded"),
    errors.InvalidRequest: ScriptedRefusal(400, "invalid_request_error"),
    errors.ContentFiltered: ScriptedRefusal(400, "content_filter"),
    errors.Unauthorized: ScriptedRefusal(
        401, "invalid_api_key", "authentication_error", "UNAUTHENTICATED"
    ),
    errors.ModelNotFound: ScriptedRefusal(404, "model_not_found", "not_found_error", "NOT_FOUND"),
}


def is_break(failure: Failure) -> bool:
    """Whether the failure is that the connection breaks, not that the vendor says something."""
    kind = failure if isinstance(failure, type) else type(failure)
    return issubclass(kind, errors.StreamInterrupted | errors.TransportFailed)


def refusal_of(failure: Failure) -> ScriptedRefusal:
    """Return the vendor's words; what is no model error is a failure of the vendor's own."""
    kind = failure if isinstance(failure, type) else type(failure)
    made = _REFUSALS.get(kind, _REFUSALS[errors.ProviderFailed])
    message = f"Scripted {kind.__name__}." if isinstance(failure, type) else str(failure)
    wait = failure.retry_after_ms if isinstance(failure, errors.ModelError) else None
    return made._replace(message=message, retry_after_ms=wait)
