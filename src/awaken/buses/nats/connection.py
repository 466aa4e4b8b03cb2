"""One connection to one NATS server; it never reconnects by itself."""

import asyncio
from collections.abc import Callable
from typing import Any

try:
    from nats.aio.client import PING_PROTO, Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.aio.transport import TcpTransport
    from nats.errors import SecureConnRequiredError, SlowConsumerError
    from nats.protocol.parser import PERMISSIONS_ERR
except ModuleNotFoundError as error:
    _MESSAGE = "The NATS bus needs its client: pip install 'awaken[nats]'"
    raise ModuleNotFoundError(_MESSAGE, name="nats") from error

INCOMING_MAX = 10_000
"""How many messages of one subject wait for the event loop; further ones are lost."""
INCOMING_BYTES_MAX = 8 * 1024 * 1024

_SUBSCRIBED_AT_ONCE = 256
"""The client queues one flush for each, and waits when 1,024 of them are queued."""


class NatsConnection(Client):
    """A client of nats-py that is used for one connection, and can be cut.

    The client's own way to reconnect keeps what was published in an outage, tries the same
    server again first and swallows cancellation. So the bus makes a new one each time.
    """

    def __init__(
        self, take: Callable[[str, bytes], None], on_end: Callable[[], None], *, is_tls: bool
    ) -> None:
        super().__init__()
        self._is_tls = is_tls
        self._take = take
        self._on_end = on_end
        self._heard: dict[str, Subscription] = {}
        self.problem = ""
        """Why the last attempt failed or the connection ended."""
        self.refusal = ""
        """Which subject the server does not let this user publish or hear."""
        self.overrun = 0
        """How many messages were lost because the event loop was too slow for them."""

    async def reach(self, server: str, timeout_s: float, login: dict[str, Any]) -> None:
        """Connect to a server.

        Raises:
            nats.errors.Error: It refused, or there is none.
            TimeoutError: It did not answer in time.
        """
        async with asyncio.timeout(timeout_s):
            await self.connect(
                [server],
                error_cb=self._note_error,
                closed_cb=self._note_end,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=timeout_s,  # type: ignore[arg-type]
                # The bus bounds what waits, and a publish must never wait for the peer.
                pending_size=0,
                name="awaken",
                **login,
            )

    async def ask_server(self, timeout_s: float) -> None:
        """Wait for an answer; what the server refused of what was sent comes before it.

        Raises:
            nats.errors.Error: The connection ended.
            PermissionError: The user has no right to a subject.
        """
        await self.rtt(timeout_s)  # type: ignore[arg-type]
        if self.refusal:
            raise PermissionError(self.refusal)

    async def hear(self, subjects: "set[str]", timeout_s: float) -> "set[str]":
        """Hear these subjects and no others; returns those that are new.

        Raises:
            nats.errors.Error: The connection ended.
        """
        fresh = subjects - self._heard.keys()
        for count, subject in enumerate(sorted(fresh), 1):
            self._heard[subject] = await self.subscribe(
                subject,
                cb=self._on_message,
                pending_msgs_limit=INCOMING_MAX,
                pending_bytes_limit=INCOMING_BYTES_MAX,
            )
            if count % _SUBSCRIBED_AT_ONCE == 0:
                await self.rtt(timeout_s)  # type: ignore[arg-type]
        for count, subject in enumerate(sorted(self._heard.keys() - subjects), 1):
            await self._heard.pop(subject).unsubscribe()
            if count % _SUBSCRIBED_AT_ONCE == 0:
                await self.rtt(timeout_s)  # type: ignore[arg-type]
        return fresh

    def _connect_command(self) -> bytes:
        """Make the command that has the password; the client would also send it without TLS."""
        if self._is_tls:
            writer = getattr(self._transport, "_io_writer", None)
            if writer is None or writer.get_extra_info("ssl_object") is None:
                raise SecureConnRequiredError
        return super()._connect_command()

    async def _send_ping(self, future: "asyncio.Future[bool] | None" = None) -> None:
        """Ask for an answer; the client would ask before the server gets what waits to be sent."""
        self._pongs.append(asyncio.Future() if future is None else future)
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def leave(self) -> None:
        """End the connection at once, also one whose peer takes no bytes; harmless if it ended."""
        # A graceful end would first wait until everything is written.
        self._pending.clear()
        self._pending_data_size = 0
        if isinstance(self._transport, TcpTransport) and self._transport._io_writer is not None:  # noqa: SLF001 - there is no public way to abort
            self._transport._io_writer.transport.abort()  # noqa: SLF001
        if self._flush_queue is not None:
            await self.close()

    async def _on_message(self, message: Msg) -> None:
        self._take(message.subject, message.data)

    async def _note_error(self, error: Exception) -> None:
        if isinstance(error, SlowConsumerError):
            self.overrun += 1
        else:
            self.problem = str(error) or type(error).__name__
            if PERMISSIONS_ERR in self.problem:
                self.refusal = self.problem

    async def _note_end(self) -> None:
        self._on_end()
