"""Credentials for other servers, as configured: OAuth 2.1 as a client or as a person."""

from urllib.parse import urlsplit

from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString
from awaken.contracts.tools.tool import ToolError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ClientCredentials(
    StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="client_credentials"
):
    """This program is the OAuth client: no person is involved, and tokens stay in memory.

    It proves itself with a secret, or with assertions that are signed with a private key.
    """

    client_id: str
    issuer: str
    """The authorization server that knows the client; the credentials go to no other one."""
    secret: RedactedString | None = None
    private_key: RedactedString | None = None
    """In PEM."""
    algorithm: str = "RS256"
    scopes: tuple[str, ...] = ()
    """Asked for besides those that the server names."""


class Login(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="login"):
    """An operator logs in once; later processes only refresh the login."""

    file: str
    """The file with the tokens and the registration, readable by its owner only."""
    redirect: str = "http://127.0.0.1:38081/callback"
    """The redirect URL of the operator's browser, on this machine."""
    issuer: str | None = None
    """The authorization server to log in at; absent: the one that the server names."""
    client_id: str | None = None
    """The id of a registered client; absent: a client is registered at the first login."""
    secret: RedactedString | None = None
    client_metadata_url: str | None = None
    """A document about the client, for authorization servers that accept its URL as an id."""
    scopes: tuple[str, ...] = ()
    """Asked for besides those that the server names."""


OAuth = ClientCredentials | Login


class LoginRequired(ToolError):
    """There is no login for a server; an operator has to log in."""

    code = "login_required"


class AuthorizationFailed(ToolError):
    """The authorization server gave no token, or is not the one that it should be."""

    code = "authorization_failed"


def problem_with(oauth: OAuth, url: str) -> str | None:
    """Why these credentials can never work for a URL, or None; shows no secret."""
    if not is_confidential(url) or not is_confidential(oauth.issuer or url):
        return "with `oauth`, its url and its issuer must be https, or on this machine"
    match oauth:
        case ClientCredentials(secret=secret, private_key=key) if (secret is None) == (key is None):
            return "its client needs a secret or a private key, and not both"
        case Login(redirect=redirect) if not _is_local(redirect):
            return "its redirect must be http on this machine, with a port"
        case _:
            return None


def is_confidential(url: str) -> bool:
    """Whether requests to a URL are encrypted or stay on this machine."""
    try:
        parts = urlsplit(url)
        is_local = parts.hostname in LOOPBACK
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_local)


def _is_local(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and parts.hostname in LOOPBACK and bool(parts.port)
    except ValueError:
        return False
