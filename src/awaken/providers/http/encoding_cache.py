"""A cache of wire forms: encoded once, dropped together with the original."""

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from awaken.contracts.messages.message import Message

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_TOOL_SETS = 64


class _Known(weakref.ref[Message], Generic[T]):
    """A weak reference to a message, with its wire form."""

    __slots__ = ("made", "place")

    place: int
    made: T


class EncodedMessages(Generic[T]):
    """Caches the wire form of a message for as long as the message lives."""

    __slots__ = ("_encode", "_forget", "_known")

    def __init__(self, encode: Callable[[Message], T]) -> None:
        self._encode = encode
        # By identity: comparing messages would cost more than encoding them.
        known: dict[int, _Known[T]] = {}
        self._known = known

        def forget(dead: _Known[T]) -> None:
            # Another message may already have the same address.
            if known.get(dead.place) is dead:
                del known[dead.place]

        self._forget = forget

    def __len__(self) -> int:
        return len(self._known)

    def of(self, message: Message) -> T:
        """Return the wire form of a message."""
        known = self._known.get(id(message))
        if known is not None and known() is message:
            return known.made
        fresh: _Known[T] = _Known(message, self._forget)
        fresh.place, fresh.made = id(message), self._encode(message)
        self._known[fresh.place] = fresh
        return fresh.made


class EncodedParts(Generic[K]):
    """Caches the wire forms of the newest other parts, such as the tools of an agent."""

    __slots__ = ("_encode", "_known")

    def __init__(self, encode: Callable[[K], bytes]) -> None:
        self._encode = encode
        self._known: dict[int, tuple[K, bytes]] = {}

    def of(self, part: K) -> bytes:
        """Return the wire form of an immutable part."""
        known = self._known.get(id(part))
        if known is not None:
            return known[1]
        made = self._encode(part)
        if len(self._known) >= _TOOL_SETS:
            self._known.pop(next(iter(self._known)))
        # The part is kept with its form, so that no other object can get its address.
        self._known[id(part)] = (part, made)
        return made
