"""Checks of the address that a server listens on, and of the Host and Origin of a request."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from awaken.contracts.errors import UsageError
from awaken.transport.problems import HttpError

from .config import ServerConfig


class UnsafeExposure(UsageError):
    """The server would serve the whole network without authentication."""

    code = "unsafe_exposure"
    template = (
        "Refusing to listen on '{host}' without authentication: set "
        "AWAKEN_ADMIN_API_BEARER_TOKEN, configure tokens, jwt or authenticate, or listen on "
        "127.0.0.1."
    )
    host: str


def check_exposure(host: str | None, config: ServerConfig) -> None:
    """Refuse to listen where other machines could call without a token; call it before binding.

    A host name counts as exposed unless it is `localhost`: DNS decides which address it means.

    Raises:
        UnsafeExposure: Other machines could call, and the server has no authentication.
    """
    if config.requires_authentication or config.is_guarded_elsewhere:
        return
    if not is_loopback(host or ""):
        raise UnsafeExposure(host=host or "")


class HostOriginCheck:
    """Checks by the Host and Origin headers that a request was meant for this server."""

    def __init__(self, config: ServerConfig) -> None:
        self._origins = frozenset(config.cors_origins)
        self._hosts = frozenset(host.lower() for host in config.allowed_hosts)
        is_open = not config.requires_authentication and not config.is_guarded_elsewhere
        self._checks_host = is_open and "*" not in self._hosts

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse a page of a foreign origin, also if DNS rebinding made it look local.

        Raises:
            HttpError: 403.
        """
        host = headers.get("host", "")
        if self._checks_host and not (is_loopback(name := _name(host)) or name in self._hosts):
            raise HttpError(403, "forbidden_host", "This server does not answer to that host name.")
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return
        place = _place(origin)
        if place is None or not (place == host.lower() or is_loopback(_name(place))):
            raise HttpError(
                403, "forbidden_origin", "Pages of that origin may not call this server."
            )

    def allows(self, origin: str | None) -> bool:
        """Whether pages of an origin may read replies."""
        return origin in self._origins


def check_own_page(headers: Mapping[str, str]) -> None:
    """Refuse a request that does not come from a page of exactly this host.

    Browsers send cookies along, whatever page asks: also one that another program serves on this
    machine, for cookies know no ports.

    Raises:
        HttpError: 403.
    """
    origin = headers.get("origin")
    if origin is None or _place(origin) != headers.get("host", "").lower():
        message = "A change with a cookie needs an Origin that equals the Host."
        raise HttpError(403, "forbidden_origin", message)


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether an address can certainly be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@lru_cache(1024)
def _name(host: str) -> str:
    """The name in a Host header without its port; blank when it is malformed."""
    name, bracket, port = host.lower().rpartition("]") if "]" in host else ("", "", host.lower())
    if not bracket:
        name, _, port = port.partition(":")
        port = port and f":{port}"
    is_plain = not port or (port[0] == ":" and port[1:].isdecimal())
    return name + bracket if is_plain else ""


@lru_cache(1024)
def _place(origin: str) -> str | None:
    """The host and port of an origin, or None when it has none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") and parts.netloc else None
