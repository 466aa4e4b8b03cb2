"""Authentication: who the caller is, and what it may do."""

import inspect
import logging
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Protocol, cast

from awaken.authoring.foreign_calls import CallTookTooLong, call_within
from awaken.authoring.functions import is_interruption
from awaken.contracts.clock import Clock
from awaken.redaction import make_loggable
from awaken.transport.problems import HttpError
from awaken.transport.routes import SCOPES, Access, Principal

from .addresses import check_own_page, is_loopback
from .config import ANONYMOUS, ServerConfig, is_principal_id, is_tenant, is_token
from .exchange import HttpExchange
from .json_web_tokens import WebTokens
from .login_requests import Authenticate, AuthRequest
from .quotas import Permits, Rates, retry_after

logger = logging.getLogger(__name__)

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
        token = _bearer(headers.get("authorization"))
        # A valid token is accepted whatever failed from that address.
        principal = self.find(token)
        if principal is None:
            raise self.refuse_token(client)
        principal.check(access)
        return principal

    def refuse_token(self, client: str) -> HttpError:
        """Count a wrong token, and return its refusal.

        Raises:
            HttpError: 429 after too many of them.
        """
        # Clients may share an address, as behind a proxy: only wrong tokens are limited.
        self._failures.check(client, "Too many failed logins.")
        self._failures.count(client)
        return _unknown("invalid admin bearer token", b' error="invalid_token"')

    def find(self, token: str) -> Principal | None:
        """The caller of a token; None if it is unknown."""
        digest = sha256(token.encode()).digest()
        found = None
        for known, principal in self._known:
            if compare_digest(known, digest):
                found = principal
        if found is None and self._web_tokens is not None:
            found = self._web_tokens.principal(token, digest)
        return found


class LoginAuthenticator:
    """Asks the host's own `authenticate` who the caller is, unless it has a configured token.

    Fails closed: if the function raises, hangs or returns anything else, nothing is executed.
    """

    def __init__(
        self, authenticate: Authenticate, config: ServerConfig, tokens: TokenAuthenticator
    ) -> None:
        self._authenticate = authenticate
        self._tokens = tokens
        self._seconds = config.limits.login_ms / 1000
        self._permits = Permits("logins", config.limits.logins, config.limits.logins)
        # Their own threads: logins that hang must not take those of the tools.
        self._threads = None if _is_async(authenticate) else ThreadPoolExecutor(8, "awaken-login")

    @classmethod
    def of(cls, config: ServerConfig, authenticator: Authenticator) -> "LoginAuthenticator | None":
        """Make one if the config has its own logins."""
        if config.authenticate is None:
            return None
        assert isinstance(authenticator, TokenAuthenticator)
        return cls(config.authenticate, config, authenticator)

    async def admit(self, exchange: HttpExchange, access: Access) -> Principal:
        """Return the caller, if it has the scope.

        Raises:
            HttpError: 401 when it is unknown, 403 when it lacks the scope or a cookie comes from
                another page, 503 when `authenticate` failed or took too long.
        """
        if access is Access.OPEN:
            return ANONYMOUS
        headers = exchange.headers
        request = AuthRequest(
            headers=headers, method=exchange.method, path=exchange.url_path, client=exchange.client
        )
        token = request.bearer
        principal = self._tokens.find(token) if token is not None and is_token(token) else None
        if principal is None:
            # Of another page's requests, browsers let none with a bearer token through.
            if "cookie" in headers and token is None and exchange.method not in _SAFE_METHODS:
                check_own_page(headers)
            answer = await self._ask(request)
            if answer is None and token is not None:
                raise self._tokens.refuse_token(exchange.client)
            principal = _check_principal(answer)
        principal.check(access)
        return principal

    async def _ask(self, request: AuthRequest) -> object:
        """Call `authenticate` within its time."""
        self._permits.take(None)
        ask = self._authenticate
        try:
            answer: object = await call_within(self._seconds, ask, request, threads=self._threads)
        except CallTookTooLong as error:
            logger.error("authenticate took more than %s s.", self._seconds)
            message = "The login took too long; try again."
            refusal = HttpError(503, "authentication_timeout", message, (retry_after(1000),))
            raise refusal from error
        except BaseException as error:
            if is_interruption(error):
                raise
            raise _to_refusal(error) from error
        finally:
            self._permits.give_back(None)
        return answer


_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def _is_async(function: Any) -> bool:
    called = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _to_refusal(error: BaseException) -> HttpError:
    """What an exception of `authenticate` means; web frameworks have some with a status."""
    match getattr(error, "status_code", None):
        case 401:
            return _unknown("authentication required")
        case 403:
            return HttpError(403, "forbidden", "The login does not allow this.")
    logger.error("authenticate failed.", exc_info=make_loggable(error))
    return _login_failed()


def _check_principal(answer: Any) -> Principal:
    """The caller as `authenticate` names it; what could mean another caller is refused."""
    if answer is None:
        raise _unknown("authentication required")
    if (problem := _find_problem(answer)) is not None:
        logger.error("authenticate is wrong: %s; the request is refused.", problem)
        raise _login_failed()
    return cast(Principal, answer)


def _find_problem(answer: Any) -> str | None:
    if not isinstance(answer, Principal):
        return "it did not return a Principal"
    id_, tenant_id, access = cast(tuple[Any, ...], (answer.id, answer.tenant_id, answer.access))
    if not isinstance(id_, str) or not is_principal_id(id_):
        return "its principal has no id, or one that begins or ends with a space"
    if not isinstance(access, Set) or not access <= SCOPES:
        return "its principal has a scope that does not exist"
    if not isinstance(tenant_id, str | None) or not is_tenant(tenant_id):
        return "the tenant of its principal is blank or reserved, or begins or ends with a space"
    return None


def _login_failed() -> HttpError:
    message = "The login could not be checked; try again."
    return HttpError(503, "authentication_failed", message, (retry_after(1000),))


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
