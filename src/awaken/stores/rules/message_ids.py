"""Which message ids a store must look up before it accepts them."""

from collections.abc import Iterable

from awaken.contracts.identity import is_generated
from awaken.contracts.messages.message import Message, Role

_WRITTEN_BY_RUNS = (Role.ASSISTANT, Role.TOOL)


def is_own_id(message: Message) -> bool:
    """Whether the runtime itself made the id, so that it cannot have been used before.

    Only runs write answers and results, under fresh ids that begin with the time. A client can
    send any other message twice. `check_chosen_ids` in `runtime/admission/admission.py` makes sure
    that no client chooses the id of an answer.
    """
    return message.role in _WRITTEN_BY_RUNS and is_generated(message.id or "")


def foreign_ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids that may have been used before."""
    return [message.id or "" for message in messages if not is_own_id(message)]
