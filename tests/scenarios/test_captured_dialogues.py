"""A dialogue that is captured from runs with tools passes as it was, and fails when it differs."""

import asyncio
from typing import Any

import msgspec

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.evals.cases import Case, CaseStatus
from awaken.evals import Dataset, EvalResult, evaluate
from awaken.evals.capture import CapturePlan, Captures
from awaken.evals.case_documents import read_case, write_case
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn

EXECUTED: list[str] = []


@tool(effect="none")
async def count() -> int:
    """Say how often it was asked."""
    EXECUTED.append("count")
    return EXECUTED.count("count")


@tool(effect="once", approval=True)
async def send(to: str, text: str = "") -> str:
    """Send a letter."""
    EXECUTED.append(to)
    return f"sent to {to}"


@tool(effect="none")
async def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


def answer(request: InferenceRequest) -> Turn:
    last = request.messages[-1]
    if last.role == "tool":
        return Turn("done")
    if last.text == "again":
        return Turn(calls=[("count", {}), ("send", {"to": "ann", "text": "x"})])
    return Turn(calls=[("count", {}), ("send", {"to": "ann"}), ("fail", {})])


def make_agent() -> Agent:
    model = ScriptedModel([answer], cycle=True)
    return Agent("a", model=model, tools=[count, send, fail])


async def capture(*decisions: bool, texts: tuple[str, ...] = ("go", "again")) -> Case:
    EXECUTED.clear()
    async with asyncio.timeout(60), AgentRuntime([make_agent()], history="full") as runtime:
        ids = []
        for text, is_approved in zip(texts, decisions, strict=True):
            run = await runtime.run("a", text, thread_id="t")
            await runtime.decide(run.tickets[0].ticket_id, "resume" if is_approved else "cancel")
            await runtime.wait(run.run_id)
            ids.append(run.run_id)
        parts = runtime.evals.parts
        captures = Captures(runtime.store, parts.evals, parts.recorder)
        made = (await captures.capture_dialogue(ids, CapturePlan(case_id="talk"))).case
    return msgspec.structs.replace(made, status=CaseStatus.READY)


async def try_case(case: Case, **more: Any) -> EvalResult:
    EXECUTED.clear()
    return await evaluate(Dataset(cases=(case,)), [make_agent()], mode="scripted", **more)


def test_a_dialogue_of_runs_with_tools_passes_as_it_was_captured() -> None:
    async def main() -> None:
        case = await capture(True, False)
        assert EXECUTED == ["count", "ann", "count"]
        assert case.expect is not None
        assert case.expect.tool_sequence == ("count", "send", "fail", "count", "send")
        assert read_case(write_case(case), "case") == case
        result = await try_case(case)
        (item,) = result.items
        assert item.status == "scored", item.error
        assert result.is_passed, item.scores
        assert item.calls == ("count", "send", "fail", "count", "send")
        assert item.failed_calls == ("fail",)
        assert EXECUTED == []
        # It is the stubs of each turn that answer.
        turns = tuple(msgspec.structs.replace(it, tools=None) for it in case.continued_turns)
        bare = msgspec.structs.replace(case, tools=None, continued_turns=turns)
        assert [it.status for it in (await try_case(bare)).items] == ["diverged"]

    asyncio.run(main())


def test_a_dialogue_whose_agent_does_something_else_fails() -> None:
    async def main() -> None:
        case = await capture(True, True)
        (fewer,) = case.continued_turns
        script = (fewer.provider_script[-1],)
        other = msgspec.structs.replace(fewer, provider_script=script)
        result = await try_case(msgspec.structs.replace(case, continued_turns=(other,)))
        assert not result.is_passed

    asyncio.run(main())


def test_equal_calls_that_were_decided_differently_are_left_to_a_person() -> None:
    async def main() -> None:
        case = await capture(True, False, texts=("go", "go"))
        assert case.decisions == ()
        result = await try_case(case)
        (item,) = result.items
        assert (item.status, item.error) == ("failed", "waiting: send")
        assert EXECUTED == []

    asyncio.run(main())
