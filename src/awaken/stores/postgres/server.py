"""The address of a database, its name in errors, and its timeouts."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record

_SCHEMES = ("postgresql", "postgres")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresServer(Record, frozen=True, kw_only=True):
    """A database server. Its `repr` never shows the password."""

    url: str
    name: str
    schema: str
    connect_timeout_ms: int
    command_timeout_ms: int

    def __repr__(self) -> str:
        return f"Server({self.name})"


def parse_server(
    url: str, schema: str, connect_timeout_ms: int, command_timeout_ms: int
) -> PostgresServer:
    """Check the arguments of a store and return its server.

    Raises:
        InvalidInput: The URL, the schema or a timeout is invalid.
    """
    name = name_of(url)
    if not _SCHEMA.fullmatch(schema):
        problem = "it must be lower case letters, digits and underscores, at most 63"
        raise InvalidInput(what=f"schema '{schema}'", problem=problem)
    if connect_timeout_ms < 1 or command_timeout_ms < 1:
        raise InvalidInput(what=f"store '{name}'", problem="a timeout must be at least 1 ms")
    return PostgresServer(
        url=url,
        name=name,
        schema=schema,
        connect_timeout_ms=connect_timeout_ms,
        command_timeout_ms=command_timeout_ms,
    )


def name_of(url: str) -> str:
    """Return a URL without the password and the options: `postgresql://user@host:5432/db`.

    Raises:
        InvalidInput: It is not the URL of a Postgres database.
    """
    try:
        parts = urlsplit(url)
        port, options = parts.port, parse_qs(parts.query)
    except ValueError:
        # Not chained: its text may contain a part of the password.
        raise _bad_url("its host or port cannot be read; encode special characters") from None
    if parts.scheme not in _SCHEMES:
        raise _bad_url("it must begin with postgresql://")
    user = f"{parts.username}@" if parts.username else ""
    host = parts.hostname or options.get("host", ["localhost"])[0]
    port = port or int(options.get("port", ["5432"])[0])
    database = parts.path.strip("/") or options.get("dbname", [parts.username or ""])[0]
    return unquote(f"postgresql://{user}{host}:{port}/{database}")


def _bad_url(problem: str) -> InvalidInput:
    return InvalidInput(what="the URL of the Postgres store", problem=problem)
