"""Who said the messages of a run: its user, another one, or no person at all.

A run may take in words of several: a message of another user continues it, a webhook or a program
adds to it. A message is marked where its speaker is not the one that the run began with.
"""

from collections.abc import Iterable

import msgspec

from awaken.contracts.identity import RunMode, RunOrigin, RunProvenance, normalize_id
from awaken.contracts.messages.message import Message, MessageMetadata, Role, Visibility

from .records import RunRecord

NO_USER = ""
"""Says that no known user said a message."""
_PEOPLE = frozenset({RunOrigin.USER, RunOrigin.MCP})


def find_speaker(asked: RunProvenance) -> str:
    """Return the user who says the messages of a request; `NO_USER` if no known one does.

    The input of a child is written by a model, that of a trigger by the sender of the webhook.
    """
    if asked.origin not in _PEOPLE or asked.run_mode is RunMode.SCHEDULED:
        return NO_USER
    return normalize_id(asked.user_id) or NO_USER


def find_first_speaker(record: RunRecord) -> str:
    """Return the user who says the messages of a run that have no mark."""
    speaker = find_speaker(record)
    if record.begun_by and speaker:
        return normalize_id(record.begun_by[0]) or NO_USER
    return speaker


def mark_speaker(
    record: RunRecord, asked: RunProvenance, messages: Iterable[Message]
) -> tuple[Message, ...]:
    """Return the messages of a request to a run, marked if others say them than it began with.

    What a client wrote as a mark is removed; a message of an agent or a task needs none.
    """
    speaker = find_speaker(asked)
    other = None if speaker == find_first_speaker(record) else MessageMetadata(user_id=speaker)
    marked: list[Message] = []
    for message in messages:
        mark = other if message.sender is None else None
        is_right = message.metadata is None and mark is None
        marked.append(message if is_right else msgspec.structs.replace(message, metadata=mark))
    return tuple(marked)


def is_said_by_user(record: RunRecord, message: Message) -> bool:
    """Whether the user of a run said a message of it: no other user, agent, task or program."""
    if message.role is not Role.USER or message.sender is not None:
        return False
    if message.visibility is not Visibility.ALL:
        return False
    mark = None if message.metadata is None else message.metadata.user_id
    speaker = find_first_speaker(record) if mark is None else mark
    return bool(speaker) and speaker == normalize_id(record.user_id)
