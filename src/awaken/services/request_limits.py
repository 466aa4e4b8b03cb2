"""Limits on the size of one request; checked before anything else is done with it."""

from collections.abc import Sequence

import msgspec

from awaken.authoring.schema_costs import NODES_MAX, count_nodes
from awaken.contracts.errors import InvalidInput, LimitExceeded
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import ThreadMetadata

ITEMS_MAX = 1_000
"""How many messages, frontend tools or decisions a request may have."""
PARTS_MAX = 2_000
"""How many parts its messages may have together."""
TEXT_CHARS_MAX = 2_000_000
"""How much text its messages may have together; files are not counted."""
CONTEXT_BYTES_MAX = 1024 * 1024
"""How much frontend state and context a client may send to the model."""
METADATA_BYTES_MAX = 64 * 1024
"""The size of a thread's title and custom fields together: every listing has them."""
HISTORY_MAX = 5_000
"""How many messages of history a thread may begin with."""


def check_request(request: RunRequest) -> None:
    """Refuse a request that is too large.

    Raises:
        LimitExceeded: Names the limit.
    """
    _check("The number of messages", len(request.messages), ITEMS_MAX)
    check_content(request.messages)
    if request.decisions:
        _check("The number of decisions", len(request.decisions), ITEMS_MAX)
    if request.frontend_tools:
        _check("The number of frontend_tools", len(request.frontend_tools), ITEMS_MAX)
        schemas = [tool.parameters for tool in request.frontend_tools]
        size = count_nodes(schemas, NODES_MAX)
        _check("The size of the schemas of frontend_tools", size, NODES_MAX)


def check_context(data: bytes) -> bytes:
    """Refuse frontend state and context that is too large.

    Raises:
        LimitExceeded: It is too long.
    """
    _check("The number of bytes of state and context", len(data), CONTEXT_BYTES_MAX)
    return data


def check_history(messages: Sequence[Message]) -> None:
    """Refuse a history that is too long for one thread to begin with.

    Raises:
        LimitExceeded: Names the limit.
    """
    _check("The number of messages", len(messages), HISTORY_MAX)


def check_content(messages: Sequence[Message]) -> None:
    """Refuse messages with too many parts or too much text.

    Raises:
        LimitExceeded: Names the limit.
    """
    parts = size = 0
    for message in messages:
        parts += len(message.content)
        for block in message.content:
            if type(block) is Text:
                size += len(block.text)
    if parts > PARTS_MAX or size > TEXT_CHARS_MAX:
        _check("The number of parts", parts, PARTS_MAX)
        _check("The number of characters", size, TEXT_CHARS_MAX)


def check_metadata(metadata: ThreadMetadata) -> None:
    """Refuse thread metadata that is too large.

    Raises:
        LimitExceeded: Title and custom fields are too large together.
        InvalidInput: They have no JSON form.
    """
    try:
        size = len(msgspec.json.encode(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="The metadata of the thread", problem=str(error)) from error
    _check("The metadata of the thread", size, METADATA_BYTES_MAX)


def _check(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise LimitExceeded(what=what, size=size, limit=limit)
