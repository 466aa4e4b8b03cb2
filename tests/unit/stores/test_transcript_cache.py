"""The cache of transcripts is as large as what it holds, not as what is stored of that."""

import random

from awaken.contracts.messages.message import Message, ToolCall, assistant, user
from awaken.contracts.messages.sizes import message_bytes, value_bytes
from awaken.stores.sql.blobs import seal, unseal
from awaken.stores.sql.transcripts import CACHE_BYTES, TranscriptCache


def count_kept(cache: TranscriptCache, sizes: list[int]) -> int:
    """The bytes of the threads that the cache still has; each has one message."""
    return sum(size for no, size in enumerate(sizes) if cache.find_messages(no))


def large(n: int) -> Message:
    """A megabyte that is stored in a thousandth of it."""
    return user("x" * 1_000_000)


def wide(n: int) -> Message:
    """Few bytes, many objects."""
    return assistant((), [ToolCall(id="c", name="f", arguments=[{} for _ in range(20_000)])])


def test_what_is_stored_small_but_held_large_is_let_go() -> None:
    for make in (large, wide):
        cache, sizes = TranscriptCache(), []
        for no in range(150):
            message = make(no)
            sizes.append(message_bytes(message))
            cache.extend(no, 0, [message])
            assert count_kept(cache, sizes) <= CACHE_BYTES
        assert cache.find_messages(149)
        assert not cache.find_messages(0)


def test_a_thread_that_alone_is_too_large_is_not_kept() -> None:
    cache = TranscriptCache(limit=1_500_000)
    cache.extend(1, 0, [large(1)])
    cache.extend(1, 1, [large(1)])
    assert cache.find_messages(1) == []
    cache.extend(2, 0, [user("hi")])
    cache.drop(2)
    assert cache._size == 0


def test_a_decoded_value_is_counted_with_all_that_is_in_it() -> None:
    assert value_bytes([{}] * 1000) > 1000 * 64
    assert value_bytes({"a": "x" * 1000}) > 1000
    assert value_bytes({"k" * 1000: 1}) > 1000
    assert message_bytes(user("\U0001f600" + "x" * 1000)) > 4000


def test_what_compression_cannot_shrink_is_stored_as_it_is() -> None:
    noise = random.Random(1).randbytes(600_000)
    blob = seal(noise)
    assert blob[:1] == b"0"
    assert unseal(blob, "it") == noise
    assert len(seal(b"word " * 200_000)) < 100_000
