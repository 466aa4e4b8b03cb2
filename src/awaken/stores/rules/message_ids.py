"""Which message ids have to be looked for before they are used."""

import re
from collections.abc import Iterable

from awaken.contracts.messages import Message, Role

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_WRITTEN_BY_RUNS = (Role.ASSISTANT, Role.TOOL)


def is_own_id(message: Message) -> bool:
    """Whether the runtime itself made the id, so that it cannot have been used before.

    Answers and results are written by runs only, under fresh ids that begin with the time.
    Whatever else comes could be sent twice.
    """
    return message.role in _WRITTEN_BY_RUNS and _UUID7.fullmatch(message.id or "") is not None


def foreign_ids(messages: Iterable[Message]) -> list[str]:
    """The ids that could have been used before."""
    return [message.id or "" for message in messages if not is_own_id(message)]
