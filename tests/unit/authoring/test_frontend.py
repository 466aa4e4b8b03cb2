"""Tools that a client runs."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken.authoring.frontend import FrontEndTool
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.tickets import (
    PendingToolCall,
    ResumeMode,
    Suspension,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    InvalidArguments,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolInternalError,
    ToolOutput,
)

DESCRIPTOR = ToolDescriptor(
    id="pick_colour",
    name="Pick",
    description="Ask for a colour.",
    parameters={"type": "object", "properties": {"hint": {"type": "string"}}},
    category="ui",
    metadata={"k": 1},
)


def context(call_id: str = "c1") -> ToolContext:
    return ToolContext(
        run=RunIdentity(thread_id="t"),
        agent=AgentSpec(id="a", model_id="m"),
        call=ToolCall(id=call_id, name="pick_colour"),
    )


def called(arguments: Any, ctx: ToolContext) -> ToolOutput:
    subject = FrontEndTool(DESCRIPTOR)

    async def call() -> ToolOutput:
        return await subject.execute(subject.validate(arguments), ctx)

    return asyncio.run(call())


@pytest.mark.parametrize(
    ("arguments", "call_id"), [({"hint": "warm"}, "c1"), ({}, "c1"), (None, "c1"), ({}, " ")]
)
def test_a_call_waits_for_the_client(arguments: Any, call_id: str) -> None:
    output = called(arguments, context(call_id))
    shown = arguments or {}
    assert output.command.is_empty
    assert output.result.status is ToolStatus.PENDING
    assert output.result.data is None
    ticket = output.result.suspension
    assert ticket is not None
    assert ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
    assert ticket.suspension == Suspension(action="tool:pick_colour", parameters=shown)
    assert ticket.pending == PendingToolCall(id=call_id, name="pick_colour", arguments=shown)


@pytest.mark.parametrize("answer", [{"colour": "red"}, "red", None, [1, {"x": None}], False])
def test_the_decision_is_the_result_verbatim(answer: Any) -> None:
    ctx = context()
    ctx.resume = ToolCallResume(decision_id="d", result=answer)
    result = called({}, ctx).result
    assert (result.status, result.data, result.tool_name) == (
        ToolStatus.SUCCESS,
        answer,
        "pick_colour",
    )


def test_the_descriptor_is_kept_but_the_effect_is_none() -> None:
    subject = FrontEndTool(DESCRIPTOR)
    assert isinstance(subject, Tool)
    assert subject.descriptor is subject.descriptor
    assert subject.descriptor == msgspec.structs.replace(DESCRIPTOR, effect=ToolEffect.NONE)


def test_arguments_are_checked_before_the_client_sees_them() -> None:
    with pytest.raises(InvalidArguments, match=r"\$\.hint"):
        FrontEndTool(DESCRIPTOR).validate({"hint": 5})
    with pytest.raises(ToolInternalError):
        FrontEndTool(ToolDescriptor(id="x", parameters={"properties": 5}))
