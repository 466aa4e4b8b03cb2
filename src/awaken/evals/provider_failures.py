"""How providers fail: what came of such a call says nothing about the agent that made it."""

from awaken.contracts.models.errors import (
    AllModelsUnavailable,
    ModelDisabled,
    ModelNotFound,
    ModelTimeout,
    Overloaded,
    ProviderBroken,
    ProviderFailed,
    ProviderUnusable,
    QuotaExceeded,
    RateLimited,
    StreamInterrupted,
    TransportFailed,
    Unauthorized,
)

PROVIDER_CODES = frozenset(
    it.code
    for it in (
        AllModelsUnavailable,
        ModelDisabled,
        ModelNotFound,
        ModelTimeout,
        Overloaded,
        ProviderBroken,
        ProviderFailed,
        ProviderUnusable,
        QuotaExceeded,
        RateLimited,
        StreamInterrupted,
        TransportFailed,
        Unauthorized,
    )
)
"""Codes of errors of providers, networks and keys."""
