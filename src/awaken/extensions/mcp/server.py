"""One server: a background task connects to it, keeps the connection, and reconnects."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import AwakenError, InvalidInput, InvalidSpec, UnknownReference
from awaken.contracts.lifecycle import check_transition
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolError, ToolOutput
from awaken.outbound import private_files
from awaken.outbound.credentials import Login, LoginRequired

from .catalog import Listing, McpCatalog, McpTool, catalog_of
from .config import Http, McpServer
from .errors import EXPIRED, ServerUnavailable, ToolDrifted, ToolRemoved
from .exchange import CURRENT_EXCHANGE, GRACE_S, Ask, Json, Kind, McpExchange
from .questions import DECLINED
from .status import TRANSITIONS, ServerState, ServerStatus

if TYPE_CHECKING:
    from awaken.outbound.oauth import Person

    from .sdk import SdkSession

Jitter = Callable[[], float]
Publish = Callable[["ConnectedServer"], Awaitable[None]]
Calls = Callable[["ConnectedServer", McpTool, Json, ToolContext], Awaitable[ToolOutput]]
logger = logging.getLogger(__name__)
_NOTHING: Mapping[str, str] = {}

_CANCEL_AGAIN_S = 1.0
"""How long a connection that was cancelled may take to end before it is cancelled again."""


class ConnectedServer:
    """A server, its state, its catalogue and its current connection."""

    refused: tuple[str, ...] = ()
    """Why agents could not be resolved with its tools, if they could not."""

    def __init__(
        self, config: McpServer, clock: Clock, jitter: Jitter, publish: Publish, calls: Calls
    ) -> None:
        self.config, self.clock = config, clock
        self.listing = Listing()
        self.catalog = McpCatalog()
        """The last one that could be read, also while the server is disconnected."""
        self.held: dict[str, McpExchange] = {}
        """Calls of the older era that wait for people, by idempotency key."""
        self.turns = asyncio.Semaphore(config.concurrency)
        self._jitter, self._publish, self._calls = jitter, publish, calls
        self._pins: dict[str, str] | None = None
        self._session: SdkSession | None = None
        self._exchanges: set[McpExchange] = set()
        self._generation = self._attempts = self._unheard = 0
        self._error: str | None = None
        self._state = ServerState.DISABLED
        self._since_ms = clock.now_ms()
        self._state_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, is_asked_for: bool = False) -> None:
        """Start to connect, unless the server is disabled or the task already runs."""
        is_running = self._task is not None and not self._task.done()
        if (self.config.enabled or is_asked_for) and not is_running:
            self._attempts = 0
            self._move(ServerState.CONNECTING)
            self._task = asyncio.create_task(self._run())

    async def wait_for_first_try(self) -> None:
        """Wait until the first try has succeeded or failed."""
        while self._state is ServerState.CONNECTING:
            await self._state_changed.wait()

    async def wait_for_state(self, state: ServerState) -> None:
        """Wait until the server is in a state."""
        while self._state is not state:
            await self._state_changed.wait()

    async def close(self) -> None:
        """Disconnect and stay disconnected; returns when the task and all calls have ended."""
        while self._task is not None and not self._task.done():
            # A library may swallow a cancellation that comes while its own request fails.
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CANCEL_AGAIN_S)
        if self._state is not ServerState.DISABLED:
            self._move(ServerState.DISABLED)

    async def login(self, person: "Person", redirect: str | None = None) -> None:
        """Connect with a person who logs in, and store the login.

        `redirect` is where the browser comes back to, if not at the redirect of the `Login`.

        Raises:
            InvalidSpec: The server has no `Login`.
            AwakenError: The login failed.
        """
        transport = self.config.transport
        if not (isinstance(transport, Http) and isinstance(transport.oauth, Login)):
            what = f"MCP server '{self.config.name}'"
            raise InvalidSpec(what=what, problem="it has no login: its `oauth` is not a Login")
        config = self.config
        if redirect is not None:
            oauth = msgspec.structs.replace(transport.oauth, redirect=redirect)
            transport = msgspec.structs.replace(transport, oauth=oauth)
            config = msgspec.structs.replace(config, transport=transport)
        try:
            async with _open_session(config, self._ask, person) as session:
                await session.read_listing()
        except Exception as error:
            logger.debug("The login failed.", exc_info=True)
            cause = _cause(error)
            is_typed = isinstance(cause, AwakenError)
            raise cause if is_typed else ServerUnavailable(_describe_error(cause)) from None

    def get_session(self, tool: McpTool | None = None) -> "SdkSession":
        """The connection for a call of a tool in the version that the caller resolved.

        Raises:
            ServerUnavailable: There is no connection now; this does not wait for one.
            ToolRemoved, ToolDrifted: The tool was removed, or has changed.
        """
        if self._session is None or self._session.ended.is_set():
            why = f": {self._error}" if self._error else ""
            raise ServerUnavailable(f"MCP server '{self.config.name}' is {self._state}{why}")
        if tool is not None:
            self._check(tool)
        return self._session

    def track_exchange(self, exchange: McpExchange) -> McpExchange:
        """Track a call, so that the server's questions can be passed to it."""
        self._exchanges.add(exchange)
        exchange.task.add_done_callback(partial(self._on_exchange_done, exchange))
        return exchange

    async def decline(self, run_id: str, call_id: str) -> None:
        """Decline the question of a held call, and end the call."""
        for exchange in list(self.held.values()):
            context = exchange.context
            if (context.run.run_id, context.call_id) == (run_id, call_id):
                exchange.resume(context, DECLINED)
                await asyncio.wait({exchange.task}, timeout=GRACE_S)
                await exchange.cancel()

    def note_reply(self, *, is_answer: bool) -> None:
        """Count consecutive calls without an answer; too many end the connection."""
        self._unheard = 0 if is_answer else self._unheard + 1
        if self._session is not None and self._unheard >= self.config.restart.failures:
            self._session.end(f"{self._unheard} calls in a row got no answer")

    async def accept(self, tool: str) -> None:
        """Accept the current version of a drifted tool.

        Raises:
            UnknownReference: The tool has not drifted.
        """
        if tool not in self.catalog.drift:
            owner, known = f"MCP server '{self.config.name}'", ", ".join(self.catalog.drift)
            raise UnknownReference(owner=owner, kind="drifted tool", name=tool, known=known)
        await self._install(self.listing, {tool: self.catalog.drift[tool].offered})

    def status(self) -> ServerStatus:
        """The status of the server."""
        return ServerStatus(
            name=self.config.name,
            transport=self.config.kind,
            state=self._state,
            since_ms=self._since_ms,
            generation=self._generation,
            protocol_version=self.listing.protocol_version,
            tools=self.catalog.statuses(),
            prompts=len(self.listing.prompts),
            problems=(*self.catalog.problems, *self.refused),
            drift=tuple(self.catalog.drift.values()),
            last_error=self._error,
            attempts=self._attempts,
        )

    def _check(self, tool: McpTool) -> None:
        of_server = f"'{tool.name}' of MCP server '{self.config.name}'"
        current, has_drifted = self.catalog.tools.get(tool.name), tool.name in self.catalog.drift
        if current is None and not has_drifted:
            raise ToolRemoved(f"{of_server} is not offered any more")
        is_other = has_drifted or current is None or current.hash != tool.hash
        if is_other and self.config.on_drift == "refuse":
            raise ToolDrifted(
                f"{of_server} has changed, and the change is not accepted for this run"
            )

    async def _run(self) -> None:
        restart = self.config.restart
        while True:
            began_ms, generation = self.clock.monotonic_ms(), self._generation
            cause = await self._run_connection()
            if isinstance(cause, LoginRequired):
                await self._wait_for_login()
                continue
            logger.warning("MCP server '%s': %s", self.config.name, self._error)
            held_ms = self.clock.monotonic_ms() - began_ms if self._generation > generation else 0
            self._attempts = 1 if held_ms >= restart.stable_ms else self._attempts + 1
            # A refused address is refused every time.
            if isinstance(cause, InvalidInput) or self._attempts > restart.max_attempts:
                self._move(ServerState.FAILED)
                return
            self._move(ServerState.RECONNECTING)
            if self._error != EXPIRED or self._attempts > 1:
                await asyncio.sleep(restart.delay_ms(self._attempts, self._jitter()) / 1000)

    async def _wait_for_login(self) -> None:
        if self._state is not ServerState.LOGIN_REQUIRED:
            logger.warning("%s", self._error)
            self._move(ServerState.LOGIN_REQUIRED)
        await asyncio.sleep(self.config.restart.cap_ms / 1000)

    async def _run_connection(self) -> BaseException | None:
        """Connect and stay connected; returns the error that ended the connection, if any."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_ms / 1000):
                    session = await stack.enter_async_context(_open_session(self.config, self._ask))
                    listing = await session.read_listing()
                stack.push_async_callback(self._end)
                self._generation += 1
                self._session, self._unheard, self._error = session, 0, None
                await self._install(listing)
                self._move(ServerState.CONNECTED)
                await self._keep_fresh(session)
                self._error = session.why
        except Exception as error:  # A failing server or transport must not affect anything else.
            logger.debug("The connection failed.", exc_info=True)
            cause = _cause(error)
            self._error = _describe_error(cause)
            return cause
        return None

    async def _end(self) -> None:
        """Cancel all calls: no call outlives its connection."""
        self._session = None
        self._move(ServerState.RECONNECTING)
        tasks = [exchange.task for exchange in self._exchanges]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)

    async def _keep_fresh(self, session: "SdkSession") -> None:
        """Read the lists again whenever they change, until the connection ends."""
        listener = asyncio.create_task(session.listen_for_changes())
        ended = asyncio.create_task(session.ended.wait())
        changed = asyncio.create_task(session.changed.wait())
        awaited: set[asyncio.Task[Any]] = {listener, ended, changed}
        try:
            while not ended.done():
                done, awaited = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if listener in done and not ended.done():
                    listener.result()  # Without change notifications the connection is unusable.
                if changed in done and not ended.done():
                    await asyncio.sleep(self.config.limits.coalesce_ms / 1000)
                    session.changed.clear()
                    changed = asyncio.create_task(session.changed.wait())
                    awaited.add(changed)
                    await self._refresh(session)
        finally:
            for task in (listener, ended, changed):
                task.cancel()

    async def _refresh(self, session: "SdkSession") -> None:
        try:
            async with asyncio.timeout(self.config.connect_ms / 1000):
                listing = await session.read_listing()
        except (TimeoutError, ToolError) as error:
            # The previous listing stays.
            self._error = f"its lists could not be read again: {_describe_error(error)}"
            self.note_reply(is_answer=False)
        else:
            await self._install(listing)

    async def _install(self, listing: Listing, accepted: Mapping[str, str] = _NOTHING) -> None:
        """Offer the listed tools, after their pins are stored."""
        pins, perform = self._pins, partial(self._calls, self)
        pins = {**self._read_pins(), **self.config.pins} if pins is None else {**pins, **accepted}
        catalog = catalog_of(listing, self.config, pins, self.catalog, perform)
        file = self.config.pin_file
        if file is not None and pins != self._pins:
            # Other processes may have seen other tools.
            private_files.write(file, {**self._read_pins(), **pins})
        self._pins, self.listing, self.catalog = pins, listing, catalog
        await self._publish(self)

    def _read_pins(self) -> dict[str, str]:
        file = self.config.pin_file
        return (file and private_files.read(file, dict[str, str])) or {}

    async def _ask(self, kind: Kind, params: Json) -> Json:
        """Pass a question to the call that it belongs to; it must be unambiguous."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is None:
            able = [it for it in self._exchanges if it.open is None and not it.task.done()]
            exchange = able[0] if len(able) == 1 else None
        if exchange not in self._exchanges or exchange is None:
            raise ServerUnavailable("the question belongs to no call, or could belong to several")
        return await exchange.ask(kind, params)

    def _on_exchange_done(self, exchange: McpExchange, task: "asyncio.Task[Json]") -> None:
        self._exchanges.discard(exchange)
        self.held.pop(exchange.context.idempotency_key, None)
        if not task.cancelled():
            task.exception()  # Marked as retrieved; the exchange raises it to the waiting caller.

    def _move(self, state: ServerState) -> None:
        check_transition(TRANSITIONS, f"MCP server '{self.config.name}'", self._state, state)
        self._state, self._since_ms = state, self.clock.now_ms()
        moved, self._state_changed = self._state_changed, asyncio.Event()
        moved.set()


def _open_session(
    config: McpServer, ask: Ask, person: "Person | None" = None
) -> "AbstractAsyncContextManager[SdkSession]":
    # Loaded here: the SDK is an optional dependency and takes a while to load.
    sdk = importlib.import_module("awaken.extensions.mcp.sdk")
    session: AbstractAsyncContextManager[SdkSession] = sdk.open_session(config, ask, person)
    return session


def _cause(error: BaseException) -> BaseException:
    """The cause of an error, without the exception groups around it."""
    return _cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _describe_error(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"[:500]
