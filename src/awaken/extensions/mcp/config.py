"""Which servers there are, how far each is trusted, and which of their tools an agent gets."""

import math
from typing import Any, Literal, NoReturn

from msgspec import to_builtins
from msgspec.structs import astuple

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString

SECTION = "mcp"
NAME_MAX = 32


class McpConfig(StrictRecord, frozen=True, kw_only=True):
    """The section `mcp` of an agent: what it gets of what the servers offer."""

    servers: tuple[str, ...] | None = None
    """The servers whose tools it has; absent: all of them."""
    allow: tuple[str, ...] | None = None
    """Tool ids, or globs of them, that it may use; absent: all of its servers."""
    exclude: tuple[str, ...] = ()
    """Tool ids, or globs of them, that it may not use, whatever else says."""


class Stdio(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="stdio"):
    """A program that is started without a shell and spoken to over its pipes.

    It sees PATH, HOME and what `env` names; a variable that is None there is taken from this
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
    """Sent with every request to the server, and to nobody else."""
    allow_private: bool = False
    """Whether the host may have an address that is not public, such as this machine's."""


class InProcess(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="in_process"):
    """A server object of the SDK in this process; for code and for tests, not for files."""

    server: Any


Transport = Stdio | Http | InProcess


class Restart(StrictRecord, frozen=True, kw_only=True):
    """When a server that failed is tried again."""

    max_attempts: int = 5
    """Tries in a row that may fail before it is given up; 0 gives up at once."""
    base_ms: int = 1000
    """The wait before the first try; doubled with every further one."""
    cap_ms: int = 16_000
    stable_ms: int = 30_000
    """How long a connection has to hold for earlier failures to be forgotten."""
    failures: int = 3
    """Calls in a row without an answer after which the connection is made anew."""

    def delay_ms(self, attempt: int, jitter: float) -> int:
        """The wait before a try, counted from 1; a jitter from 0 to 1 adds up to half of it."""
        wait = min(self.cap_ms, self.base_ms << min(attempt - 1, 32))
        return math.ceil(wait * (1 + jitter / 2))


class McpLimits(StrictRecord, frozen=True, kw_only=True):
    """How much of a server is read, and how long is waited for it."""

    pages: int = 100
    """Pages of one listing."""
    tools: int = 1000
    """Tools, prompts or resources of one listing; the rest is left out and reported."""
    catalog_bytes: int = 8 * 1024 * 1024
    schema_bytes: int = 64 * 1024
    description_chars: int = 8192
    message_bytes: int = 8 * 1024 * 1024
    """One message of the server; a stdio server that sends a longer one is disconnected."""
    result_chars: int = 400_000
    """Text of one result; the rest is cut, with a mark."""
    binary_chars: int = 1_500_000
    """Images and other data of one result in base64; larger ones are left out, with a mark."""
    ui_chars: int = 512_000
    """The UI resource that goes with a result."""
    state_chars: int = 64 * 1024
    """What a server may have us keep for it while a question of its is open."""
    rounds: int = 8
    """Questions and samplings of a server within one call."""
    sampling_tokens: int = 4096
    """Tokens that one sampling may ask for; more is cut to it."""
    held_calls: int = 64
    """Calls that may wait in this process for an answer to a server's question."""
    held_ms: int = 15 * 60 * 1000
    """How long such a call is held."""
    progress_ms: int = 100
    """Between two reports of progress, unless something else has changed."""
    coalesce_ms: int = 200
    """How long changes of a list are gathered before it is read again."""


class McpServer(StrictRecord, frozen=True, kw_only=True):
    """One server and what it may do."""

    name: str
    transport: Transport
    enabled: bool = True
    protocol: Literal["auto", "legacy"] = "auto"
    """`auto` asks the server which era it speaks; `legacy` begins with a handshake at once."""
    trusted: bool = False
    """Whether its word on what its tools do is taken: read-only and idempotent tools may then be
    run again after a crash. Nothing else depends on it."""
    strict: bool = False
    """Whether one unusable tool makes the whole catalogue unusable."""
    connect_ms: int = 10_000
    call_ms: int = 60_000
    concurrency: int = 16
    """Calls at a time; further ones wait for their turn."""
    restart: Restart = Restart()
    limits: McpLimits = McpLimits()
    pins: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    """The hashes that its tools must have, by the server's own names for them."""
    pin: Literal["first_seen", "configured", "none"] = "first_seen"
    """What holds for tools without an entry in `pins`: the first hash seen, no use, or nothing."""
    on_drift: Literal["refuse", "report"] = "refuse"
    sampling: bool = False
    """Whether it may ask the agent's model during a call, at the run's expense."""
    elicitation: bool = True
    """Whether it may ask people during a call; the question becomes a ticket."""
    roots: tuple["Root", ...] = ()
    """What it is told about where it may work."""

    @property
    def told_roots(self) -> dict[str, Any]:
        """What it is told when it asks for its roots."""
        return {"roots": [to_builtins(root) for root in self.roots]}

    @property
    def kind(self) -> str:
        """The name of its transport."""
        return str(self.transport.__struct_config__.tag)


class Root(StrictRecord, frozen=True, kw_only=True):
    """A place that a server is told of; being told is no right, and none is given."""

    uri: str
    name: str | None = None


def check(server: McpServer) -> None:
    """Refuse a server that could never work.

    Raises:
        InvalidSpec: Saying why; no secret is repeated.
    """
    restart, positive = server.restart, (server.connect_ms, server.call_ms, server.concurrency)
    if not server.name or len(server.name) > NAME_MAX or not server.name.isascii():
        _refuse(server, f"its name must have 1 to {NAME_MAX} ASCII characters")
    if min(positive) < 1 or restart.failures < 1:
        _refuse(server, "connect_ms, call_ms, concurrency and restart.failures must be positive")
    if restart.max_attempts < 0 or restart.base_ms < 0 or min(astuple(server.limits)) < 0:
        _refuse(server, "its limits, max_attempts and base_ms must not be negative")
    if isinstance(server.transport, Stdio) and not server.transport.command.strip():
        _refuse(server, "its command is blank")


def _refuse(server: McpServer, problem: str) -> NoReturn:
    raise InvalidSpec(what=f"MCP server '{server.name[:NAME_MAX]}'", problem=problem)
