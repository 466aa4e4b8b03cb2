"""Agents as tools: the prompt that is asked, and the result that the model reads."""

import asyncio
import re
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.authoring.delegates import AgentTool, delegate_tool_id, description_of
from awaken.authoring.functions import as_tool
from awaken.contracts.backend_results import (
    BackendOutputArtifact,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
)
from awaken.contracts.backends.errors import AgentNotFound, RemoteUnreachable
from awaken.contracts.errors import StoreUnavailable, ThreadBusy
from awaken.contracts.events import ActivitySnapshot, AgentEvent
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.tickets import (
    PendingToolCall,
    ResumeMode,
    Suspension,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation, SubRuns
from awaken.contracts.tools.tool import InvalidArguments, Tool, ToolEffect, check_of

USAGE = TokenUsage(prompt_tokens=7, completion_tokens=3, total_tokens=10)


class Delegates:
    """Answers every delegation in one way, and keeps what it was asked."""

    def __init__(self, answer: BackendRunResult | BaseException) -> None:
        self.answer = answer
        self.asked: list[Delegation] = []
        self.began = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def delegate(self, delegation: Delegation) -> BackendRunResult:
        self.asked.append(delegation)
        self.began.set()
        await self.may_answer.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Channel:
    """Keeps what a tool shows."""

    def __init__(self, delegates: Delegates) -> None:
        self.sub_runs = cast(SubRuns, delegates)
        self.is_cancelled = False
        self.shown: list[AgentEvent] = []

    def emit(self, event: AgentEvent) -> None:
        self.shown.append(event)

    @property
    def reports(self) -> list[tuple[str, str | None]]:
        contents = (it.content for it in self.shown if isinstance(it, ActivitySnapshot))
        return [(content["status"], content.get("message")) for content in contents]


def answered(status: BackendRunStatus, **fields: Any) -> BackendRunResult:
    return BackendRunResult(
        agent_id="helper", status=status, termination=NaturalEnd(), steps=2, usage=USAGE, **fields
    )


def a_context(channel: Channel | None, call_id: str = "c1") -> ToolContext:
    return ToolContext(
        run=RunIdentity(thread_id="t", run_id="r", agent_id="boss"),
        agent=AgentSpec(id="boss", model_id="m"),
        call=ToolCall(id=call_id, name="agent_run_helper"),
        channel=channel,
    )


class Asked:
    """One call of the tool, and everything that could be seen of it."""

    def __init__(
        self,
        answer: BackendRunResult | BaseException,
        *,
        call_id: str = "c1",
        resume: ToolCallResume | None = None,
    ) -> None:
        self.delegates = Delegates(answer)
        channel = Channel(self.delegates)
        context = a_context(channel, call_id)
        context.resume = resume
        subject = AgentTool("helper", "Helps.")
        output = asyncio.run(subject.execute(subject.validate({"prompt": "do it"}), context))
        self.result: ToolResult = output.result
        self.command = output.command
        self.reports = channel.reports
        self.statuses = [status for status, _ in channel.reports]


def test_a_delegate_is_a_tool_that_every_model_can_be_told_of() -> None:
    descriptor = as_tool(AgentTool("helper", "Helps.")).descriptor
    assert isinstance(AgentTool("helper", ""), Tool)
    assert (descriptor.id, descriptor.name) == ("agent_run_helper", "agent_run_helper")
    assert descriptor.description == "Helps."
    assert descriptor.effect is ToolEffect.IDEMPOTENT
    assert descriptor.timeout_ms == 24 * 3_600_000
    assert descriptor.parameters["required"] == ["prompt"]
    assert set(descriptor.parameters["properties"]) == {"prompt"}
    assert descriptor.parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("agent_id", "tool_id"),
    [
        ("helper", "agent_run_helper"),
        ("Deep-Research_2", "agent_run_Deep-Research_2"),
        ("partner/reviewer", "agent_run_partner_reviewer"),
        ("über agent", "agent_run__ber_agent"),
        ("x" * 60, "agent_run_" + "x" * 54),
    ],
)
def test_the_id_names_the_agent_as_well_as_a_tool_id_can(agent_id: str, tool_id: str) -> None:
    assert delegate_tool_id(agent_id) == tool_id


@given(st.text(min_size=1, max_size=200))
def test_every_agent_has_a_valid_tool_id_and_always_the_same(agent_id: str) -> None:
    tool_id = delegate_tool_id(agent_id)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool_id)
    assert delegate_tool_id(agent_id) == tool_id


def test_an_agent_is_described_by_itself_or_by_how_its_instructions_begin() -> None:
    def of(**fields: str) -> str:
        return description_of(AgentSpec(id="helper", model_id="m", **fields))

    assert of(description=" Helps. ", system_prompt="You help.") == "Helps."
    assert of(system_prompt="y" * 150) == "y" * 100
    assert of(description="  ", system_prompt="You help.") == "You help."
    assert description_of(None) == ""


def test_a_delegate_that_says_nothing_of_itself_is_described_all_the_same() -> None:
    assert AgentTool("helper", " ").descriptor.description == "Ask the agent 'helper'."


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {},
        [],
        "do it",
        {"prompt": None},
        {"prompt": ""},
        {"prompt": " \n\t"},
        {"prompt": 3},
        {"prompt": True},
        {"prompt": ["do it"]},
        {"prompt": {"text": "do it"}},
        {"prompt": "do it", "agent_id": "another"},
        {"task": "do it"},
    ],
)
def test_anything_but_a_prompt_is_refused(arguments: Any) -> None:
    asking = AgentTool("helper", "Helps.")
    check = check_of(asking)
    assert check is not None

    async def ask() -> None:
        asking.validate(arguments)
        await check(arguments)

    with pytest.raises(InvalidArguments):
        asyncio.run(ask())


def test_the_agent_is_asked_with_the_prompt() -> None:
    asked = Asked(answered(BackendRunStatus.COMPLETED, response="done"))
    assert asked.delegates.asked == [Delegation(agent_id="helper", prompt="do it")]


def test_an_answer_is_a_success_with_everything_the_agent_gave() -> None:
    artifact = BackendOutputArtifact(content="a,b", name="table.csv", media_type="text/csv")
    asked = Asked(
        answered(
            BackendRunStatus.COMPLETED,
            run_id="child",
            response="Here it is.",
            output=BackendRunOutput(text="Here it is.", artifacts=(artifact,)),
        )
    )
    assert asked.result == ToolResult(
        tool_name="agent_run_helper",
        data={
            "agent_id": "helper",
            "status": "completed",
            "response": "Here it is.",
            "output": {
                "artifacts": [{"content": "a,b", "name": "table.csv", "media_type": "text/csv"}]
            },
            "steps": 2,
        },
        metadata={"child_run_id": "child"},
        usage=USAGE,
    )
    assert asked.command.is_empty
    assert asked.statuses == ["running", "done"]
    # The model reads the data, because there is no message in its place.
    assert asked.result.message is None


def test_an_answer_that_is_only_in_the_output_is_the_response() -> None:
    asked = Asked(answered(BackendRunStatus.COMPLETED, output=BackendRunOutput(text="remote")))
    assert asked.result.data["response"] == "remote"
    assert asked.result.data["output"] == {}


def test_the_child_run_is_named_only_when_it_is_known() -> None:
    assert Asked(answered(BackendRunStatus.COMPLETED)).result.metadata == {}


@pytest.mark.parametrize(
    ("status", "action", "asks"),
    [
        (BackendRunStatus.WAITING_INPUT, "agent_delegate:input_required", "input required"),
        (BackendRunStatus.WAITING_AUTH, "agent_delegate:auth_required", "auth required"),
        (BackendRunStatus.SUSPENDED, "agent_delegate:suspended", "suspended"),
    ],
)
def test_a_delegate_that_waits_suspends_the_call(
    status: BackendRunStatus, action: str, asks: str
) -> None:
    asked = Asked(answered(status, run_id="child"))
    assert asked.result.status is ToolStatus.PENDING
    assert asked.result.data["status"] == status.value
    assert asked.result.metadata == {"child_run_id": "child"}
    assert asked.statuses == ["running", "pending"]
    ticket = asked.result.suspension
    assert ticket is not None
    assert ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
    assert ticket.pending == PendingToolCall(
        id="c1", name="agent_run_helper", arguments={"prompt": "do it"}
    )
    assert ticket.suspension == Suspension(
        id="delegate_run:child",
        action=action,
        message=asks,
        parameters={
            "agent_id": "helper",
            "backend_status": status.value,
            "child_run_id": "child",
            "tool_call_id": "c1",
        },
    )


def test_a_waiting_delegate_says_what_it_needs() -> None:
    asked = Asked(answered(BackendRunStatus.WAITING_INPUT, message="Which city?"))
    ticket = asked.result.suspension
    assert ticket is not None
    assert ticket.suspension.message == asked.result.message == "Which city?"
    assert ticket.suspension.parameters["backend_status"] == "waiting_input: Which city?"
    assert asked.reports[-1] == ("pending", "Which city?")


@pytest.mark.parametrize(("call_id", "shown_id"), [("c1", "c1"), (" ", "agent_run_helper")])
def test_a_ticket_without_a_known_child_shows_the_call(call_id: str, shown_id: str) -> None:
    ticket = Asked(answered(BackendRunStatus.SUSPENDED), call_id=call_id).result.suspension
    assert ticket is not None
    assert ticket.suspension.id == "delegate_tool"
    assert ticket.pending.id == ticket.suspension.parameters["tool_call_id"] == shown_id
    assert ticket.suspension.parameters["child_run_id"] is None


def test_what_a_waiting_delegate_used_is_counted_when_it_has_ended_and_once() -> None:
    assert Asked(answered(BackendRunStatus.WAITING_INPUT)).result.usage is None
    assert Asked(answered(BackendRunStatus.FAILED)).result.usage == USAGE


def test_a_decision_is_passed_on_to_the_delegate() -> None:
    decision = ToolCallResume(decision_id="d", result={"city": "Rome"})
    asked = Asked(answered(BackendRunStatus.COMPLETED, response="Sunny."), resume=decision)
    assert asked.delegates.asked == [Delegation(agent_id="helper", prompt="do it", answer=decision)]


@pytest.mark.parametrize(
    ("status", "message", "shown", "progress"),
    [
        (BackendRunStatus.FAILED, "rate limit exceeded", "failed: rate limit exceeded", "failed"),
        (BackendRunStatus.TIMEOUT, None, "timeout", "failed"),
        (BackendRunStatus.CANCELLED, None, "cancelled", "cancelled"),
    ],
)
def test_a_delegate_that_gave_no_answer_is_an_error_with_all_that_is_known(
    status: BackendRunStatus, message: str | None, shown: str, progress: str
) -> None:
    asked = Asked(answered(status, run_id="child", message=message, response="half"))
    assert asked.result.status is ToolStatus.ERROR
    assert asked.result.message == f"Agent 'helper' did not answer ({shown})."
    assert asked.result.metadata == {"code": f"delegate_{status}", "child_run_id": "child"}
    assert asked.result.data == {
        "agent_id": "helper",
        "status": shown,
        "response": "half",
        "output": {},
        "steps": 2,
    }
    assert asked.command.is_empty
    assert asked.statuses == ["running", progress]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AgentNotFound(problem="helper"), "agent_not_found"),
        (RemoteUnreachable(problem="no route"), "remote_unreachable"),
        (ThreadBusy(thread_id="t2", run_id="r2"), "thread_busy"),
    ],
)
def test_an_agent_that_cannot_be_asked_is_an_error_with_its_code(
    error: Exception, code: str
) -> None:
    asked = Asked(error)
    assert asked.result == ToolResult.error("agent_run_helper", str(error), code=code)
    assert asked.reports == [("running", None), ("failed", str(error))]


def test_a_call_outside_of_a_run_is_an_error() -> None:
    output = asyncio.run(
        AgentTool("helper", "Helps.").execute({"prompt": "do it"}, a_context(None))
    )
    assert output.result.status is ToolStatus.ERROR
    assert output.result.metadata == {"code": "usage_error"}


def test_an_outage_is_left_to_the_runtime_and_the_call_seen_as_failed() -> None:
    channel = Channel(Delegates(StoreUnavailable(store="sqlite", problem="gone")))
    with pytest.raises(StoreUnavailable):
        asyncio.run(AgentTool("helper", "Helps.").execute({"prompt": "do it"}, a_context(channel)))
    assert [status for status, _ in channel.reports] == ["running", "failed"]


def test_a_call_that_is_cancelled_while_it_waits_is_seen_as_cancelled() -> None:
    async def scenario() -> list[str]:
        delegates = Delegates(answered(BackendRunStatus.COMPLETED))
        delegates.may_answer.clear()
        channel = Channel(delegates)
        call = asyncio.create_task(
            AgentTool("helper", "Helps.").execute({"prompt": "do it"}, a_context(channel))
        )
        await asyncio.wait_for(delegates.began.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return [status for status, _ in channel.reports]

    assert asyncio.run(scenario()) == ["running", "cancelled"]


def test_every_result_can_be_kept() -> None:
    for status in BackendRunStatus:
        result = Asked(answered(status, run_id="child")).result
        assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result
