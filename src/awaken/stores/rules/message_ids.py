"""Which message ids have to be looked for before they are used."""

from collections.abc import Iterable

from awaken.contracts.identity import is_generated
from awaken.contracts.messages.message import Message, Role

_WRITTEN_BY_RUNS = (Role.ASSISTANT, Role.TOOL)


def is_own_id(message: Message) -> bool:
    """Whether the runtime itself made the id, so that it cannot have been used before.

    Answers and results are written by runs only, under fresh ids that begin with the time.
    Whatever else comes could be sent twice. That no client chooses the id of an answer is checked
    where clients send something: `runtime/admission/admission.py`, `check_chosen_ids`.
    """
    return message.role in _WRITTEN_BY_RUNS and is_generated(message.id or "")


def foreign_ids(messages: Iterable[Message]) -> list[str]:
    """The ids that could have been used before."""
    return [message.id or "" for message in messages if not is_own_id(message)]
