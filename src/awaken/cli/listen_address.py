"""The address that a server listens on: parses it, and opens the socket."""

import errno
import os
import socket
from typing import NamedTuple

from awaken.contracts.errors import InvalidInput

VARIABLE = "AWAKEN_HTTP_ADDR"
BACKLOG = 2048
_PORT_MAX = 65_535
_TAKEN = "another process listens there; stop it or choose another --port"


class ListenAddress(NamedTuple):
    """A host name or address, and a port; port 0 is any free one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL that clients use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


DEFAULT = ListenAddress("127.0.0.1", 38_080)


def resolve_address(host: str | None, port: int | None) -> ListenAddress:
    """The address from the options, else from the environment, else the default.

    Raises:
        InvalidInput: The variable has a malformed address.
    """
    usual = _parse_address(os.environ.get(VARIABLE, "").strip())
    return ListenAddress(host or usual.host, usual.port if port is None else port)


def open_listener(address: ListenAddress) -> socket.socket:
    """Open a socket that accepts connections; they wait until the server serves them.

    Raises:
        InvalidInput: The host is unknown, or the port is in use or not allowed.
    """
    what = f"The address {address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(what=what, problem="there is no such host") from error
    # A name such as localhost may have IPv4 and IPv6 addresses; every client tries IPv4.
    family, _, _, _, place = min(found, key=lambda it: it[0] is not socket.AF_INET)
    try:
        return socket.create_server(place[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        problem = _TAKEN if is_taken else f"it cannot be listened on ({error.strerror})"
        raise InvalidInput(what=what, problem=problem) from error


def _parse_address(text: str) -> ListenAddress:
    if not text:
        return DEFAULT
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and int(port) <= _PORT_MAX
    if not colon or not host or not is_port:
        problem = f"'{text}' is no HOST:PORT, such as {DEFAULT.host}:{DEFAULT.port}"
        raise InvalidInput(what=VARIABLE, problem=problem)
    return ListenAddress(host.removeprefix("[").removesuffix("]"), int(port))
