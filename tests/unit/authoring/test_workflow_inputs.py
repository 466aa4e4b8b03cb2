"""What the input of a workflow may be: the arguments as a JSON object, or the only text."""

from typing import Any

import pytest

from awaken import WorkflowContext, workflow
from awaken.errors import InvalidWorkflowInput


@workflow
async def one(ctx: WorkflowContext, order_id: str = "usual") -> str:
    """Take one text."""
    return order_id


@workflow
async def needs(ctx: WorkflowContext, order_id: str) -> str:
    """Take one text that has no default."""
    return order_id


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", "usual"),
        ('{"order_id": "A-1"}', "A-1"),
        ("A-1", "A-1"),
        ("", ""),
        ("null", "null"),
        ("[1]", "[1]"),
        ('"quoted"', '"quoted"'),
        ("{unclosed", "{unclosed"),
    ],
)
def test_an_object_is_the_arguments_and_any_other_text_the_only_text(text: str, found: str) -> None:
    assert one.arguments.read(text) == {"order_id": found}


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (one, '{"orderId": "A-1"}'),
        (one, '{"order_id": 5}'),
        (one, '{"order_id": "A", "x": 1}'),
        (needs, "{}"),
    ],
)
def test_an_object_that_does_not_fit_is_refused(flow: Any, text: str) -> None:
    with pytest.raises(InvalidWorkflowInput):
        flow.arguments.read(text)
