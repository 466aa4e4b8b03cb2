"""An approval is one of exactly one call, whatever ids a model gives its calls.

Models choose call ids. Each group has ids that look like each other, like names of ours, or like
ids that will be made; a person approves one call of the group, over every wire and by every name,
and no other call of it may run.
"""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.sampling import choose_cases, sampled

from awaken.runtime.primitives.system import Uuid7Source
from awaken.testing import SequentialIds, ToolCalls
from awaken.tools import Ticket, ToolDescriptor

from .deciding_world import DECIDED, WAYS, World, deciding

MARKS = ("perm_", "suspend_", "guard_", "delegate_run:", "delegate_tool:", "expiry:", "decided:")
BASES = ("x", "call_1", "toolu_01A", "0", "a b")


def groups() -> Iterator[tuple[str, ...]]:
    """Ids that could be taken for each other, in groups of one step each."""
    for base in BASES:
        yield (base, *(f"{mark}{base}" for mark in MARKS))
        yield (
            base,
            f" {base}",
            f"{base} ",
            f"{base}\t",
            base * 2,
            f"{base}:1",
            f"{base}~1",
            f"~{base}",
        )
    yield ("perm_x", "perm_perm_x", "x", "perm_", "perm", "PERM_X", "X", "perm_x ")
    yield ("é", "e\u0301", "\uff45", "e", "\u200be", "e\u200b", "E", "ë")
    yield ("../x", "x/..", "x%00", "x\u0000", "null", "None", "true", "[]")
    yield ("id-000001", "id-000002", "id-000003", "id-000010", "id-000011", "id-000012", "id", "1")


BY_TICKET = (
    "native by ticket", "ag-ui by interrupt", "a2a by ticket", "openai responses", "mcp", "acp",
    "python",
)  # fmt: skip
"""Where no call id is on the wire."""
COMBINATIONS = sum(len(it) * (len(it) - 1) for it in groups())


def test_there_are_enough_combinations() -> None:
    assert COMBINATIONS >= 300
    assert all(len(set(it)) == len(it) for it in groups())


@sampled
@pytest.mark.parametrize("way", WAYS)
def test_only_the_call_that_was_approved_runs(way: str) -> None:
    cases = choose_cases([(group, it) for group in groups() for it in group], 30)

    async def scenario() -> tuple[int, int]:
        approved = refused = 0
        async with deciding() as world:
            for number, (ids, chosen) in enumerate(cases):
                tickets = await world.asked(ids, f"thread-{number}")
                ticket = tickets[chosen]
                status = await WAYS[way](world, ticket, True, [*tickets.values()])
                await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
                assert world.ran in ([], [chosen]), (ids, chosen)
                assert (status in DECIDED) == bool(world.ran), (ids, chosen, status)
                approved, refused = approved + len(world.ran), refused + (not world.ran)
                world.ran.clear()
                await world.runtime.cancel(ticket.run_id)
        return approved, refused

    approved, refused = asyncio.run(scenario())
    # Ids with control characters are no names on some wires; then the ticket's own is needed.
    assert refused <= (0 if way in BY_TICKET else 12)
    assert approved + refused == len(cases)


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_guesses_the_ids_of_tickets_gets_nothing_else_approved(way: str) -> None:
    """Where ids can be guessed at all, a name that means two tickets is refused."""

    async def scenario() -> None:
        async with deciding(ids=SequentialIds()) as world:
            first = await world.asked(["probe"], "probe")
            # The ids that the next tickets will have, as ids of calls.
            made = int(first["probe"].ticket_id.rpartition("-")[2])
            guesses = [f"id-{made + it:06d}" for it in range(1, 60)]
            tickets = await world.asked(guesses, "guessing")
            own = {it.ticket_id for it in tickets.values()}
            assert own & tickets.keys(), "nothing was guessed"
            for ticket in list(tickets.values())[:12]:
                status = await WAYS[way](world, ticket, True, [*tickets.values()])
                await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
                meant = ticket.arguments["name"]
                assert world.ran in ([], [meant])
                assert status in (*DECIDED, 400, 404, 409)
                if world.ran and way in ("openai responses", "acp"):
                    break
                world.ran.clear()

    asyncio.run(scenario())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_new_run", [False, True], ids=["later step", "later run"])
def test_a_decision_that_is_sent_again_approves_no_later_call(way: str, is_new_run: bool) -> None:
    async def scenario() -> None:
        async with deciding() as world:
            for number, id_ in enumerate(("x", "perm_x", "call_1")):
                tickets = await world.asked([id_], f"thread-{number}")
                ticket = tickets[id_]
                again = ToolCalls([("act", {"name": "later"}, id_)])
                world.script += ["done", again] if is_new_run else [again]
                assert await WAYS[way](world, ticket, True, [ticket]) in DECIDED
                await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
                if is_new_run:
                    await world.runtime.run("a", "go on", thread_id=ticket.thread_id)
                (later,) = await world.runtime.tickets(ticket.thread_id)
                assert later.arguments == {"name": "later"}
                if way != "acp":  # It asks about what waits, and decides nothing else.
                    await WAYS[way](world, ticket, True, [ticket])
                await world.runtime.wait(later.run_id, timeout_ms=10_000)
                assert world.ran == [id_]
                assert await world.runtime.tickets(ticket.thread_id)
                world.ran.clear()

    asyncio.run(scenario())


def results(wire: str, ticket: Ticket, call_id: str) -> tuple[str, Any]:
    """The result of a client's own tool under the id of some call."""
    thread_id, run_id = ticket.thread_id, ticket.run_id
    match wire:
        case "ag-ui":
            message = {"id": "r", "role": "tool", "toolCallId": call_id, "content": "yes"}
            return "/v1/ag-ui/run", {"threadId": thread_id, "messages": [message]}
        case "ai-sdk":
            part = {"type": "tool-front", "toolCallId": call_id, "state": "output-available"}
            message = {"id": "m", "role": "assistant", "parts": [{**part, "output": "yes"}]}
            return f"/v1/ai-sdk/threads/{thread_id}/runs", {"messages": [message]}
        case _:
            item = {"type": "function_call_output", "call_id": call_id, "output": "yes"}
            previous = {"previous_response_id": f"resp_{run_id}"}
            return "/v1/responses", {"model": "a", "input": [item], **previous}


@pytest.mark.parametrize("wire", ["ag-ui", "ai-sdk", "openai"])
def test_who_may_answer_a_frontend_tool_may_answer_nothing_else(wire: str) -> None:
    async def scenario() -> int:
        count = 0
        async with deciding() as world:
            for number, ids in enumerate(groups()):
                for own, other in itertools.islice(itertools.permutations(ids, 2), 4):
                    count += 1
                    thread_id = f"thread-{number}-{count}"
                    ticket = await _beside_a_frontend_tool(world, own, other, thread_id)
                    shown = {own, f"{own}~{ticket.run_id}", ticket.ticket_id, ticket.call_id}
                    for name in sorted(shown):
                        path, body = results(wire, ticket, name)
                        await world.post(path, body, who="invoke")
                    await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
                    assert world.ran == [], (own, other)
                    await world.runtime.cancel(ticket.run_id)
        return count

    assert asyncio.run(scenario()) >= 50


async def _beside_a_frontend_tool(world: World, own: str, other: str, thread_id: str) -> Ticket:
    """A step with a call of the client's tool and one that needs a permission; its ticket."""
    world.script.append(ToolCalls([("act", {"name": other}, other), ("front", {}, own)]))
    front = ToolDescriptor(id="front", name="front", description="The client's.")
    result = await world.runtime.run("a", "go", thread_id=thread_id, frontend_tools=[front])
    (ticket,) = [it for it in result.tickets if it.tool_name == "act"]
    return ticket


def test_ids_of_tickets_are_ours_and_cannot_be_guessed() -> None:
    async def scenario() -> None:
        async with deciding() as world:
            tickets = await world.asked(["x", "perm_x"], "thread")
            for ticket in tickets.values():
                assert ticket.suspension.id == ticket.ticket_id
                assert ticket.call_id not in ticket.ticket_id

    asyncio.run(scenario())
    source = Uuid7Source()
    tails = {source.new_id()[19:] for _ in range(2000)}
    assert len(tails) == 2000


def test_a_decision_on_other_arguments_is_refused() -> None:
    async def scenario() -> None:
        async with deciding() as world:
            ticket = (await world.asked(["x"], "thread"))["x"]
            path = f"/v1/runs/{ticket.run_id}/decision"
            body = {"action": "resume", "ticketId": ticket.ticket_id}
            assert await world.post(path, {**body, "argumentsHash": "other"}) == 409
            assert await world.post(path, {**body, "toolCallId": "y"}) == 400
            assert await world.post(path, {**body, "argumentsHash": ticket.call_hash}) == 202
            await world.runtime.wait(ticket.run_id, timeout_ms=10_000)
            assert world.ran == ["x"]

    asyncio.run(scenario())
