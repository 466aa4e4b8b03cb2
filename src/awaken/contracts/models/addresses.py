"""Where the servers are that a process asks."""

from urllib.parse import urlsplit

from awaken.contracts.record import Record

_PORTS = {"https": 443, "http": 80}


class ServerAddress(Record, frozen=True, kw_only=True):
    """A server, without the path, the name and the password that its URL may have."""

    host: str
    port: int


def server_of(url: str | None) -> ServerAddress | None:
    """The server that a URL names; None if it names none, as that of a program does."""
    try:
        parts = urlsplit(url or "")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return ServerAddress(host=parts.hostname, port=port)
