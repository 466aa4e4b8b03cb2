"""Logins to MCP servers that a person makes in the console's browser."""

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from awaken.contracts.errors import InvalidInput
from awaken.extensions.mcp import McpPlugin

ADDRESS_S = 30
"""How long the servers may take to name the page to log in at."""
LOGIN_S = 600
"""How long a person may take."""
PENDING_MAX = 16


class McpLogins:
    """The logins that were begun in this process and are not completed.

    A login is completed only by the caller who began it, and only with the state that its
    authorization server was given: the reply to another person's login completes nothing.
    """

    def __init__(self) -> None:
        self._pending: dict[str, _PendingLogin] = {}
        """By server: a server has one login, and so one attempt at it."""

    async def begin(self, plugin: McpPlugin, server: str, caller: str, redirect: str) -> str:
        """Begin a login, in place of one that waits; returns the address to open.

        Raises:
            UnknownReference: There is no such server.
            InvalidSpec: It has no `Login`.
            InvalidInput: It wants no login, or too many logins wait.
            AwakenError: It or its authorization server refuses.
        """
        if (former := self._pending.pop(server, None)) is not None:
            await former.close()
        if len(self._pending) >= PENDING_MAX:
            raise _login_error(server, "too many logins wait; try again later")
        login = _PendingLogin(plugin, server, caller, redirect)
        self._pending[server] = login
        login.task.add_done_callback(lambda _: self._forget(server, login))
        return await login.find_address()

    async def complete(self, server: str, caller: str, reply: Mapping[str, str]) -> None:
        """Complete a login with the query of the browser's redirect; the login is stored then.

        Raises:
            InvalidInput: No login of this caller waits for this reply.
            AwakenError: The login failed.
        """
        login = self._pending.get(server)
        if login is None or login.caller != caller or not login.has_state(reply.get("state", "")):
            raise _login_error(server, "no login of this caller waits for this reply; begin again")
        await login.complete(reply)

    async def close(self) -> None:
        """Give up every login that waits."""
        pending, self._pending = [*self._pending.values()], {}
        await asyncio.gather(*(it.close() for it in pending))

    def _forget(self, server: str, login: "_PendingLogin") -> None:
        if self._pending.get(server) is login:
            del self._pending[server]


class _PendingLogin:
    """One login: a task that speaks with the servers, and waits for the person's browser."""

    def __init__(self, plugin: McpPlugin, server: str, caller: str, redirect: str) -> None:
        self.caller = caller
        self._plugin, self._server, self._redirect = plugin, server, redirect
        loop = asyncio.get_running_loop()
        self._address: asyncio.Future[str] = loop.create_future()
        self._reply: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self.task = asyncio.create_task(self._login(), name=f"mcp-login {server}")

    def has_state(self, given: str) -> bool:
        """Whether a reply is the one that this login waits for."""
        if not self._address.done() or self._reply.done():
            return False
        (state,) = parse_qs(urlsplit(self._address.result()).query).get("state", ("",))
        return state != "" and hmac.compare_digest(state.encode(), given.encode())

    async def find_address(self) -> str:
        """Wait for the address of the page to log in at."""
        try:
            async with asyncio.timeout(ADDRESS_S):
                waited: set[asyncio.Future[Any]] = {self.task, self._address}
                await asyncio.wait(waited, return_when="FIRST_COMPLETED")
        except TimeoutError:
            await self.close()
            raise _login_error(self._server, f"it named no page within {ADDRESS_S} s") from None
        if self._address.done():
            return self._address.result()
        self.task.result()
        raise _login_error(self._server, "it wants no login, or not before a tool is called")

    async def complete(self, reply: Mapping[str, str]) -> None:
        """Continue with the reply until the login is stored."""
        self._reply.set_result(reply)
        await asyncio.shield(self.task)

    async def close(self) -> None:
        """End the task."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _login(self) -> None:
        try:
            async with asyncio.timeout(LOGIN_S):
                await self._plugin.login(self._server, self._ask_person, self._redirect)
        except TimeoutError:
            raise _login_error(self._server, f"there was no login within {LOGIN_S} s") from None

    async def _ask_person(self, url: str) -> Mapping[str, str]:
        self._address.set_result(url)
        return await self._reply


def _login_error(server: str, problem: str) -> InvalidInput:
    return InvalidInput(what=f"login to MCP server '{server}'", problem=problem)
