"""A bus that lies: it drops, doubles, delays, damages and misdirects what it carries."""

from collections.abc import Callable
from random import Random

from awaken.contracts.storage.bus import BusWatcher, Signal, Unsubscribe
from awaken.stores import Bus


class LyingBus:
    """Wraps a `Bus`. Half of all signals and more than a third of all packets are lost."""

    def __init__(self, bus: Bus, seed: int) -> None:
        self._bus = bus
        self._random = Random(seed)
        self._held: list[tuple[str, bytes]] = []
        self._nodes: list[str] = []

    @property
    def watchers(self) -> list[BusWatcher]:
        return self._bus.watchers

    @property
    def is_up(self) -> bool:
        return self._bus.is_up

    @property
    def dropped(self) -> int:
        return self._bus.dropped

    async def open(self) -> None:
        await self._bus.open()

    async def close(self) -> None:
        await self._bus.close()

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        return self._bus.subscribe(listener)

    def follow(self, thread_id: str | None) -> Unsubscribe:
        return self._bus.follow(thread_id)

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        self._nodes.append(node)
        return self._bus.receive(node, take)

    def tell(self, signal: Signal, to: str | None = None) -> None:
        for _ in range(self._random.choice((0, 0, 1, 2))):
            self._bus.tell(signal, to)
        if self._random.random() < 0.3:
            # About another thread, or from another node.
            self._bus.tell(Signal(kind=signal.kind, thread_id="other", node=signal.node))
            node = self._random.choice([*self._nodes, "nobody"])
            self._bus.tell(Signal(kind=signal.kind, thread_id=signal.thread_id, node=node))

    def send(self, to: str, payload: bytes) -> bool:
        match self._random.randrange(8):
            case 0 | 1 | 2:
                pass
            case 3:
                self._held.append((to, payload))
            case 4:
                self._bus.send(to, payload)
                self._bus.send(to, payload)
            case 5:
                self._bus.send(to, self._random.randbytes(40))
                self._bus.send(to, payload[: len(payload) // 2])
                self._bus.send(self._random.choice(self._nodes), payload)
            case _:
                self._bus.send(to, payload)
                while self._held and self._random.random() < 0.7:
                    self._bus.send(*self._held.pop(self._random.randrange(len(self._held))))
        return self._random.random() < 0.9
