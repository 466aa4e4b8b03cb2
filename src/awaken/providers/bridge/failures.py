"""The translation of errors of pydantic-ai, or of an SDK below it, into ours."""

from pydantic_ai import exceptions as theirs

from awaken.contracts.models import errors as ours
from awaken.contracts.models.errors import ModelError
from awaken.providers.http.failures import MESSAGE_CHARS, failure, retry_after_ms

_BY_CLASS: tuple[tuple[type[Exception], type[ModelError]], ...] = (
    (theirs.ContentFilterError, ours.ContentFiltered),
    (theirs.UnexpectedModelBehavior, ours.MalformedAnswer),
    (theirs.UsageLimitExceeded, ours.QuotaExceeded),
    (theirs.ConcurrencyLimitExceeded, ours.Overloaded),
    (theirs.ModelRateLimitError, ours.RateLimited),
    (theirs.ModelQuotaExceededError, ours.QuotaExceeded),
    (theirs.ModelUnavailableError, ours.Overloaded),
    (theirs.ModelServerError, ours.ProviderFailed),
    (theirs.ModelTimeoutError, ours.ModelTimeout),
    (theirs.ModelRequestTimeout, ours.ModelTimeout),
    (theirs.ModelContextWindowExceededError, ours.ContextOverflow),
    (theirs.ModelAuthenticationError, ours.Unauthorized),
    (theirs.ModelNotFoundError, ours.ModelNotFound),
    (theirs.ModelRequestRejectedError, ours.InvalidRequest),
    (theirs.UserError, ours.InvalidRequest),
    (TimeoutError, ours.ModelTimeout),
)
"""The first match counts: narrow classes of the library come before wide ones."""

_WAIT_S = 1e9


def failure_of(error: Exception, *, has_begun: bool) -> ModelError:
    """Return our error; `has_begun` is True if the stream had begun before it failed."""
    if isinstance(error, ModelError):
        return error
    wait_ms = _wait_ms(error)
    text = (str(error) or type(error).__name__)[:MESSAGE_CHARS]
    found = next((made for known, made in _BY_CLASS if isinstance(error, known)), None)
    if found is not None:
        return found(text, retry_after_ms=wait_ms)
    if isinstance(error, theirs.ModelHTTPError):
        kind = error.provider_error_code or error.provider_error_type
        return failure(error.status_code, kind, str(error.body or ""), wait_ms)
    if isinstance(error, theirs.ModelConnectionError | OSError):
        return (ours.StreamInterrupted if has_begun else ours.TransportFailed)(text)
    return ours.ProviderFailed(f"{type(error).__name__}: {text}")


def _wait_ms(error: Exception) -> int | None:
    wait = getattr(error, "retry_after", None)
    if wait is None:
        return retry_after_ms(getattr(error, "headers", None) or {})
    return int(wait * 1000) if 0 <= wait < _WAIT_S else None
