"""A proxy on a TCP link that does what networks do: cut, mute, stuck, slow, one byte at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class LinkProxy:
    """Forwards bytes to a port of this machine.

    While `is_mute`, what is sent is lost, and no connection ends. While `is_stuck`, nothing is
    read, so that the senders' buffers fill up.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.is_mute = False
        self.is_stuck = False
        self.delay_s = 0.0
        self.piece = 65_536
        """How many bytes are forwarded at once."""
        self.links: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def abort_all(self) -> None:
        """Cut every connection."""
        for writer in self.links:
            writer.transport.abort()
        self.links.clear()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self.links += [writer, back]
        try:
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        finally:
            for it in (writer, back):
                it.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(self.piece):
                while self.is_stuck and not writer.is_closing():
                    await asyncio.sleep(0.01)
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if not self.is_mute:
                    writer.write(data)
                    await writer.drain()
        if not self.is_mute:
            writer.close()


@asynccontextmanager
async def proxied(target: int) -> AsyncIterator[LinkProxy]:
    """A proxy before a port, that ends with the block, and every connection with it."""
    proxy = LinkProxy(target)
    listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.is_stuck = proxy.is_mute = False
        proxy.abort_all()
        listening.close()
        await listening.wait_closed()
