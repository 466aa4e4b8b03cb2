"""OAuth tokens for other servers: the flows of the MCP SDK, with limits and typed errors.

Needs the extra `mcp`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match, union_scopes
from mcp.shared import auth
from pydantic import AnyUrl, BaseModel

from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString, SecretUnresolved

from . import private_files
from .credentials import (
    AuthorizationFailed,
    ClientCredentials,
    Login,
    LoginRequired,
    OAuth,
    is_confidential,
)

_TRIES = 3
_LONG_AGO = 1.0
_SHOWN = 300

Person = Callable[[str], Awaitable[Mapping[str, str]]]
"""Shows the login page to a person, and returns the query of the browser's redirect."""
Send = Callable[[httpx2.Request, bool], Awaitable[httpx2.Response]]
"""Sends a request: to the server, or, if the flag is set, to the authorization server."""
_Flow = AsyncGenerator[httpx2.Request, httpx2.Response]


def _drop_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = record.exc_text = None
    return True


# The SDK's error texts may contain tokens; our own errors report the problem.
logging.getLogger("mcp.client.auth.oauth2").addFilter(_drop_traceback)


class Authorized:
    """Adds a token to requests, and obtains one if there is none or the server refuses it.

    The SDK's flow is used only to obtain the next token, because it serializes all requests.
    """

    def __init__(
        self, url: str, oauth: OAuth, send: Send, *, person: Person | None, way_out: str
    ) -> None:
        """Without a person no login is started; `way_out` says what the operator has to do then."""
        self._send, self._way_out = send, way_out
        self._url, self._oauth, self._person = url, oauth, person
        self._secrets = _read_secrets(oauth)
        self._provider = _build_provider(url, oauth, person)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response; it is sent again if its token was refused.

        Raises:
            LoginRequired: An operator has to log in.
            AuthorizationFailed: No token can be obtained.
        """
        reply: httpx2.Response | None = None
        used: str | None = None
        for _ in range(_TRIES):
            if self._token in (None, used):
                final = await self._obtain(request, reply, used)
                if final is not None:
                    return final
            used = self._token
            request.headers["Authorization"] = f"Bearer {used}"
            reply = await self._send(request, False)  # noqa: FBT003 - a callable
            if not _is_refusal(reply):
                break
        assert reply is not None
        return reply

    async def _obtain(
        self, request: httpx2.Request, reply: httpx2.Response | None, used: str | None
    ) -> httpx2.Response | None:
        """Obtain another token; returns the server's response if no token can change it."""
        if (secrets := _read_secrets(self._oauth)) != self._secrets:
            self._provider = _build_provider(self._url, self._oauth, self._person)
            self._secrets = secrets
        provider = self._provider
        if reply is not None and reply.status_code == 403 and not provider.may_begin:
            return reply
        provider.forget(used)
        async with aclosing(provider.async_auth_flow(request)) as flow:
            step = await self._next(flow, None)
            while step is not None and (step is not request or self._token in (None, used)):
                if step is not request:
                    step = await self._next(flow, await self._send_aside(step))
                    continue
                if not provider.may_begin:
                    raise LoginRequired(self._way_out)
                reply = reply or await self._send(request, False)  # noqa: FBT003
                if not _is_refusal(reply):
                    return reply
                step = await self._next(flow, reply)
        return reply if step is None else None

    async def _send_aside(self, request: httpx2.Request) -> httpx2.Response:
        reply = await self._send(request, True)  # noqa: FBT003 - a callable
        try:
            await reply.aread()
        finally:
            await reply.aclose()
        return reply

    @property
    def _token(self) -> str | None:
        context = self._provider.context
        tokens = context.current_tokens if context.is_token_valid() else None
        return None if tokens is None else tokens.access_token

    async def _next(self, flow: _Flow, reply: httpx2.Response | None) -> httpx2.Request | None:
        try:
            return await (anext(flow) if reply is None else flow.asend(reply))
        except StopAsyncIteration:
            return None
        except (OAuthFlowError, ValueError, httpx2.InvalidURL) as error:
            # The rest of the text may quote a server's response, including tokens.
            reason = str(error).partition(": ")[0][:_SHOWN]
            raise AuthorizationFailed(f"there is no token: {reason}") from None


def _is_refusal(reply: httpx2.Response) -> bool:
    is_for_scope = extract_field_from_www_auth(reply, "error") == "insufficient_scope"
    return reply.status_code == 401 or (reply.status_code == 403 and is_for_scope)


class _Provider(OAuthClientProvider):
    """The common base of all token providers."""

    may_begin = True
    """Whether it may request a token without an earlier one to refresh."""
    scopes: tuple[str, ...] = ()

    def forget(self, token: str | None) -> None:
        """Record that a token was refused."""

    async def _perform_authorization(self) -> httpx2.Request:
        if self.context.oauth_metadata is None:
            raise OAuthFlowError("the authorization server publishes no metadata")
        metadata = self.context.client_metadata
        metadata.scope = union_scopes(metadata.scope, " ".join(self.scopes) or None)
        return await super()._perform_authorization()


class _SecretProvider(_Provider, ClientCredentialsOAuthProvider):
    """A client with a secret."""


class _SignedProvider(_Provider, PrivateKeyJWTOAuthProvider):
    """A client with a private key."""


class _Nowhere:
    """A token storage that stores nothing."""

    async def get_tokens(self) -> None:
        """There are none."""

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        """The SDK keeps them in memory."""

    async def get_client_info(self) -> None:
        """It is configured."""

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        """It is configured."""


class _Kept(StrictRecord, frozen=True, kw_only=True):
    """A stored login: the server, the client, the tokens and how to refresh them."""

    server: str
    client: dict[str, Any]
    tokens: dict[str, Any]
    expires_at: float | None = None
    metadata: dict[str, Any]
    resource: dict[str, Any] | None = None


class _LoginProvider(_Provider, _Nowhere):
    """A person's login, stored in a file; without a person it is only refreshed."""

    def __init__(self, url: str, login: Login, person: Person | None) -> None:
        metadata = auth.OAuthClientMetadata(
            redirect_uris=[AnyUrl(login.redirect)], client_name="awaken"
        )
        where, come_back = login.client_metadata_url, self._read_reply
        super().__init__(url, metadata, self, self._show_login_page, come_back, where)
        self.may_begin = person is not None
        self._login, self._person = login, person
        self._refused: str | None = None
        self._reply: Mapping[str, str] = {}

    def forget(self, token: str | None) -> None:
        """Read the file again: another process may have obtained a new token."""
        if not self.may_begin:
            self._refused, self._initialized = token, False

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        """Store the whole login."""
        context = self.context
        kept = _Kept(
            server=context.server_url,
            client=_to_json(context.client_info),
            tokens=_to_json(tokens),
            expires_at=context.token_expiry_time,
            metadata=_to_json(context.oauth_metadata),
            resource=_to_json(context.protected_resource_metadata) or None,
        )
        await asyncio.to_thread(private_files.write, self._login.file, kept)

    async def _initialize(self) -> None:
        context, self._initialized = self.context, True
        kept = await asyncio.to_thread(private_files.read, self._login.file, _Kept)
        kept = kept if kept is not None and self._is_meant(kept) else None
        context.client_info = self._find_client(kept)
        context.clear_tokens()
        if kept is None or self.may_begin:
            return
        context.oauth_metadata = auth.OAuthMetadata.model_validate(kept.metadata)
        resource = auth.ProtectedResourceMetadata
        if kept.resource is not None:
            context.protected_resource_metadata = resource.model_validate(kept.resource)
        context.current_tokens = auth.OAuthToken.model_validate(kept.tokens)
        is_refused = context.current_tokens.access_token == self._refused
        context.token_expiry_time = _LONG_AGO if is_refused else kept.expires_at

    def _is_meant(self, kept: _Kept) -> bool:
        """Whether a stored login is for this server and for the configured issuer."""
        issuer = str(kept.metadata.get("issuer"))
        is_wanted = self._login.issuer is None or issuers_match(issuer, self._login.issuer)
        return is_wanted and kept.server == self.context.server_url

    def _find_client(self, kept: _Kept | None) -> auth.OAuthClientInformationFull | None:
        """The client that is already registered: a login must be for exactly this redirect.

        A refresh has none: the login may have come back to another place, such as the console.
        """
        login = self._login
        if login.client_id is None:
            known = () if kept is None else kept.client.get("redirect_uris", ())
            if kept is None or (self.may_begin and login.redirect not in known):
                return None
            return auth.OAuthClientInformationFull.model_validate(kept.client)
        return auth.OAuthClientInformationFull(
            client_id=login.client_id,
            client_secret=None if login.secret is None else login.secret.reveal(),
            token_endpoint_auth_method="none" if login.secret is None else "client_secret_basic",
            redirect_uris=[AnyUrl(login.redirect)],
            issuer=login.issuer,
        )

    async def _perform_authorization(self) -> httpx2.Request:
        metadata, issuer = self.context.oauth_metadata, self._login.issuer
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError("the authorization server does not promise PKCE with S256")
        if metadata is not None and issuer and not issuers_match(str(metadata.issuer), issuer):
            raise OAuthFlowError("the server names another authorization server than `issuer`")
        return await super()._perform_authorization()

    async def _show_login_page(self, url: str) -> None:
        if not is_confidential(url) or self._person is None:
            raise OAuthFlowError("the page to log in at is not https")
        self._reply = await self._person(url)

    async def _read_reply(self) -> auth.AuthorizationCodeResult:
        reply = self._reply
        if reply.get("error"):
            raise OAuthFlowError(f"the login was refused ({reply['error'][:_SHOWN]})")
        code, state, iss = reply.get("code", ""), reply.get("state"), reply.get("iss")
        return auth.AuthorizationCodeResult(code=code, state=state, iss=iss)


def _build_provider(url: str, oauth: OAuth, person: Person | None) -> _Provider:
    provider: _Provider
    match oauth:
        case Login():
            provider = _LoginProvider(url, oauth, person)
        case ClientCredentials(client_id=id_, private_key=None, secret=secret):
            text = "" if secret is None else secret.reveal()
            provider = _SecretProvider(url, _Nowhere(), id_, text, issuer=oauth.issuer)
        case ClientCredentials(client_id=id_, private_key=key):
            pem, algorithm = "" if key is None else key.reveal(), oauth.algorithm
            signing = SignedJWTParameters(
                issuer=id_, subject=id_, signing_key=pem, signing_algorithm=algorithm
            )
            sign = signing.create_assertion_provider()
            provider = _SignedProvider(url, _Nowhere(), id_, sign, issuer=oauth.issuer)
    provider.scopes = oauth.scopes
    # In every protocol version: a token is valid for this server only.
    context: Any = provider.context
    context.should_include_resource_param = lambda *_: True
    return provider


def _read_secrets(oauth: OAuth) -> tuple[RedactedString, ...]:
    """Return the client's secrets as they are now: those that are references may change.

    Raises:
        AuthorizationFailed: One cannot be read; names the reference.
    """
    key = oauth.private_key if isinstance(oauth, ClientCredentials) else None
    try:
        return tuple(RedactedString(it.reveal()) for it in (oauth.secret, key) if it is not None)
    except SecretUnresolved as error:
        problem = str(error)
    raise AuthorizationFailed(problem)


def _to_json(model: BaseModel | None) -> dict[str, Any]:
    return {} if model is None else model.model_dump(mode="json", exclude_none=True)
