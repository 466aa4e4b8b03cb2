"""Addresses of the servers that a process calls."""

from awaken.contracts.record import Record

_PORTS = {"https": 443, "http": 80}


class ServerAddress(Record, frozen=True, kw_only=True):
    """Host and port of a server, without the path and the credentials of its URL."""

    host: str
    port: int


def server_of(url: str | None) -> ServerAddress | None:
    """The server that a URL names, or None if it names none."""
    # Not by a process that only declares agents: it brings `ipaddress`.
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        parts = urlsplit(url or "")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return ServerAddress(host=parts.hostname, port=port)
