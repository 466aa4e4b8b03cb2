"""One server over its whole life: a task connects to it, keeps it, and tries it again."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

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
Publish = Callable[["ConnectedServer"], None]
Calls = Callable[["ConnectedServer", McpTool, Json, ToolContext], Awaitable[ToolOutput]]
logger = logging.getLogger(__name__)
_NOTHING: Mapping[str, str] = {}


class ConnectedServer:
    """A server, its state, its catalogue and its current connection."""

    refused: tuple[str, ...] = ()
    """Why agents could not be resolved with its tools."""

    def __init__(
        self, config: McpServer, clock: Clock, jitter: Jitter, publish: Publish, calls: Calls
    ) -> None:
        self.config, self.clock = config, clock
        self.listing = Listing()
        self.catalog = McpCatalog()
        """The last one that could be read, also while the server is away."""
        self.held: dict[str, McpExchange] = {}
        """Calls of the older era that wait for people, by their idempotency keys."""
        self.turns = asyncio.Semaphore(config.concurrency)
        self._jitter, self._publish, self._calls = jitter, publish, calls
        self._pins: dict[str, str] | None = None
        self._session: SdkSession | None = None
        self._exchanges: set[McpExchange] = set()
        self._generation = self._attempts = self._unheard = 0
        self._error: str | None = None
        self._state = ServerState.DISABLED
        self._since_ms = clock.now_ms()
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, is_asked_for: bool = False) -> None:
        """Begin to connect, unless it is configured to be left alone or a task is at it."""
        is_running = self._task is not None and not self._task.done()
        if (self.config.enabled or is_asked_for) and not is_running:
            self._attempts = 0
            self._move(ServerState.CONNECTING)
            self._task = asyncio.create_task(self._live())

    async def tried(self) -> None:
        """Return when the first try is over, whichever way."""
        while self._state is ServerState.CONNECTING:
            await self._moved.wait()

    async def reached(self, state: ServerState) -> None:
        """Return as soon as the server is in a state."""
        while self._state is not state:
            await self._moved.wait()

    async def close(self) -> None:
        """Disconnect, and stay so; returns when the task, the connection and all calls are gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._state is not ServerState.DISABLED:
            self._move(ServerState.DISABLED)

    async def login(self, person: "Person") -> None:
        """Connect as a person who logs in, and keep the login.

        Raises:
            InvalidSpec: The server has no `Login`.
            AwakenError: It failed.
        """
        transport = self.config.transport
        if not (isinstance(transport, Http) and isinstance(transport.oauth, Login)):
            what = f"MCP server '{self.config.name}'"
            raise InvalidSpec(what=what, problem="nobody logs in to it: its `oauth` is no Login")
        try:
            async with _opened(self.config, self._ask, person) as session:
                await session.listing()
        except Exception as error:
            logger.debug("The login failed.", exc_info=True)
            cause = _cause(error)
            is_told = isinstance(cause, AwakenError)
            raise cause if is_told else ServerUnavailable(_described(cause)) from None

    def in_use(self, tool: McpTool | None = None) -> "SdkSession":
        """The connection, for a call of a tool as it was when the caller got it.

        Raises:
            ServerUnavailable: There is none now; nothing is waited for.
            ToolRemoved, ToolDrifted: The tool is not there, or not the same, any more.
        """
        if self._session is None or self._session.ended.is_set():
            why = f": {self._error}" if self._error else ""
            raise ServerUnavailable(f"MCP server '{self.config.name}' is {self._state}{why}")
        if tool is not None:
            self._check(tool)
        return self._session

    def began(self, exchange: McpExchange) -> McpExchange:
        """Know of a call, so that what the server asks can be told to it."""
        self._exchanges.add(exchange)
        exchange.task.add_done_callback(partial(self._over, exchange))
        return exchange

    async def decline(self, run_id: str, call_id: str) -> None:
        """Answer a held call's question with no, and end the call."""
        for exchange in list(self.held.values()):
            context = exchange.context
            if (context.run.run_id, context.call_id) == (run_id, call_id):
                exchange.go_on(context, DECLINED)
                await asyncio.wait({exchange.task}, timeout=GRACE_S)
                await exchange.give_up()

    def heard(self, *, is_answer: bool) -> None:
        """Count calls in a row without an answer; too many, and the connection is made anew."""
        self._unheard = 0 if is_answer else self._unheard + 1
        if self._session is not None and self._unheard >= self.config.restart.failures:
            self._session.end(f"{self._unheard} calls in a row got no answer")

    def accept(self, tool: str) -> None:
        """Take a drifted tool as it is now.

        Raises:
            UnknownReference: It has not drifted.
        """
        if tool not in self.catalog.drift:
            owner, known = f"MCP server '{self.config.name}'", ", ".join(self.catalog.drift)
            raise UnknownReference(owner=owner, kind="drifted tool", name=tool, known=known)
        self._install(self.listing, {tool: self.catalog.drift[tool].offered})

    def status(self) -> ServerStatus:
        """Where it stands."""
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
            raise ToolDrifted(f"{of_server} has changed, and nobody has accepted it for this run")

    async def _live(self) -> None:
        restart = self.config.restart
        while True:
            began_ms, generation = self.clock.monotonic_ms(), self._generation
            cause = await self._connected()
            if isinstance(cause, LoginRequired):
                await self._look_out_for_a_login()
                continue
            logger.warning("MCP server '%s': %s", self.config.name, self._error)
            held_ms = self.clock.monotonic_ms() - began_ms if self._generation > generation else 0
            self._attempts = 1 if held_ms >= restart.stable_ms else self._attempts + 1
            # An address that is refused is refused every time.
            if isinstance(cause, InvalidInput) or self._attempts > restart.max_attempts:
                self._move(ServerState.FAILED)
                return
            self._move(ServerState.RECONNECTING)
            if self._error != EXPIRED or self._attempts > 1:
                await asyncio.sleep(restart.delay_ms(self._attempts, self._jitter()) / 1000)

    async def _look_out_for_a_login(self) -> None:
        if self._state is not ServerState.LOGIN_REQUIRED:
            logger.warning("%s", self._error)
            self._move(ServerState.LOGIN_REQUIRED)
        await asyncio.sleep(self.config.restart.cap_ms / 1000)

    async def _connected(self) -> BaseException | None:
        """Connect and stay connected; returns what ended it, if that was an error."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_ms / 1000):
                    session = await stack.enter_async_context(_opened(self.config, self._ask))
                    listing = await session.listing()
                stack.push_async_callback(self._end)
                self._generation += 1
                self._session, self._unheard, self._error = session, 0, None
                self._install(listing)
                self._move(ServerState.CONNECTED)
                await self._kept(session)
                self._error = session.why
        except Exception as error:  # Whatever a server or its transport does, it is only its own.
            logger.debug("The connection failed.", exc_info=True)
            cause = _cause(error)
            self._error = _described(cause)
            return cause
        return None

    async def _end(self) -> None:
        """No call outlives its connection."""
        self._session = None
        self._move(ServerState.RECONNECTING)
        tasks = [exchange.task for exchange in self._exchanges]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)

    async def _kept(self, session: "SdkSession") -> None:
        """Read the lists again whenever they change, until the connection ends."""
        hearing = asyncio.create_task(session.hear())
        ended = asyncio.create_task(session.ended.wait())
        changed = asyncio.create_task(session.changed.wait())
        awaited: set[asyncio.Task[Any]] = {hearing, ended, changed}
        try:
            while not ended.done():
                done, awaited = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if hearing in done and not ended.done():
                    hearing.result()  # Who does not hear of changes is not connected.
                if changed in done and not ended.done():
                    await asyncio.sleep(self.config.limits.coalesce_ms / 1000)
                    session.changed.clear()
                    changed = asyncio.create_task(session.changed.wait())
                    awaited.add(changed)
                    await self._refresh(session)
        finally:
            for task in (hearing, ended, changed):
                task.cancel()

    async def _refresh(self, session: "SdkSession") -> None:
        try:
            async with asyncio.timeout(self.config.connect_ms / 1000):
                listing = await session.listing()
        except (TimeoutError, ToolError) as error:
            # What was read before stays.
            self._error = f"its lists could not be read again: {_described(error)}"
            self.heard(is_answer=False)
        else:
            self._install(listing)

    def _install(self, listing: Listing, accepted: Mapping[str, str] = _NOTHING) -> None:
        """Offer what is listed; before that it is known for good what it was."""
        pins, perform = self._pins, partial(self._calls, self)
        pins = {**self._kept_pins(), **self.config.pins} if pins is None else {**pins, **accepted}
        catalog = catalog_of(listing, self.config, pins, self.catalog, perform)
        file = self.config.pin_file
        if file is not None and pins != self._pins:
            # Other processes may have seen other tools.
            private_files.keep(file, {**self._kept_pins(), **pins})
        self._pins, self.listing, self.catalog = pins, listing, catalog
        self._publish(self)

    def _kept_pins(self) -> dict[str, str]:
        file = self.config.pin_file
        return (file and private_files.read(file, dict[str, str])) or {}

    async def _ask(self, kind: Kind, params: Json) -> Json:
        """Tell the call that the server asks during; it must be plain which one that is."""
        exchange = CURRENT_EXCHANGE.get()
        if exchange is None:
            able = [it for it in self._exchanges if it.open is None and not it.task.done()]
            exchange = able[0] if len(able) == 1 else None
        if exchange not in self._exchanges or exchange is None:
            raise ServerUnavailable("no call, or more than one, could be meant by the question")
        return await exchange.ask(kind, params)

    def _over(self, exchange: McpExchange, task: "asyncio.Task[Json]") -> None:
        self._exchanges.discard(exchange)
        self.held.pop(exchange.context.idempotency_key, None)
        if not task.cancelled():
            task.exception()  # Whoever still waits for it is told by the exchange.

    def _move(self, state: ServerState) -> None:
        check_transition(TRANSITIONS, f"MCP server '{self.config.name}'", self._state, state)
        self._state, self._since_ms = state, self.clock.now_ms()
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _opened(config: McpServer, ask: Ask, person: "Person | None" = None) -> Any:
    return importlib.import_module("awaken.extensions.mcp.sdk").opened(config, ask, person)


def _cause(error: BaseException) -> BaseException:
    """What went wrong, without the groups that libraries wrap it in."""
    return _cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _described(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"[:500]
