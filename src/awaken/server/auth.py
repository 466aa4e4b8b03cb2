"""Authentication: who the caller is, and what it may do."""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Protocol

from awaken.contracts.clock import Clock
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, Principal

from .addresses import is_loopback
from .config import ANONYMOUS, ServerConfig, is_token
from .json_web_tokens import WebTokens
from .quotas import Rates

LOCAL = Principal(id="local", access=frozenset(Access))
"""The caller of a server without authentication."""

_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "via"})
"""A proxy that forwards another client's request sets one of these headers."""


class Authenticator(Protocol):
    """Identifies the caller by a request's headers."""

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """Return the caller, if it has the scope; `client` is the address that it calls from.

        Raises:
            HttpError: 401 when it is unknown, 403 when it lacks the scope or has a tenant where
                none is allowed, 429 after too many failed attempts.
        """
        ...


def build_authenticator(config: ServerConfig, clock: Clock) -> Authenticator:
    """Make the authenticator that a config asks for."""
    return (
        TokenAuthenticator(config, clock)
        if config.requires_authentication
        else LocalAuthenticator(config)
    )


class LocalAuthenticator:
    """Grants everything to callers on this machine, and nothing to others.

    It grants everything to every caller if the config says that a proxy authenticates them. A
    caller without an address, as on a socket file, may be a remote client behind a proxy, and so
    may a local caller whose request was forwarded: both count as remote.
    """

    def __init__(self, config: ServerConfig | None = None) -> None:
        self._is_guarded = config is not None and config.is_guarded_elsewhere

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """Return the local caller, or the anonymous one on an open route."""
        if self._is_guarded or (is_loopback(client) and _FORWARDED.isdisjoint(headers)):
            return LOCAL
        if access is Access.OPEN:
            return ANONYMOUS
        raise _unknown("admin authentication required")


class TokenAuthenticator:
    """Requires a bearer token: a configured one, or a signed one."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        self._known = [
            (it.digest, Principal(id=it.id, access=it.access, tenant_id=it.tenant_id))
            for it in config.tokens
        ]
        self._web_tokens = None if config.jwt is None else WebTokens(config.jwt, clock)
        self._failures = Rates(config.limits.login_failures, clock)

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """Return the caller, if its token has the scope."""
        if access is Access.OPEN:
            return ANONYMOUS
        principal = self._caller(_bearer(headers.get("authorization")), client)
        principal.check(access)
        return principal

    def _caller(self, token: str, client: str) -> Principal:
        """The caller of a token; a valid one is accepted whatever failed from that address."""
        digest = sha256(token.encode()).digest()
        found = None
        for known, principal in self._known:
            if compare_digest(known, digest):
                found = principal
        if found is None and self._web_tokens is not None:
            found = self._web_tokens.principal(token, digest)
        if found is None:
            # Clients may share an address, as behind a proxy: only wrong tokens are limited.
            self._failures.check(client, "Too many failed logins.")
            self._failures.count(client)
            raise _unknown("invalid admin bearer token", b' error="invalid_token"')
        return found


def _bearer(value: str | None) -> str:
    if value is None:
        raise _unknown("admin authentication required")
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise _unknown("Authorization header must use Bearer authentication")
    token = token.strip()
    if not is_token(token):
        raise _unknown("invalid Authorization header")
    return token


def _unknown(message: str, detail: bytes = b"") -> HttpError:
    return HttpError(401, "unauthorized", message, ((b"www-authenticate", b"Bearer" + detail),))
