"""Reads the backend's settings from the endpoint of an agent's spec."""

from typing import Any, Literal
from urllib.parse import quote

import msgspec
from yarl import URL

from awaken.contracts.backends.errors import InvalidBackendConfig
from awaken.contracts.identity import normalize_id
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.secrets import RedactedString, SecretReference
from awaken.contracts.specs.agents import RemoteEndpoint

NAME = "a2a"


class A2aOptions(StrictRecord, frozen=True, kw_only=True):
    """The options of an endpoint."""

    poll_interval_ms: int = 2000
    history_length: int | None = None
    return_immediately: bool = True
    binding: Literal["HTTP+JSON", "JSONRPC"] | None = None
    """Which binding to use; if it is set, the agent's card is not read."""


class A2AConfig(Record, frozen=True, kw_only=True):
    """One agent at one server."""

    base_url: str
    """Without a trailing slash."""
    target: str | None = None
    """Which agent at the address; the protocol calls it a tenant."""
    token: RedactedString | None = None
    timeout_ms: int = 300_000
    options: A2aOptions = A2aOptions()

    @property
    def url(self) -> str:
        """Where the operations of HTTP+JSON are."""
        return self.base_url + (f"/{quote(self.target, safe='')}" if self.target else "")

    @property
    def key(self) -> str:
        """The key of the checkpoint of the work there."""
        return f"{NAME}:{self.url}"

    @property
    def origin(self) -> str:
        """The only origin that is called, and that gets the token."""
        return origin_of(self.base_url)


def config_of(endpoint: RemoteEndpoint) -> A2AConfig:
    """Read and check an endpoint, without sending a request.

    Raises:
        InvalidBackendConfig: The endpoint is invalid; the message says why, without secrets.
    """
    if endpoint.backend != NAME:
        raise _invalid(f"its backend is '{endpoint.backend}'")
    if endpoint.timeout_ms <= 0:
        raise _invalid("timeout_ms must be positive")
    target = normalize_id(endpoint.target)
    if target in (".", ".."):
        raise _invalid("target is not a name")
    return A2AConfig(
        base_url=_base_url(endpoint.base_url.strip()),
        target=target,
        token=_token(endpoint.auth),
        timeout_ms=endpoint.timeout_ms,
        options=_options(endpoint.options),
    )


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL.

    Raises:
        ValueError: It has none.
    """
    found = URL(url)
    if found.scheme not in ("http", "https") or not found.raw_host:
        message = "not a web address"
        raise ValueError(message)
    return str(found.origin())


def _base_url(url: str) -> str:
    try:
        found = URL(url)
        origin_of(url)
    except ValueError as error:
        raise _invalid("base_url must be an http:// or https:// address") from error
    if found.raw_user is not None or found.raw_password is not None:
        raise _invalid("base_url must not contain credentials; a token belongs into auth")
    if found.raw_query_string or found.raw_fragment:
        raise _invalid("base_url must not have a query or a fragment")
    return str(found).rstrip("/")


def _token(auth: dict[str, Any] | None) -> RedactedString | None:
    if auth is None:
        return None
    if auth.get("type") != "bearer":
        raise _invalid("auth must be of type 'bearer'")
    token = auth.get("token")
    if unknown := set(auth) - {"type", "token"}:
        raise _invalid(f"auth has unknown fields: {', '.join(sorted(unknown))}")
    if isinstance(token, SecretReference):
        # It is resolved for each call, so that it may change.
        return token
    if isinstance(token, RedactedString):
        token = token.reveal()
    if not isinstance(token, str) or not token.strip():
        raise _invalid("auth needs a token that is not empty")
    token = token.strip()
    if not is_header_text(token):
        raise _invalid("the token of auth has characters that a header cannot contain")
    return RedactedString(token)


def is_header_text(token: str) -> bool:
    """Whether a header can contain a token."""
    return token.isascii() and token.isprintable()


def _options(given: dict[str, Any]) -> A2aOptions:
    try:
        options = msgspec.convert(given, A2aOptions)
    except msgspec.ValidationError as error:
        raise _invalid(f"options: {error}") from error
    if options.poll_interval_ms <= 0:
        raise _invalid("options: poll_interval_ms must be positive")
    if not 0 <= (options.history_length or 0) < 2**32:
        raise _invalid("options: history_length must be from 0 to 4294967295")
    return options


def _invalid(problem: str) -> InvalidBackendConfig:
    return InvalidBackendConfig(backend=NAME, problem=problem)
