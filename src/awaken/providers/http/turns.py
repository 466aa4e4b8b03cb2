"""A conversation in the order that vendors require, for formats that have turns."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.message import Message, Role

FIRST_WORDS = "(The conversation begins here.)"
"""The text of the user if the first message is an answer, which some vendors refuse."""


def split_system(messages: Sequence[Message]) -> tuple[tuple[str, ...], Sequence[Message]]:
    """Return the texts of the leading system messages, and all messages after them."""
    count = 0
    for message in messages:
        if message.role is not Role.SYSTEM:
            break
        count += 1
    if not count:
        return (), messages
    return tuple(text_of(message.content) for message in messages[:count]), messages[count:]


def format_notice(message: Message) -> str:
    """Format a system message inside a conversation for vendors that have only two roles."""
    return f"<system_notice>\n{text_of(message.content)}\n</system_notice>"


def order_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the results of calls directly after the calls, in their order.

    Results without a call keep their place; the usual case costs one pass over the messages.
    """
    return messages if _is_in_call_order(messages) else list(_reorder(messages))


def _is_in_call_order(messages: Sequence[Message]) -> bool:
    tool, assistant = Role.TOOL, Role.ASSISTANT
    awaited: list[str] = []
    for message in messages:
        role = message.role
        if role is tool:
            if not awaited or awaited.pop() != message.tool_call_id:
                return False
        elif awaited:
            return False
        elif role is assistant and message.tool_calls:
            awaited = [call.id for call in reversed(message.tool_calls)]
    return True


def _reorder(messages: Sequence[Message]) -> Iterable[Message]:
    results: dict[str | None, deque[tuple[int, Message]]] = {}
    for place, message in enumerate(messages):
        if message.role is Role.TOOL:
            results.setdefault(message.tool_call_id, deque()).append((place, message))
    sent: set[int] = set()
    for place, message in enumerate(messages):
        if place in sent:
            continue
        yield message
        for call in message.tool_calls or ():
            waiting = results.get(call.id, ())
            # An id may be used again: the result is the first one behind its call.
            found = next((it for it in waiting if it[0] > place and it[0] not in sent), None)
            if found is not None:
                sent.add(found[0])
                yield found[1]


def make_call_ids_distinct(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the ordered messages with new ids for calls that repeat an earlier id.

    A result gets the new id of its call; the usual case costs one pass over the messages.
    """
    used: set[str] = set()
    for message in messages:
        for call in message.tool_calls or ():
            if call.id in used:
                return list(_rename_repeated(messages))
            used.add(call.id)
    return messages


def _rename_repeated(messages: Sequence[Message]) -> Iterable[Message]:
    uses: dict[str, int] = {}
    awaited: dict[str | None, deque[str]] = {}
    for message in messages:
        if message.tool_calls:
            awaited, calls = {}, []
            for call in message.tool_calls:
                new_id = _make_unused_id(call.id, uses)
                awaited.setdefault(call.id, deque()).append(new_id)
                calls.append(msgspec.structs.replace(call, id=new_id))
            if tuple(calls) != message.tool_calls:
                message = msgspec.structs.replace(message, tool_calls=tuple(calls))
        elif message.role is Role.TOOL and (waiting := awaited.get(message.tool_call_id)):
            new_id = waiting.popleft()
            if new_id != message.tool_call_id:
                message = msgspec.structs.replace(message, tool_call_id=new_id)
        yield message


def _make_unused_id(call_id: str, uses: dict[str, int]) -> str:
    """Return an unused id made from the id; later messages do not change it."""
    new_id = call_id
    while new_id in uses:
        uses[call_id] += 1
        new_id = f"{call_id}_{uses[call_id]}"
    uses[new_id] = 1
    return new_id


def join_turns(
    pieces: Iterable[tuple[str, bytes]], openings: Mapping[str, bytes], first_words: bytes
) -> bytes:
    """Join encoded messages; those of one role that follow each other become one turn.

    The first turn is the user's; if the model speaks first, it contains `first_words`.
    """
    out: list[bytes] = []
    last: str | None = None
    for role, body in pieces:
        if not body:
            continue
        if role == last:
            out.append(b",")
        else:
            if last is not None:
                out.append(b"]},")
            elif role != "user":
                out += (openings["user"], first_words, b"]},")
            out.append(openings[role])
            last = role
        out.append(body)
    if last is not None:
        out.append(b"]}")
    return b"".join(out)
