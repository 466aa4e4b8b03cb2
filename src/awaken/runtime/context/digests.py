"""Digests of messages: the same for the same content, whatever the ids of messages and calls.

A digest of a thread's messages is continued, not repeated: a request costs what is new in it.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from awaken.contracts.messages.message import Message, Role

DIGEST_BYTES = 8
THREADS_MAX = 1_000
# One line for each message: where a digest was interrupted does not change it.
_encode_lines = msgspec.json.Encoder().encode_lines
# Bound once: Python 3.11 reads a member through its class slowly.
_TOOL = Role.TOOL


class MessageDigest(msgspec.Struct, eq=False):
    """The digest of the first messages of a list that only grows."""

    hash: Any = None
    """The state of the hash function; asking it for its digest does not change it."""
    count: int = 0
    """How many messages it covers."""
    last_id: str | None = None
    """The id of the last of them, which tells whether a list begins with the same ones."""
    calls: dict[str, int] = {}
    """The place of each call within the latest message that made calls."""

    def add(self, messages: Iterable[Message]) -> str:
        """Continue with more messages, and return the digest of all.

        Raises:
            TypeError: A message has no JSON form; the digest does not change.
            ValueError: A message has no JSON form; the digest does not change.
        """
        # Without calls of functions for each message: every run of every thread comes here.
        rows: list[tuple[Any, ...]] = []
        calls, count, message = self.calls, self.count, None
        for message in messages:
            count += 1
            asked: list[Any] | None = None
            if message.tool_calls:
                asked, calls = [], {}
                for place, call in enumerate(message.tool_calls):
                    calls[call.id] = place
                    asked += ((call.name, call.arguments, call.signature),)
            answers = None
            if message.role is _TOOL:
                name = message.tool_call_id or ""
                answers = calls[name] if name in calls else -1
            rows += ((message.role, message.content, asked, answers),)
        if message is not None or self.hash is None:
            data = _encode_lines(rows)
            if self.hash is None:
                self.hash = blake2b(data, digest_size=DIGEST_BYTES)
            else:
                self.hash.update(data)
        if message is not None:
            self.calls, self.count, self.last_id = calls, count, message.id
        digest: str = self.hash.hexdigest()
        return digest


class ThreadDigests(msgspec.Struct, eq=False):
    """A cache: the digests of threads on which this process executed runs."""

    by_thread: dict[str, MessageDigest] = {}
    room: int = THREADS_MAX
    """How many more it takes; then all are dropped, so that keeping one costs nothing."""

    def clear(self) -> None:
        """Drop all digests; each is made again when its thread is used."""
        self.by_thread, self.room = {}, THREADS_MAX
