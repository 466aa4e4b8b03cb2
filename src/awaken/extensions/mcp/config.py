"""Which servers exist, how far each is trusted, and which of their tools an agent gets."""

import math
from typing import Any, ClassVar, Literal, NoReturn
from urllib.parse import urlsplit

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import astuple, replace

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString
from awaken.outbound.credentials import OAuth, problem_with

SECTION = "mcp"
NAME_MAX = 32


class McpConfig(StrictRecord, frozen=True, kw_only=True):
    """The section `mcp` of an agent: which tools and prompts of the servers it gets."""

    section: ClassVar[str] = SECTION

    servers: tuple[str, ...] | None = None
    """The servers whose tools it gets; absent: all of them."""
    allow: tuple[str, ...] | None = None
    """Tool ids, or globs of them, that it may use; absent: all of its servers."""
    exclude: tuple[str, ...] = ()
    """Tool ids, or globs of them, that it may not use, even if `allow` names them."""


class Stdio(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="stdio"):
    """A program that is started without a shell and called over its pipes.

    It gets PATH, HOME and the variables in `env`; a variable that is None there is copied from this
    process.
    """

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, RedactedString | None] = {}  # noqa: RUF012 - msgspec copies it
    cwd: str | None = None


class Http(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="http"):
    """A server that is called over streamable HTTP; redirects to other origins are refused."""

    url: str
    headers: dict[str, RedactedString] = {}  # noqa: RUF012 - msgspec copies it
    """Sent with every request to the server, and to no other host."""
    oauth: OAuth | None = None
    """How the client authenticates, if not by a header."""
    allow_private: bool = False
    """Whether its host, and that of the `issuer`, may have private addresses."""


class InProcess(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="in_process"):
    """A server object of the SDK in this process; for code and for tests, not for files."""

    server: Any


Transport = Stdio | Http | InProcess


class Restart(StrictRecord, frozen=True, kw_only=True):
    """When a failed server is tried again."""

    max_attempts: int = 5
    """Consecutive tries that may fail before the server is given up; 0 gives up at once."""
    base_ms: int = 1000
    """The delay before the first try; doubled with every further one."""
    cap_ms: int = 16_000
    stable_ms: int = 30_000
    """How long a connection must last to reset the count of failures."""
    failures: int = 3
    """Consecutive calls without an answer after which the client reconnects."""

    def delay_ms(self, attempt: int, jitter: float) -> int:
        """The delay before a try, counted from 1; a jitter from 0 to 1 adds up to half of it."""
        wait = min(self.cap_ms, self.base_ms << min(attempt - 1, 32))
        return math.ceil(wait * (1 + jitter / 2))


class McpLimits(StrictRecord, frozen=True, kw_only=True):
    """How much of a server's output is read, and how long the client waits for it."""

    pages: int = 100
    """Pages of one listing."""
    tools: int = 1000
    """Tools, prompts or resources of one listing; the rest is omitted and reported."""
    catalog_bytes: int = 8 * 1024 * 1024
    schema_bytes: int = 64 * 1024
    description_chars: int = 8192
    message_bytes: int = 8 * 1024 * 1024
    """One message of the server; a stdio server that sends a longer one is disconnected."""
    result_chars: int = 400_000
    """Text of one result; the rest is cut and marked."""
    binary_chars: int = 1_500_000
    """Images and other data of one result in base64; larger data is omitted and marked."""
    ui_chars: int = 512_000
    """The UI resource of a result."""
    state_chars: int = 64 * 1024
    """State that a server may have the client store while its question is open."""
    rounds: int = 8
    """Questions and samplings of a server in one call."""
    sampling_tokens: int = 4096
    """Tokens that one sampling may request; a larger request is reduced to it."""
    held_calls: int = 64
    """Calls that may wait in this process for the answer to a question."""
    held_ms: int = 15 * 60 * 1000
    """How long such a call is held."""
    progress_ms: int = 100
    """The minimum time between two progress reports, unless more than the time changed."""
    coalesce_ms: int = 200
    """How long list changes are collected before the lists are read again."""


class McpServer(StrictRecord, frozen=True, kw_only=True):
    """One server and its permissions."""

    name: str
    transport: Transport
    enabled: bool = True
    protocol: Literal["auto", "legacy"] = "auto"
    """`auto` negotiates the protocol era; `legacy` starts with the handshake of the older one."""
    trusted: bool = False
    """Whether its tool annotations are trusted: read-only and idempotent tools may then be run
    again after a crash. Nothing else depends on it."""
    strict: bool = False
    """Whether one unusable tool makes the whole catalogue unusable."""
    connect_ms: int = 10_000
    call_ms: int = 60_000
    concurrency: int = 16
    """Concurrent calls; further calls wait."""
    restart: Restart = Restart()
    limits: McpLimits = McpLimits()
    pins: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    """The hashes that its tools must have, by the server's tool names."""
    pin: Literal["first_seen", "configured", "none"] = "first_seen"
    """For tools without an entry in `pins`: pin the first hash, refuse the tool, or pin nothing."""
    pin_file: str | None = None
    """Where first and accepted hashes are stored; absent: they are lost at a restart."""
    on_drift: Literal["refuse", "report"] = "refuse"
    sampling: bool = False
    """Whether it may call the agent's model during a call; the run pays for it."""
    elicitation: bool = True
    """Whether it may ask the user during a call; the question becomes a ticket."""
    roots: tuple["Root", ...] = ()
    """The roots that it may list: where it should work."""

    @property
    def roots_result(self) -> dict[str, Any]:
        """The answer to `roots/list`."""
        return {"roots": [to_builtins(root) for root in self.roots]}

    @property
    def kind(self) -> str:
        """The name of its transport."""
        return str(self.transport.__struct_config__.tag)


class Root(StrictRecord, frozen=True, kw_only=True):
    """A location that a server may list; it gives no access."""

    uri: str
    name: str | None = None


def check(server: McpServer) -> None:
    """Refuse a server config that can never work.

    Raises:
        InvalidSpec: The config is invalid; the text says why, without secrets.
    """
    _check_types(server)
    restart = server.restart
    positive = (server.connect_ms, server.call_ms, server.concurrency, restart.failures)
    if not server.name or len(server.name) > NAME_MAX or not server.name.isascii():
        _refuse(server, f"its name must have 1 to {NAME_MAX} ASCII characters")
    if min(*positive, restart.cap_ms) < 1:
        named = "connect_ms, call_ms, concurrency, restart.failures and restart.cap_ms"
        _refuse(server, f"{named} must be positive")
    if min(*astuple(restart), *astuple(server.limits)) < 0:
        _refuse(server, "nothing in its restart and its limits may be negative")
    if isinstance(server.transport, Stdio) and not server.transport.command.strip():
        _refuse(server, "its command is blank")
    if isinstance(server.transport, Http):
        _check_http(server, server.transport)


def _check_types(server: McpServer) -> None:
    """Refuse fields of a wrong type, which the constructors of records do not check."""
    transport = server.transport
    if not isinstance(transport, Transport):
        _refuse(server, "its transport must be a Stdio, an Http or an InProcess")
    if isinstance(transport, InProcess):
        server = replace(server, transport=InProcess(server=None))
    try:
        convert(to_builtins(server, enc_hook=_mark), McpServer, dec_hook=_unmark)
    except (ValidationError, TypeError) as error:
        _refuse(server, str(error))


_SECRET, _OTHER = 0.5, 1.5
"""Placeholders for secrets and for values that are not JSON: no field accepts a fraction."""


def _mark(value: Any) -> float:
    return _SECRET if isinstance(value, RedactedString) else _OTHER


def _unmark(type_: type, value: Any) -> RedactedString:
    if value != _SECRET:
        message = f"Expected `{type_.__name__}`"
        raise ValueError(message)
    return RedactedString("")


def _check_http(server: McpServer, target: Http) -> None:
    try:
        parts = urlsplit(target.url)
    except ValueError:
        _refuse(server, "its url is malformed")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        _refuse(server, "its url must be http or https, with a host")
    if target.oauth is None:
        return
    if any(name.lower() == "authorization" for name in target.headers):
        _refuse(server, "it has both `oauth` and an authorization header")
    if problem := problem_with(target.oauth, target.url):
        _refuse(server, problem)


def _refuse(server: McpServer, problem: str) -> NoReturn:
    raise InvalidSpec(what=f"MCP server '{str(server.name)[:NAME_MAX]}'", problem=problem)
