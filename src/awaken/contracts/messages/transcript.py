"""A thread's messages as a run and a request see them."""

import operator
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import overload

from .message import Message


class Transcript(Sequence[Message]):
    """A view of the first messages of an append-only list, followed by messages of its own.

    Creating one is cheap however long the list is, because nothing is copied. Messages that are
    appended to the list later are not visible in it.
    """

    __slots__ = ("_base", "_length", "_own")

    def __init__(self, base: Sequence[Message] = ()) -> None:
        self._base = base
        self._length = len(base)
        self._own: list[Message] = []

    def append(self, message: Message) -> None:
        """Add a message at the end; the underlying list does not change."""
        self._own.append(message)

    def __len__(self) -> int:
        return self._length + len(self._own)

    def __iter__(self) -> Iterator[Message]:
        return chain(islice(self._base, self._length), self._own)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            message = f"there is no message {index} of {len(self)}"
            raise IndexError(message)
        return self._base[place] if place < self._length else self._own[place - self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"
