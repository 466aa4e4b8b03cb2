"""The outbound guard: requests to URLs from outside reach only the public internet.

A URL is checked when it is given and again with every request. Host names are checked when they are
resolved for the connection itself, so that a name cannot change its address in between. Redirects
are never followed.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    ThreadedResolver,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from awaken.contracts.errors import InvalidInput

WEB_PORTS = (80, 443)
URL_LENGTH_MAX = 2048
RESOLVE_S = 5.0

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_SPECIAL = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]")

# Global addresses that are reachable only from inside a cloud or a network.
_INSIDE = tuple(
    ipaddress.ip_network(it)
    for it in ("168.63.129.16/32", "192.88.99.0/24", "2001::/32", "3fff::/20", "5f00::/16")
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Undelivered(Exception):
    """A request failed; says how, without naming the target."""


class Outbound:
    """Checks which URLs may be called, and calls no others."""

    def __init__(
        self,
        private_hosts: Iterable[str] = (),
        ports: Iterable[int] = WEB_PORTS,
        resolving: Callable[[], AbstractResolver] = ThreadedResolver,
    ) -> None:
        self._private_hosts = frozenset(
            host.strip("[]").rstrip(".").lower() for host in private_hosts
        )
        """Hosts that are trusted, whatever their addresses and ports are."""
        self._ports = frozenset(ports)
        self._resolving = resolving

    def with_trusted_host(self, host: str) -> "Outbound":
        """The same guard, with a host that an operator named: its addresses may be private.

        The caller has to make sure that no other party chooses the URLs.
        """
        return Outbound((*self._private_hosts, host), self._ports, self._resolving)

    def check(self, url: str) -> URL:
        """Refuse a URL that is unsafe whatever its name resolves to; without network access.

        Raises:
            InvalidInput: With the reason; the URL itself, which may contain secrets, is not shown.
        """
        if len(url) > URL_LENGTH_MAX or _SPECIAL.search(url):
            raise _invalid_url("it is too long or has characters that belong in no URL")
        try:
            target = URL(url)
            host = target.raw_host or ""
        except ValueError as error:
            raise _invalid_url("it is malformed") from error
        is_bracketed = "[" in url.partition("://")[2].partition("/")[0]
        if target.scheme not in ("http", "https") or not host or is_bracketed != (":" in host):
            raise _invalid_url("only http and https URLs with a host can be called")
        if target.raw_user is not None or target.raw_password is not None:
            raise _invalid_url("it must not contain credentials")
        if self._is_private(host):
            return target
        if target.port not in self._ports:
            raise _invalid_url(f"its port is not among {sorted(self._ports)}")
        _check_host(host)
        return target

    async def check_resolved(self, url: str) -> None:
        """Refuse a URL that is unsafe, or whose name has an address that is not public.

        Raises:
            InvalidInput: It is unsafe, or its name cannot be resolved.
        """
        target = self.check(url)
        host = target.raw_host or ""
        if self._is_private(host) or _parse_address(host) is not None:
            return
        resolver = self.resolver()
        try:
            async with asyncio.timeout(RESOLVE_S):
                await resolver.resolve(host, target.port or 0, socket.AF_UNSPEC)
        except OSError as error:
            raise _invalid_url("its host cannot be resolved to public addresses") from error
        finally:
            await resolver.close()

    def resolver(self) -> AbstractResolver:
        """A resolver that refuses names with an address that is not public."""
        return _PublicResolver(self._resolving(), self._is_private)

    def session(
        self, timeout_s: float, *, connections: int = 64, keeps_alive: bool = False
    ) -> ClientSession:
        """A client session for checked URLs: no cookies, no proxies, no DNS cache.

        Bodies are not decompressed, so the caller can count bytes as they arrive. `connections` is
        the maximum number of concurrent connections; 0 means no limit.
        """
        return ClientSession(
            connector=TCPConnector(
                resolver=self.resolver(),
                use_dns_cache=False,
                force_close=not keeps_alive,
                limit=connections,
            ),
            timeout=ClientTimeout(total=timeout_s),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def post(
        self, session: ClientSession, url: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Post a body to a URL, which is checked again; redirects are not followed.

        Raises:
            Undelivered: The URL is refused, cannot be reached, or does not answer with success.
        """
        try:
            async with session.post(
                self.check(url), data=body, headers=headers, allow_redirects=False
            ) as reply:
                if not 200 <= reply.status < 300:
                    message = f"the target answered with status {reply.status}"
                    raise Undelivered(message)
        except (ClientError, OSError, InvalidInput, ValueError) as error:
            # The error's text and its chain are dropped: they name the target.
            message = f"the target could not be reached ({type(error).__name__})"
            raise Undelivered(message) from None

    def _is_private(self, host: str) -> bool:
        return host.rstrip(".").lower() in self._private_hosts


class _PublicResolver(AbstractResolver):
    """Wraps a resolver and refuses addresses that are not public."""

    def __init__(self, inner: AbstractResolver, is_trusted: Callable[[str], bool]) -> None:
        self._inner = inner
        self._is_trusted = is_trusted

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name; all its addresses are public.

        Raises:
            OSError: There are none, or one of them is not public.
        """
        found = await self._inner.resolve(host, port, family)
        addresses = [_parse_address(it["host"]) for it in found]
        if not self._is_trusted(host) and not (addresses and all(map(_is_public, addresses))):
            message = "The host has an address that is not public."
            raise OSError(message)
        return found

    async def close(self) -> None:
        """Close the wrapped resolver."""
        await self._inner.close()


def _check_host(host: str) -> None:
    address = _parse_address(host)
    if address is not None:
        if not _is_public(address):
            raise _invalid_url("its address is not public")
        return
    name = host.removesuffix(".").lower()
    if not _NAME.fullmatch(name) or len(name) > 253:
        raise _invalid_url("its host is not a valid name")
    last = name.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        # Octal, hexadecimal and short forms, which some systems parse as addresses.
        raise _invalid_url("its host is a number in disguise")
    if last in ("localhost", "local", "internal", "localdomain") or "." not in name:
        raise _invalid_url("its host is not public")


def _parse_address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_public(address: _Address | None) -> bool:
    """Whether an address is globally reachable; an embedded IPv4 address is checked as well."""
    if address is None:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour is not None:
            return _is_public(address.sixtofour)
        if address in _NAT64:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    is_inside = any(address in network for network in _INSIDE)
    return address.is_global and not address.is_multicast and not is_inside


def _invalid_url(problem: str) -> InvalidInput:
    return InvalidInput(what="The URL", problem=problem)
