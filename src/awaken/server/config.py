"""The configuration of a server: tokens, origins and limits."""

from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString
from awaken.managed.publish_rules import PublishRules
from awaken.managed.retention import AUDIT_DAYS
from awaken.transport.json_bodies import VALUES_MAX
from awaken.transport.routes import SCOPES, Access, Principal

from .login_requests import Authenticate, FindPrincipal

AUDIT_DAYS_MAX = 36_500
ANONYMOUS = Principal(id="anonymous", access=frozenset(), tenant_id="(nobody)")
"""The caller of an open route. It owns nothing, and no other caller may have its tenant."""


class RateLimit(StrictRecord, frozen=True, kw_only=True):
    """How often a caller may do something."""

    per_s: float
    burst: int
    """How many may come at once after a pause."""

    def __post_init__(self) -> None:
        if self.per_s <= 0 or self.burst < 1:
            raise InvalidInput(what="A rate limit", problem="both numbers must be positive")


class TokenSpec(StrictRecord, frozen=True, kw_only=True):
    """A bearer token: whose it is, what it allows, and for which tenant.

    Raises:
        InvalidInput: It would match no caller or too many.
    """

    id: str
    access: frozenset[Access]
    token: RedactedString | None = None
    sha256: str | None = None
    """The token's hash as hex digits, instead of the token itself."""
    tenant_id: str | None = None
    """Absent: the objects of every tenant."""

    def __post_init__(self) -> None:
        _hide(self, "token")
        what = f"Token '{self.id}'"
        if not is_principal_id(self.id):
            problem = "it needs an id, which neither begins nor ends with a space"
            raise InvalidInput(what=what, problem=problem)
        if others := sorted(it.value for it in self.access - SCOPES):
            raise InvalidInput(what=what, problem=f"no token has the access {', '.join(others)}")
        if (self.token is None) == (self.sha256 is None):
            raise InvalidInput(what=what, problem="give either the token or its sha256")
        if self.token is not None and not is_token(self.token.reveal()):
            raise InvalidInput(what=what, problem="a token is printable ASCII without spaces")
        if self.sha256 is not None and not _is_hash(self.sha256):
            raise InvalidInput(what=what, problem="sha256 must be 64 hex digits")
        if not is_tenant(self.tenant_id):
            raise InvalidInput(
                what=what, problem="its tenant is blank or reserved, or begins or ends with a space"
            )

    @property
    def digest(self) -> bytes:
        """The hash that a caller's token must have."""
        if self.token is not None:
            return sha256(self.token.reveal().encode()).digest()
        return bytes.fromhex(self.sha256 or "")


class JwtConfig(StrictRecord, frozen=True, kw_only=True):
    """Which JSON web tokens are accepted. Issuer, audience and expiry are always required.

    Raises:
        InvalidInput: It does not determine who may sign.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256",)
    key: RedactedString | None = None
    """A public key as PEM, or the shared secret of an HMAC algorithm."""
    jwks_file: str | None = None
    """A file with a set of keys, instead of one key."""
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    tenant_claim: str | None = None
    """If it is set, a token without the claim is refused."""

    def __post_init__(self) -> None:
        _hide(self, "key")
        kinds = {name[:2].upper() for name in self.algorithms}
        if not self.issuer or not self.audience:
            raise InvalidInput(what="jwt", problem="name the issuer and the audience")
        if not kinds or "NO" in kinds or (len(kinds) > 1 and "HS" in kinds):
            problem = "algorithms must be all HMAC or all of public keys, never 'none'"
            raise InvalidInput(what="jwt", problem=problem)
        if bool(self.key) == bool(self.jwks_file):
            raise InvalidInput(what="jwt", problem="give either a key or a jwks_file")


class ServerLimits(StrictRecord, frozen=True, kw_only=True):
    """Limits on concurrency, sizes and rates; sizes are bytes, times are milliseconds."""

    requests: int = 512
    """How many requests are served at once, not counting streams."""
    streams: int = 10_000
    requests_per_caller: int = 128
    streams_per_caller: int = 1_000
    header_count: int = 100
    header_bytes: int = 32 * 1024
    id_chars: int = 256
    """How long an id in a path may be."""
    body_values: int = VALUES_MAX
    """How many values (members, items and containers) the JSON of a body may have."""
    held_bytes: int = 512 * 1024 * 1024
    """The memory of all requests together: bodies until handled, replies until sent."""
    body_ms: int = 30_000
    """How long a client may take to send a body."""
    run_wait_ms: int = 300_000
    """How long `POST /v1/runs` waits for a result before it answers with the run's id."""
    probe_ms: int = 5_000
    """How long the store may take to answer a health check."""
    submits: RateLimit = RateLimit(per_s=100, burst=500)
    decisions: RateLimit = RateLimit(per_s=50, burst=200)
    login_failures: RateLimit = RateLimit(per_s=0.5, burst=20)
    """Counted per client address."""
    login_ms: int = 10_000
    """How long `authenticate` may take."""
    logins: int = 256
    """How many requests may wait for `authenticate` at once."""


class AdminConfig(StrictRecord, frozen=True, kw_only=True):
    """What a server offers for the management of its configuration.

    Raises:
        InvalidInput: Audit events would be kept for less than a day.
    """

    config_routes: bool = True
    """Whether the routes of the configuration are mounted."""
    console: bool = True
    """Whether the console is served, at `/` and below `/console`."""
    publish: PublishRules = PublishRules()
    """What must hold before a change that comes over HTTP becomes live."""
    audit_days: int = AUDIT_DAYS
    """How long audit events are kept; of several servers of one runtime the longest counts."""

    def __post_init__(self) -> None:
        if not 1 <= self.audit_days <= AUDIT_DAYS_MAX:
            problem = f"audit_days is 1 to {AUDIT_DAYS_MAX}"
            raise InvalidInput(what="admin", problem=problem)


class ServerConfig(StrictRecord, frozen=True, kw_only=True):
    """The settings of a server. Without any authentication it serves only its own machine.

    Raises:
        InvalidInput: Two tokens have one id, or an origin or the login URL is malformed.
    """

    body_bytes: int = 8 * 1024 * 1024
    """How long a request's body may be."""
    limits: ServerLimits = ServerLimits()
    tokens: tuple[TokenSpec, ...] = ()
    jwt: JwtConfig | None = None
    authenticate: Authenticate | None = None
    """Maps your own logins to callers: takes an `AuthRequest`, returns a `Principal` or None."""
    find_principal: FindPrincipal | None = None
    """Looks up a caller of `jwt` or `authenticate` by id and tenant, when no request is made.

    Schedules and triggers ask it each time they start a run; without it such callers can make none.
    """
    login_url: str | None = None
    """Where people log in: a path or an http(s) URL that each 401 names and the console opens."""
    is_guarded_elsewhere: bool = False
    """Whether a proxy in front of the server authenticates callers."""
    cors_origins: tuple[str, ...] = ("http://127.0.0.1:3002", "http://localhost:3002")
    """The other origins whose pages may read replies."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names besides loopback that a server without tokens accepts; `*` is any."""
    private_hosts: tuple[str, ...] = ()
    """Hosts that push notifications may reach although they are not public, on any port."""
    outbound_ports: tuple[int, ...] = (80, 443)
    """The ports at which push notifications may reach public hosts."""
    hook_secrets: tuple[str, ...] = ("env:HOOK_*",)
    """The secrets that callers may name in triggers, `*` at the end for any rest.

    A caller with the scope `config` and without a tenant may name any.
    """
    admin: AdminConfig = AdminConfig()
    """Which routes manage the configuration, and under which rules."""

    @property
    def requires_authentication(self) -> bool:
        """Whether callers must send a token or be logged in."""
        return bool(self.tokens) or self.jwt is not None or self.authenticate is not None

    def __post_init__(self) -> None:
        ids = [token.id for token in self.tokens]
        if len(set(ids)) < len(ids):
            raise InvalidInput(what="tokens", problem="two of them have the same id")
        for origin in self.cors_origins:
            if not _is_origin(origin):
                problem = "write it as browsers do, such as https://example.com"
                raise InvalidInput(what=f"origin '{origin}'", problem=problem)
        if self.authenticate is not None and not callable(self.authenticate):
            raise InvalidInput(what="authenticate", problem="it is not a function")
        if self.find_principal is not None and not callable(self.find_principal):
            raise InvalidInput(what="find_principal", problem="it is not a function")
        if self.login_url is not None and not _is_login_url(self.login_url):
            problem = "write a path such as /login, or a whole http or https URL"
            raise InvalidInput(what="login_url", problem=problem)


def is_token(text: str) -> bool:
    """Whether a text can be a bearer token."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def is_principal_id(text: str) -> bool:
    """Whether a caller may have this id; runs trim it, so that a space would make two users one."""
    return bool(text) and text == text.strip()


def is_tenant(tenant_id: str | None) -> bool:
    """Whether a caller may belong to this tenant.

    A blank one would mean every tenant, and stores trim it, so that a space would make two one.
    """
    if tenant_id is None:
        return True
    is_trimmed = bool(tenant_id) and tenant_id == tenant_id.strip()
    return is_trimmed and tenant_id != ANONYMOUS.tenant_id


def _hide(record: msgspec.Struct, name: str) -> None:
    text = getattr(record, name)
    if isinstance(text, str):
        # As plain text it would show up in logs.
        msgspec.structs.force_setattr(record, name, RedactedString(text))


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in text)


def _is_login_url(text: str) -> bool:
    # The console opens it, so it must not be a script, nor a foreign host that looks like a path.
    if not (text.isascii() and text.isprintable()) or set(text) & set(' "<>\\'):
        return False
    if text.startswith("/"):
        return not text.startswith("//")
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return False
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    is_exact = text == f"{parts.scheme}://{name}{port}" and "*" not in text
    return is_exact and parts.scheme in ("http", "https")
