"""The hosts in the URL of a Postgres database: its name in messages, and which host is connected.

The hosts are tried one by one, not by the driver: it has one timeout for all of them, so that a
host that does not answer would keep it from the next one.
"""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from awaken.contracts.errors import InvalidInput

C = TypeVar("C")

DEFAULT_PORT = 5432
_SCHEMES = ("postgresql", "postgres")
_TARGET = "target_session_attrs"
_WRITABLE = ("read-write", "primary")
_TARGETS = ("any", *_WRITABLE)
_REFUSED = "28"
"""The class of errors with which a server refuses a user: another host would do the same."""


class NoHostReached(OSError):
    """None of several hosts accepted a connection; the message has the reason of each."""

    def __init__(self, problems: Sequence[str], sqlstate: str | None) -> None:
        super().__init__("; ".join(problems))
        self.sqlstate = sqlstate
        """The code of a server that answered with an error; None if none did."""


class PostgresHosts:
    """The hosts of one URL, of which one accepts writes at a time.

    The host that accepted the latest connection is tried first: after a failover that is the
    promoted one, also if the former primary is back and has not learned of it.
    """

    def __init__(self, url: str, what: str = "the URL of the Postgres store") -> None:
        """Read a URL.

        Raises:
            InvalidInput: It is not the URL of a Postgres database that accepts writes.
        """
        parts, options, places = _read_url(url, what)
        self.name = _describe(parts, options, places)
        """The URL without the password and the options: `postgresql://user@host:5432/db`."""
        self.urls = _split_url(url, parts, options, places)
        """One URL for each host."""
        self._places = places
        self._latest = 0

    async def connect(
        self,
        connect: Callable[[str], Awaitable[C]],
        limit_s: float,
        failures: tuple[type[Exception], ...],
    ) -> C:
        """Connect to the first host that accepts; each gets its share of the time.

        Raises:
            NoHostReached: There are several hosts, and none accepted.
            TimeoutError: There is one host, which did not answer in time.
        """
        count = len(self.urls)
        if count == 1:
            async with asyncio.timeout(limit_s):
                return await connect(self.urls[0])
        problems, sqlstate = [], None
        for number in sorted(range(count), key=lambda it: it != self._latest):
            try:
                async with asyncio.timeout(limit_s / count):
                    connection = await connect(self.urls[number])
            except failures as error:
                code = getattr(error, "sqlstate", None)
                if isinstance(error, ValueError) or (code or "").startswith(_REFUSED):
                    raise
                sqlstate = sqlstate or code
                problems.append(f"{_name_place(self._places[number])}: {_explain(error)}")
            else:
                self._latest = number
                return connection
        raise NoHostReached(problems, sqlstate)


def _read_url(
    url: str, what: str
) -> tuple[SplitResult, dict[str, str], tuple[tuple[str, int], ...]]:
    """Return the parts of a URL, its options, and the hosts in it with their ports."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        places = _list_places(parts, options)
    except ValueError:
        # Not chained: its text may contain a part of the password.
        problem = "its host or port cannot be read; encode special characters"
        raise InvalidInput(what=what, problem=problem) from None
    if parts.scheme not in _SCHEMES:
        raise InvalidInput(what=what, problem="it must begin with postgresql://")
    target = options.get(_TARGET, "any")
    if target not in _TARGETS:
        problem = f"{_TARGET}= must be {', '.join(_TARGETS)}: a server that only reads is no store"
        raise InvalidInput(what=what, problem=problem)
    if not (parts.username or {"user", "service"} & options.keys() or _has_user()):
        problem = "it names no user, and that of this process has no name; write postgresql://USER@"
        raise InvalidInput(what=what, problem=problem)
    return parts, options, places


def _has_user() -> bool:
    """Whether the driver finds a user where the URL names none."""
    if os.environ.get("PGUSER") or os.environ.get("PGSERVICE"):
        return True
    try:
        return bool(getpass.getuser())
    except (KeyError, OSError):
        # In a container the number of a user often has no name.
        return False


def _list_places(parts: SplitResult, options: dict[str, str]) -> tuple[tuple[str, int], ...]:
    """Return hosts and ports as the driver reads them: those before the path are preferred."""
    spec = parts.netloc.rpartition("@")[2]
    if parts.netloc.count("@") > 1:
        # The driver would take a part of the password for the host.
        raise ValueError(spec)
    if spec:
        # A port without a host, `postgresql://:5433/app`, is one of this machine.
        found = [urlsplit(f"//{it}") for it in spec.split(",")]
        if len(found) > 1 and not all(it.hostname for it in found):
            raise ValueError(spec)
        return tuple((unquote(it.hostname or ""), it.port or DEFAULT_PORT) for it in found)
    hosts = options.get("host", "").split(",")
    if len(hosts) > 1 and not all(hosts):
        raise ValueError(hosts)
    ports = [int(it or DEFAULT_PORT) for it in options.get("port", "").split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    return tuple(zip(hosts, ports, strict=True))


def _split_url(
    url: str,
    parts: SplitResult,
    options: dict[str, str],
    places: tuple[tuple[str, int], ...],
) -> tuple[str, ...]:
    """Return one URL for each host; of several hosts, one that accepts writes is wanted."""
    if len(places) == 1:
        return (url,)
    # `any` would stop at a standby that is named first, and every write would fail there.
    target = {_TARGET: options[_TARGET] if options.get(_TARGET) in _WRITABLE else _WRITABLE[0]}
    user, at, spec = parts.netloc.rpartition("@")
    urls = []
    for number, (host, port) in enumerate(places):
        if spec:
            netloc, own = f"{user}{at}{spec.split(',')[number]}", {}
        else:
            netloc, own = parts.netloc, {"host": host, "port": str(port)}
        query = urlencode(options | own | target)
        urls.append(urlunsplit(parts._replace(netloc=netloc, query=query)))
    return tuple(urls)


def _describe(
    parts: SplitResult, options: dict[str, str], places: tuple[tuple[str, int], ...]
) -> str:
    user = f"{unquote(parts.username)}@" if parts.username else ""
    database = parts.path.strip("/") or options.get("dbname", parts.username or "")
    hosts = ",".join(map(_name_place, places))
    return f"postgresql://{user}{hosts}/{unquote(database)}"


def _name_place(place: tuple[str, int]) -> str:
    host, port = place
    return f"{host or 'localhost'}:{port}"


def _explain(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if type(error).__name__ == "TargetServerAttributeNotMatched":
        return "it takes no writes"
    return str(error) or type(error).__name__
