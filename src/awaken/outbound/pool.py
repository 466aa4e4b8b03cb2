"""The HTTP connections of one runtime: opened on first use, closed with the runtime."""

import asyncio
import os
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

CONNECT_S = 30
_PROXIES = ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY")


class HttpPool:
    """One connection pool for all outgoing calls of a runtime.

    It stores no cookies and does not decompress bodies, so that bytes are counted as they arrive.
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
        """The proxy that the environment sets for a URL, or None."""
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
        # Only proxies are read from the environment: a login from .netrc must not be used.
        trust_env=False,
    )
