"""Digests of messages: the same for the same content, whatever the ids of messages and calls.

A transcript only grows, and is stored: its length and its last messages determine a request of its
thread. So the digest of a long transcript covers no more than those, and costs no more.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from awaken.contracts.messages.message import Message, Role, Transcript

DIGEST_BYTES = 8
BLOCK = 8
"""A transcript is digested from the block before the one that is not yet full."""
# One line for each message: where a digest was interrupted does not change it.
_encode_lines = msgspec.json.Encoder().encode_lines
# Bound once: Python 3.11 reads a member through its class slowly.
_TOOL = Role.TOOL


class MessageDigest(msgspec.Struct, eq=False):
    """The digest of messages, which can be continued with more of them."""

    hash: Any = None
    """The state of the hash function; asking it for its digest does not change it."""
    first: int = 0
    """The place in the transcript of the first message that it covers."""
    end: int = 0
    """The place after the last one."""
    calls: dict[str, int] = {}
    """The place of each call within the latest message that made calls."""

    def follow(self, transcript: Transcript) -> str:
        """Return the digest of a transcript that has grown since the latest call.

        It begins at the same place in all transcripts of a length, and that place is part of it, so
        that it does not depend on what was digested before.

        Raises:
            TypeError: A message has no JSON form.
            ValueError: A message has no JSON form.
        """
        own, length = transcript.own, transcript.length
        first = (length + len(own)) // BLOCK * BLOCK - BLOCK
        if first > self.first:
            self.hash, self.first, self.end, self.calls = None, first, first, {}
        # Most runs have digested all messages that are not their own, or have no others.
        is_own = self.end >= length
        return self.add(own[self.end - length :] if is_own else transcript.list_from(self.end))

    def add(self, messages: Iterable[Message]) -> str:
        """Continue with more messages, and return the digest of all.

        Raises:
            TypeError: A message has no JSON form; the digest does not change.
            ValueError: A message has no JSON form; the digest does not change.
        """
        # Without calls of functions for each message: every run of every thread comes here.
        rows: list[tuple[Any, ...]] = []
        calls, end = self.calls, self.end
        for message in messages:
            end += 1
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
        data = _encode_lines(rows)
        if self.hash is None:
            prefix = b"%d" % self.first if self.first else b""
            self.hash = blake2b(prefix + data, digest_size=DIGEST_BYTES)
        else:
            self.hash.update(data)
        self.calls, self.end = calls, end
        digest: str = self.hash.hexdigest()
        return digest
