"""Who calls, and what it may do."""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Protocol

from awaken.contracts.clock import Clock
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, Principal

from .addresses import is_loopback
from .config import NOBODY, ServerConfig, TokenSpec, is_token
from .json_web_tokens import WebTokens
from .rates import Rates

LOCAL = Principal(id="local", access=frozenset(Access))
"""Whoever can reach a server that asks nobody."""

_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "via"})
"""By these headers a proxy says that it calls for somebody else."""


class Authenticator(Protocol):
    """Tells from a request's headers who calls."""

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """The caller, if it may do that; `client` is the address that it calls from.

        Raises:
            Problem: 401 when it is unknown, 403 when it may not, 429 when it was wrong too often.
        """
        ...


def build_authenticator(config: ServerConfig, clock: Clock) -> Authenticator:
    """The way in that a config asks for."""
    return TokenDoor(config, clock) if config.asks_who_calls else OpenDoor(config)


class OpenDoor:
    """Lets everybody on this machine do everything, and nobody else unless others check them.

    Whoever has no address, as on a socket file, may be anybody behind a proxy; so may whoever a
    proxy on this machine calls for.
    """

    def __init__(self, config: ServerConfig | None = None) -> None:
        self._is_guarded = config is not None and config.is_guarded_elsewhere

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """The local caller, or nobody where nobody is asked."""
        if self._is_guarded or (is_loopback(client) and _FORWARDED.isdisjoint(headers)):
            return LOCAL
        if access is Access.OPEN:
            return NOBODY
        raise _unknown("admin authentication required")


class TokenDoor:
    """Asks for a bearer token: one that was configured, or a signed one."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        self._known = [(token.digest, _principal(token)) for token in config.tokens]
        self._web_tokens = None if config.jwt is None else WebTokens(config.jwt, clock)
        self._failures = Rates(config.limits.login_failures, clock)

    def admit(self, headers: Mapping[str, str], access: Access, client: str = "") -> Principal:
        """The caller, if its token allows that."""
        if access is Access.OPEN:
            return NOBODY
        principal = self._caller(_bearer(headers.get("authorization")), client)
        if not principal.may(access):
            challenge = (b"www-authenticate", b'Bearer error="insufficient_scope"')
            message = f"This needs the scope '{access.value}'."
            raise HttpError(403, "forbidden", message, (challenge,))
        return principal

    def _caller(self, token: str, client: str) -> Principal:
        """Whom a token names; it is verified first, so that no failures of others refuse it."""
        digest = sha256(token.encode()).digest()
        found = None
        for known, principal in self._known:
            if compare_digest(known, digest):
                found = principal
        if found is None and self._web_tokens is not None:
            found = self._web_tokens.principal(token, digest)
        if found is None:
            # An address may be shared, as behind a proxy: only tokens that are wrong wait.
            self._failures.check(client, "Too many failed logins.")
            self._failures.count(client)
            raise _unknown("invalid admin bearer token", b' error="invalid_token"')
        return found


def _principal(token: TokenSpec) -> Principal:
    return Principal(id=token.id, access=token.access, tenant_id=token.tenant_id)


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
