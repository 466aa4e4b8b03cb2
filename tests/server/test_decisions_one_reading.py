"""The same words are the same decision on every wire and in the terminal; unclear ones are none."""

import asyncio
from typing import Any

import pytest
from tests.sampling import choose_cases, sampled

from awaken.cli.ticket_prompts import read_permission
from awaken.messages import Role
from awaken.tools import DecisionAction

from .deciding_world import DECIDED, WAYS, World, deciding
from .decision_corpus import READINGS, forms, payloads, sample, texts

BOOLEAN_ONLY = ("openai responses",)
"""Its protocol has a boolean, and no other way to say it."""
CHOSEN = ("acp",)
"""Its protocol has options, which the server names."""
OPTIONS = {"yes": ["opt_allow_once"], "no": ["opt_reject_once"], "unclear": []}
FULL = ("native by ticket",)
"""Where every spelling is tried; elsewhere a sample, for each needs a run."""


def said(way: str, reading: str) -> list[Any]:
    """What a wire can say of it."""
    if way in CHOSEN:
        return OPTIONS[reading]
    if way in BOOLEAN_ONLY:
        words = {"yes": [True], "no": [False]}
        return words.get(reading, ["yes", "no", 1, 0, None, "", [], {}])
    if way == "mcp":
        words = {"yes": [*texts("yes")], "no": [*texts("no")]}
        return words.get(reading, ["maybe", "", "later", "yes and no", 1, 0])
    if way in FULL:
        return payloads(reading)
    if way.startswith(("ai-sdk", "a2a")):
        # What is no object is the value of `approved` there.
        return [it for it in sample(reading, 90) if it not in ("", " ", [], {})]
    return sample(reading, 90)


@sampled
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("way", WAYS)
def test_every_wire_reads_the_same(way: str, reading: str) -> None:
    async def scenario() -> None:
        async with deciding() as world:
            for number, payload in enumerate(choose_cases(said(way, reading), 16)):
                await _read(world, way, reading, payload, f"thread-{number}")

    asyncio.run(scenario())


@pytest.mark.parametrize("way", WAYS)
def test_every_wire_decides_on_a_call_that_its_tool_wants_to_be_approved(way: str) -> None:
    async def scenario() -> None:
        async with deciding(has_rules=False) as world:
            for reading in READINGS:
                for payload in said(way, reading)[:2]:
                    await _read(world, way, reading, payload, f"thread-{reading}-{payload}")

    asyncio.run(scenario())


async def _read(world: World, way: str, reading: str, payload: Any, thread_id: str) -> None:
    (ticket,) = (await world.asked(["c"], thread_id)).values()
    status = await WAYS[way](world, ticket, payload, [ticket])
    await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
    told = (way, payload, status)
    assert world.ran == (["c"] if reading == "yes" else []), told
    assert (status in DECIDED) == (reading != "unclear"), told
    messages = [it.message for it in await world.runtime.messages(thread_id)]
    answers = [it.text for it in messages if it.role is Role.TOOL]
    if reading == "unclear":
        assert status == 400, told
        assert await world.runtime.tickets(thread_id) == (ticket,)
        await world.runtime.cancel(ticket.run_id)
    elif reading == "no":
        (answer,) = answers
        reason = payload.get("reason") if isinstance(payload, dict) else None
        assert answer == (reason or "declined" if way == "mcp" else reason or _SENTENCE), told
    world.ran.clear()


_SENTENCE = "The call was declined."


def test_there_are_enough_spellings_on_every_wire() -> None:
    for way in WAYS:
        if way not in (*CHOSEN, *BOOLEAN_ONLY):
            assert len(said(way, "yes")) >= 60, way
            assert len(said(way, "no")) >= 60, way


def test_the_terminal_reads_the_same() -> None:
    for text in texts("yes"):
        decision = read_permission(text, has_always=False)
        assert decision is not None
        assert decision.action is DecisionAction.RESUME
    for text in texts("no"):
        decision = read_permission(text, has_always=True)
        assert decision is not None
        assert decision.action is DecisionAction.CANCEL
    for text in ("", " ", *(it for it in texts("unclear"))):
        assert read_permission(text, has_always=False) is None
    always = read_permission("a", has_always=True)
    assert always is not None
    assert always.remember is not None
    assert read_permission("always", has_always=False) is None


INVALID = ("approve", "RESUME", "yes", "", "resume ", "decline")


def test_an_action_that_there_is_not_is_refused_on_every_wire() -> None:
    """Whatever comes with it."""

    async def scenario() -> None:
        async with deciding() as world:
            (ticket,) = (await world.asked(["c"], "thread")).values()
            for action in INVALID:
                for path, body in _invalid(ticket, action).items():
                    assert await world.post(path, body) == 400, (path, action)
            assert await world.runtime.tickets("thread") == (ticket,)
            assert world.ran == []

    asyncio.run(scenario())


def _invalid(ticket: Any, action: str) -> dict[str, Any]:
    """Requests whose action is none, by path."""
    approval = {"approval_request_id": f"{ticket.ticket_id}~{ticket.run_id}", "approve": action}
    part = {
        "type": "tool-act", "toolCallId": ticket.call_id, "state": "approval-responded",
        "approval": {"id": ticket.ticket_id, "approved": {"action": action}},
    }  # fmt: skip
    message = {
        "messageId": "m", "taskId": ticket.run_id, "role": "ROLE_USER",
        "parts": [{"data": {"approved": {"action": action}}}],
    }  # fmt: skip
    native = {"ticketId": ticket.ticket_id, "action": action}
    entry = {"interruptId": ticket.ticket_id, "status": action}
    return {
        f"/v1/runs/{ticket.run_id}/decision": native,
        f"/v1/threads/{ticket.thread_id}/decision": {**native, "payload": {"approved": True}},
        "/v1/ag-ui/run": {"threadId": ticket.thread_id, "messages": [], "resume": [entry]},
        f"/v1/ai-sdk/threads/{ticket.thread_id}/runs": {
            "messages": [{"id": "m", "role": "assistant", "parts": [part]}]
        },
        "/v1/a2a/a/message:send": {"message": message},
        "/v1/responses": {
            "model": "a",
            "input": [{"type": "mcp_approval_response", **approval}],
            "previous_response_id": f"resp_{ticket.run_id}",
        },
    }


def test_forms_are_part_of_the_corpus() -> None:
    assert all(forms(it) for it in READINGS)
