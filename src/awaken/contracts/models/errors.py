"""How a model call fails: one class for each cause, chosen where the failure is seen.

`retryable` says whether the same call can succeed later. `blames_request` says that no other
model would do better: such a failure neither counts against a model nor leads to another one.
"""

from typing import ClassVar

from awaken.contracts.errors import RunError, field


class ModelError(RunError):
    """A model call failed; the class decides whether trying again can help."""

    code = "model_error"
    template = "{message}"
    blames_request: ClassVar[bool] = False
    message: str = field(kw_only=False)
    retry_after_ms: int | None = None
    """How long the provider asked to wait before the next call."""

    @property
    def counts_against_model(self) -> bool:
        """Whether the model's circuit breaker counts it."""
        return self.retryable


class ProviderFailed(ModelError):
    """The provider answered with an error of its own."""

    code = "provider_failed"
    retryable = True


class ProviderBroken(ModelError):
    """The provider's adapter broke its contract; asking it again would not mend it."""

    code = "provider_broken"


class RateLimited(ModelError):
    """Too many requests; wait for `retry_after_ms`."""

    code = "rate_limited"
    retryable = True


class Overloaded(ModelError):
    """The provider has no capacity right now."""

    code = "overloaded"
    retryable = True


class ModelTimeout(ModelError):
    """The provider did not answer in time, or stopped sending."""

    code = "model_timeout"
    retryable = True


class TransportFailed(ModelError):
    """The provider could not be reached, or the connection broke before an answer."""

    code = "transport_failed"
    retryable = True


class StreamInterrupted(ModelError):
    """The stream broke off in the middle of an answer."""

    code = "stream_interrupted"
    retryable = True


class MalformedAnswer(ModelError):
    """What the provider sent is not its own protocol."""

    code = "malformed_answer"
    retryable = True


class AnswerTooLarge(ModelError):
    """The answer exceeds a bound; more of it was not read."""

    code = "answer_too_large"


class ContextOverflow(ModelError):
    """The request is larger than the model's window."""

    code = "context_overflow"
    blames_request = True


class InvalidRequest(ModelError):
    """The provider rejected the request."""

    code = "invalid_request"
    blames_request = True


class ContentFiltered(ModelError):
    """The provider's content filter refused."""

    code = "content_filtered"
    blames_request = True


class Unauthorized(ModelError):
    """The credentials are missing or wrong."""

    code = "unauthorized"


class QuotaExceeded(ModelError):
    """The account has no credit left; waiting does not help."""

    code = "quota_exceeded"


class ModelNotFound(ModelError):
    """The provider has no such model."""

    code = "model_not_found"


class AllModelsUnavailable(ModelError):
    """Every model that could answer is refused by its breaker, so no other one is left to ask."""

    code = "all_models_unavailable"
    blames_request = True


class ModelDisabled(ModelError):
    """An operator has disabled every model that could answer."""

    code = "model_disabled"
    blames_request = True


class ProviderUnusable(ModelError):
    """The provider cannot be used on this machine: an extra is missing, or a setting is wrong."""

    code = "provider_unusable"
