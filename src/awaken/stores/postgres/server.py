"""The address of a database, its name in errors, its options and its timeouts."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record
from awaken.outbound.postgres_hosts import PostgresHosts

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


POOL_SIZE = 8
_OPTIONS = ("pool", "prepared", "direct")
_SWITCH = {"on": True, "off": False}


class PostgresServer(Record, frozen=True, kw_only=True):
    """A database server, with a pooler before it or not. Its `repr` never shows the password."""

    url: str
    """Where transactions run; a pooler may hand each one to another session of the server."""
    hosts: PostgresHosts
    """The hosts of `url`."""
    direct_url: str
    """Where a session is one's own: leases, signals and migrations need it."""
    direct_hosts: PostgresHosts
    """The hosts of `direct_url`."""
    has_direct: bool
    """Whether the operator has named `direct_url`; otherwise it is `url`."""
    name: str
    schema: str
    pool_size: int
    is_prepared: bool
    """Whether a prepared statement is found again by a later transaction."""
    connect_timeout_ms: int
    command_timeout_ms: int

    def __repr__(self) -> str:
        return f"Server({self.name})"


def parse_server(
    url: str,
    *,
    schema: str,
    pool_size: int | None,
    connect_timeout_ms: int,
    command_timeout_ms: int,
) -> PostgresServer:
    """Check the arguments of a store and return its server.

    The URL may have the options `pool`, `prepared` and `direct`; an argument is preferred to them.

    Raises:
        InvalidInput: The URL, an option of it, the schema, the pool or a timeout is invalid.
    """
    name = PostgresHosts(url).name
    if not _SCHEMA.fullmatch(schema):
        problem = "it must be lower case letters, digits and underscores, at most 63"
        raise InvalidInput(what=f"schema '{schema}'", problem=problem)
    if connect_timeout_ms < 1 or command_timeout_ms < 1:
        raise InvalidInput(what=f"store '{name}'", problem="a timeout must be at least 1 ms")
    plain_url, options = _take_options(url)
    direct = options.get("direct")
    hosts = PostgresHosts(plain_url)
    direct_hosts = hosts if direct is None else PostgresHosts(direct)
    if direct is not None and _take_options(direct)[1]:
        raise InvalidInput(what=f"store '{name}'", problem="direct= must have no such options")
    return PostgresServer(
        url=plain_url,
        hosts=hosts,
        direct_url=plain_url if direct is None else direct,
        direct_hosts=direct_hosts,
        has_direct=direct is not None,
        name=name,
        schema=schema,
        pool_size=_read_pool_size(options, name) if pool_size is None else pool_size,
        is_prepared=_read_prepared(options, name),
        connect_timeout_ms=connect_timeout_ms,
        command_timeout_ms=command_timeout_ms,
    )


def _take_options(url: str) -> tuple[str, Mapping[str, str]]:
    """Return a URL without the options of the store, which the driver does not know, and them."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    taken = {name: value for name, value in pairs if name in _OPTIONS}
    if not taken:
        return url, taken
    left = urlencode([pair for pair in pairs if pair[0] not in _OPTIONS])
    return urlunsplit(parts._replace(query=left)), taken


def _read_pool_size(options: Mapping[str, str], name: str) -> int:
    found = options.get("pool", str(POOL_SIZE))
    if not found.isdecimal():
        raise InvalidInput(what=f"store '{name}'", problem="pool= must be a number")
    return int(found)


def _read_prepared(options: Mapping[str, str], name: str) -> bool:
    """Read `prepared`; with a pooler, statements are prepared only if the operator says so."""
    found = options.get("prepared", "off" if "direct" in options else "on")
    if found not in _SWITCH:
        raise InvalidInput(what=f"store '{name}'", problem="prepared= must be on or off")
    return _SWITCH[found]
