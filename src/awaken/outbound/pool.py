"""The connections of one runtime: made when the first call needs them, closed with it."""

import asyncio
import os
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

CONNECT_S = 30
_PROXIES = ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY")


class HttpPool:
    """One pool of connections for all that a runtime calls.

    Cookies are not kept and nothing is unpacked behind our back: bytes are counted as they come.
    """

    __slots__ = ("_has_proxy", "_loop", "_session")

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_proxy = any(name in os.environ for name in _PROXIES)

    def session(self) -> aiohttp.ClientSession:
        """The session of the running loop."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._session, self._loop = _new_session(), loop
        return self._session

    def proxy_of(self, url: str) -> str | None:
        """The proxy that the environment names for an address, if it names one."""
        if not self._has_proxy:
            return None
        parts = urlsplit(url)
        return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)

    async def close(self) -> None:
        """Close all connections; the pool can be used again."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()


def _new_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=256 * 1024,
        # The environment is asked for a proxy and nothing else: a login from .netrc is no key.
        trust_env=False,
    )
