"""Where a server listens: an address as people write it, and the socket for it."""

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
    """A host, by its name or number, and a port; 0 is any that is free."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """As clients write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


DEFAULT = ListenAddress("127.0.0.1", 38_080)


def wanted_address(host: str | None, port: int | None) -> ListenAddress:
    """What the options say, else the environment, else the usual address.

    Raises:
        InvalidInput: The variable is no address.
    """
    usual = _parsed(os.environ.get(VARIABLE, "").strip())
    return ListenAddress(host or usual.host, usual.port if port is None else port)


def listening(address: ListenAddress) -> socket.socket:
    """A socket that takes connections, which wait until somebody serves them.

    Raises:
        InvalidInput: The host is unknown, the port is taken or not allowed.
    """
    what = f"The address {address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(what=what, problem="there is no such host") from error
    # Names such as localhost have two meanings; clients try the older one at least.
    family, _, _, _, place = min(found, key=lambda it: it[0] is not socket.AF_INET)
    try:
        return socket.create_server(place[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        problem = _TAKEN if is_taken else f"it cannot be listened on ({error.strerror})"
        raise InvalidInput(what=what, problem=problem) from error


def _parsed(text: str) -> ListenAddress:
    if not text:
        return DEFAULT
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and int(port) <= _PORT_MAX
    if not colon or not host or not is_port:
        problem = f"'{text}' is no HOST:PORT, such as {DEFAULT.host}:{DEFAULT.port}"
        raise InvalidInput(what=VARIABLE, problem=problem)
    return ListenAddress(host.removeprefix("[").removesuffix("]"), int(port))
