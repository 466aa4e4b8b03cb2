"""How much one request may ask a run to take in; counted before anything is done with it."""

from collections.abc import Sequence

from awaken.authoring.schema_costs import NODES_MAX, count_nodes
from awaken.contracts.content import Text
from awaken.contracts.errors import LimitExceeded
from awaken.contracts.messages import Message
from awaken.contracts.runs import RunRequest

ITEMS_MAX = 1_000
"""How many messages, client's tools or decisions a request may have."""
PARTS_MAX = 2_000
"""How many parts its messages may have together."""
TEXT_CHARS_MAX = 2_000_000
"""How much text its messages may have together; files are not counted."""
HISTORY_MAX = 5_000
"""How many messages a thread may begin with."""


def check_request(request: RunRequest) -> None:
    """Refuse a request that is too much at once.

    Raises:
        LimitExceeded: Naming what there is too much of.
    """
    for what in ("messages", "frontend_tools", "decisions"):
        _check(f"The number of {what}", len(getattr(request, what)), ITEMS_MAX)
    check_content(request.messages)
    if request.frontend_tools:
        schemas = [tool.parameters for tool in request.frontend_tools]
        size = count_nodes(schemas, NODES_MAX)
        _check("The size of the schemas of frontend_tools", size, NODES_MAX)


def check_history(messages: Sequence[Message]) -> None:
    """Refuse a history that is too much for one thread to begin with.

    Raises:
        LimitExceeded: Naming what there is too much of.
    """
    _check("The number of messages", len(messages), HISTORY_MAX)


def check_content(messages: Sequence[Message]) -> None:
    """Refuse messages with too many parts or too much text.

    Raises:
        LimitExceeded: Naming what there is too much of.
    """
    _check("The number of parts", sum(len(it.content) for it in messages), PARTS_MAX)
    blocks = (block for it in messages for block in it.content)
    size = sum(len(block.text) for block in blocks if isinstance(block, Text))
    _check("The number of characters", size, TEXT_CHARS_MAX)


def _check(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise LimitExceeded(what=what, size=size, limit=limit)
