"""How a provider's failure is classified: by its own error code, then by its status.

Used for error responses and for errors in the middle of a stream alike.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from awaken.contracts.models.errors import (
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    Overloaded,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
)

MESSAGE_CHARS = 500

_BY_KIND: Mapping[str, type[ModelError]] = {
    "insufficient_quota": QuotaExceeded,
    "billing_error": QuotaExceeded,
    "billing_hard_limit_reached": QuotaExceeded,
    "exceeded_current_quota_error": QuotaExceeded,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "resource_exhausted": RateLimited,
    "throttlingexception": RateLimited,
    "overloaded_error": Overloaded,
    "overloaded": Overloaded,
    "unavailable": Overloaded,
    "serviceunavailableexception": Overloaded,
    "modelnotreadyexception": Overloaded,
    "slow_down": Overloaded,
    "timeout_error": ModelTimeout,
    "deadline_exceeded": ModelTimeout,
    "vector_store_timeout": ModelTimeout,
    "modeltimeoutexception": ModelTimeout,
    "api_error": ProviderFailed,
    "server_error": ProviderFailed,
    "internal": ProviderFailed,
    "internalserverexception": ProviderFailed,
    "modelstreamerrorexception": ProviderFailed,
    "modelerrorexception": ProviderFailed,
    "context_length_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "request_too_large": ContextOverflow,
    "content_filter": ContentFiltered,
    "content_policy_violation": ContentFiltered,
    "image_content_policy_violation": ContentFiltered,
    "misalignment_policy_violation": ContentFiltered,
    "bio_policy": ContentFiltered,
    "invalid_prompt": ContentFiltered,
    "authentication_error": Unauthorized,
    "permission_error": Unauthorized,
    "invalid_api_key": Unauthorized,
    "api_key_invalid": Unauthorized,
    "unauthenticated": Unauthorized,
    "permission_denied": Unauthorized,
    "accessdeniedexception": Unauthorized,
    "model_not_found": ModelNotFound,
    "not_found_error": ModelNotFound,
    "not_found": ModelNotFound,
    "resourcenotfoundexception": ModelNotFound,
}
_BY_STATUS: Mapping[int, type[ModelError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    402: QuotaExceeded,
    403: Unauthorized,
    404: ModelNotFound,
    408: ModelTimeout,
    413: ContextOverflow,
    422: InvalidRequest,
    429: RateLimited,
    500: ProviderFailed,
    502: ProviderFailed,
    503: Overloaded,
    504: ModelTimeout,
    529: Overloaded,
}
_VAGUE = "api_error"
"""A generic code: the status says more."""
_OVERFLOW = re.compile(
    r"prompt is too long|context.length|input is too long|maximum context|reduce the length"
    r"|too many tokens|request too large|exceeds the maximum number of tokens|context window"
    r"|exceeds? (the )?context limit|maximum prompt length|available context size"
    r"|maximum model length|`inputs` tokens \+",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"credit balance is too low|check your plan and billing|insufficient (account )?balance",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(incorrect|invalid) api key|api key (is )?(not valid|invalid)", re.IGNORECASE
)
_BY_WORDING: tuple[tuple[tuple[int | None, ...], re.Pattern[str], type[ModelError]], ...] = (
    ((None, 400, 422), _OVERFLOW, ContextOverflow),
    ((None, 400, 403, 429), _NO_CREDIT, QuotaExceeded),
    ((400,), _BAD_KEY, Unauthorized),
)
"""Messages of vendors that are sent with an ambiguous status."""
_BY_TEXT: tuple[tuple[re.Pattern[str], type[ModelError]], ...] = (
    (re.compile(r"content.?filter|content.?policy|safety system", re.IGNORECASE), ContentFiltered),
    (re.compile(r"overloaded|at capacity", re.IGNORECASE), Overloaded),
    (re.compile(r"rate.?limit|too many requests|\b429\b", re.IGNORECASE), RateLimited),
    (re.compile(r"timed? ?out|timeout", re.IGNORECASE), ModelTimeout),
)


def failure(
    status: int | None, kind: str | None, message: str, retry_after_ms: int | None = None
) -> ModelError:
    """Return the error for a failure that a provider reports: status, error code and text."""
    text = message.strip()[:MESSAGE_CHARS] or "the provider gave no reason"
    made = _class_of(status, (kind or "").lower(), text, can_wait=retry_after_ms is not None)
    shown = text if status is None else f"{text} (HTTP {status})"
    return made(shown, retry_after_ms=retry_after_ms)


def _class_of(status: int | None, kind: str, text: str, *, can_wait: bool) -> type[ModelError]:
    found = None if kind == _VAGUE and status is not None else _BY_KIND.get(kind)
    # Gemini uses one text for monthly and for minute limits; only the latter has a delay.
    if not can_wait if status == 429 else found is None:
        for statuses, wording, made in _BY_WORDING:
            if status in statuses and wording.search(text):
                return made
    if found is not None:
        return found
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and 400 <= status < 500:
        return InvalidRequest
    if kind.startswith("invalid_") or "image" in kind or kind == "validationexception":
        return InvalidRequest
    return next((made for word, made in _BY_TEXT if word.search(text)), ProviderFailed)


def failure_of_body(
    status: int, headers: Mapping[str, str], body: bytes, path: str = ""
) -> ModelError:
    """Return the error for an unsuccessful response; `path` is the path of the request."""
    problem = _read_problem(body)
    wait_ms, message = retry_after_ms(headers), problem.message
    if status == 404 and path:
        # The model may not exist, or the base URL may be wrong.
        message = f"{path}: {message}"
    return failure(status, problem.kind, message, problem.wait_ms if wait_ms is None else wait_ms)


def failure_of_event(data: bytes) -> ModelError:
    """Return the error that a provider reports in the middle of a stream."""
    problem = _read_problem(data)
    status = problem.code if problem.code in _BY_STATUS else None
    return failure(status, problem.kind, problem.message, problem.wait_ms)


def is_failure(body: bytes) -> bool:
    """Whether a JSON document reports a failure."""
    return _read_problem(body).has_error


class _Problem(NamedTuple):
    message: str
    has_error: bool = False
    kind: str | None = None
    code: int | None = None
    wait_ms: int | None = None


def _read_problem(body: bytes) -> _Problem:
    """Read what a failure says; accepts every shape, because there is no other information."""
    text = body.decode(errors="replace")
    try:
        read = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _Problem(message=text)
    # Gemini wraps errors in a list if a stream was requested.
    whole = _object(read[0] if isinstance(read, list) and read else read)
    error = whole.get("error")
    found = _object(error) or whole
    texts = (error, found.get("message"), whole.get("message"), found.get("detail"))
    message = next((it for it in texts if isinstance(it, str) and it), None)
    details = [_object(it) for it in _list(found.get("details"))]
    code = found.get("code")
    return _Problem(
        message=message or (text if found else ""),
        has_error=bool(error or message),
        kind=_kind([*(it.get("reason") for it in details), code, found.get("status")], found),
        code=int(code) if isinstance(code, int | float) and abs(code) < 1000 else None,
        wait_ms=next(filter(None, (_delay_ms(it.get("retryDelay")) for it in details)), None),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind(words: list[Any], found: dict[str, Any]) -> str | None:
    """Return the most specific of the codes that a provider has for one failure."""
    texts = [word for word in (*words, found.get("type")) if isinstance(word, str)]
    return next((word for word in texts if word.lower() in _BY_KIND), texts[-1] if texts else None)


def _delay_ms(text: Any) -> int | None:
    """Read `27.5s`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", text) if isinstance(text, str) else None
    return int(float(found[1]) * 1000) if found else None


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return how long the provider asks to wait: milliseconds, seconds, or until a date."""
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            wanted = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        # One comparison refuses NaN and infinity as well.
        return int(wanted) if 0 <= wanted < 1e12 else None
    return _until(headers.get("retry-after"), headers.get("date"))


def _until(then: str | None, now: str | None) -> int | None:
    if not then or not now:
        return None
    try:
        wait = parsedate_to_datetime(then) - parsedate_to_datetime(now)
    except (ValueError, TypeError):
        return None
    return max(0, int(wait.total_seconds() * 1000))
