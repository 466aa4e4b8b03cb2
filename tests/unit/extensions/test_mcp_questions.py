"""Questions of servers to people: tickets in both eras, held calls, links, and lost questions."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import UrlElicitationRequiredError
from tests.extensions.mcp_servers.desk import FORM, Desk, tool
from tests.extensions.mcp_servers.worlds import BOUND_S, calls, local, playing, results, until

from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.tickets import Asks, DecisionAction
from awaken.extensions.mcp import McpLimits, McpPlugin, ServerState

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


async def answered(runtime: Any, run_id: str, **decision: Any) -> str:
    (ticket,) = await runtime.tickets("t")
    await runtime.decide(ticket.ticket_id, **decision)
    ended = await runtime.wait(run_id, timeout_ms=BOUND_S * 1000)
    assert ended.text == "done"
    messages = [it.message for it in await runtime.messages("t")]
    return next(it.text for it in messages if it.tool_call_id)


@both_eras
def test_a_question_is_a_ticket_with_its_form_and_the_answer_reaches_the_server(era: Any) -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol=era)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            assert waiting.is_waiting
            (ticket,) = await runtime.tickets("t")
            assert ticket.suspension.response_schema == FORM
            assert ticket.suspension.message == "MCP server 'desk' asks: How many?"
            text = await answered(runtime, waiting.run_id, result={"seats": 2})
        assert text == "accept {'seats': 2}"
        assert desk.done.count("booked accept") == 1

    asyncio.run(scenario())


@both_eras
def test_a_link_is_shown_and_never_opened(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__visit"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            assert "https://x.example/in" in ticket.suspension.message
            assert ticket.suspension.response_schema is None
            assert await answered(runtime, waiting.run_id) == "visited accept"

    asyncio.run(scenario())


@both_eras
def test_a_no_is_told_to_the_server_and_to_the_model(era: Any) -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol=era)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            assert ticket.question_kind is Asks.ANSWER
            text = await answered(runtime, waiting.run_id, action=DecisionAction.CANCEL)
            await until(lambda: "booked decline" in desk.done)
        assert text == "The question was declined. The server says: decline None"

    asyncio.run(scenario())


@both_eras
def test_a_yes_is_no_answer_to_a_form(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            for result in ({"approved": True}, "yes", True, None):
                with pytest.raises(InvalidInput):
                    await runtime.decide(ticket.ticket_id, result=result)
            assert await runtime.tickets("t") == (ticket,)

    asyncio.run(scenario())


def test_a_no_to_a_question_that_got_lost_makes_no_new_call() -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol="legacy")])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            await plugin.disable("desk")
            await plugin.enable("desk")
            await plugin.wait_for_state("desk", ServerState.CONNECTED)
            text = await answered(
                runtime, waiting.run_id, action=DecisionAction.CANCEL, reason="Not today."
            )
        assert text == "Not today."
        assert desk.done == ["book"]

    asyncio.run(scenario())


def test_a_question_whose_call_is_gone_is_an_error_and_never_a_second_call() -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol="legacy")])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            await plugin.disable("desk")
            await plugin.enable("desk")
            await plugin.wait_for_state("desk", ServerState.CONNECTED)
            text = await answered(runtime, waiting.run_id, result={"seats": 2})
        assert "was lost with the process" in text
        assert desk.done == ["book"]

    asyncio.run(scenario())


def test_a_held_call_is_let_go_when_its_time_is_up() -> None:
    async def scenario() -> None:
        desk = Desk()
        limits = McpLimits(held_ms=20)
        plugin = McpPlugin([local(desk, protocol="legacy", limits=limits, call_ms=300)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            server = plugin._servers["desk"]
            await until(lambda: not server._exchanges)
            text = await answered(runtime, waiting.run_id, result={"seats": 2})
        assert "was lost" in text

    asyncio.run(scenario())


def test_a_question_beyond_the_number_of_held_calls_is_refused_to_the_server() -> None:
    async def scenario() -> None:
        limits = McpLimits(held_calls=0)
        plugin = McpPlugin([local(Desk(), protocol="legacy", limits=limits)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            ended = await runtime.run("a", "go", thread_id="t")
            assert ended.text == "done"

    asyncio.run(scenario())


@both_eras
def test_a_server_that_may_not_ask_people_gets_no_ticket(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era, elicitation=False)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            ended = await runtime.run("a", "go", thread_id="t")
            assert ended.text == "done"
            assert await runtime.tickets("t") == ()

    asyncio.run(scenario())


@both_eras
def test_a_question_without_a_usable_form_is_refused(era: Any) -> None:
    class Bad(Desk):
        async def _book(self, context: Any, params: Any) -> Any:
            FORM_BAD = {"type": "object", "properties": {"x": {"$ref": "https://e.example/x"}}}
            saved = dict(FORM)
            FORM.clear()
            FORM.update(FORM_BAD)
            try:
                return await super()._book(context, params)
            finally:
                FORM.clear()
                FORM.update(saved)

    async def scenario() -> None:
        plugin = McpPlugin([local(Bad(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__book"), "done") as (runtime, _):
            ended = await runtime.run("a", "go", thread_id="t")
            assert ended.text == "done"

    asyncio.run(scenario())


def entrance(desk: Desk, url: str = "https://x.example/in") -> None:
    """A tool of the older era that is refused with an error until somebody has visited a page."""

    async def enter(_context: Any, params: Any) -> str:
        assert params.input_responses is None
        if desk.done.count("enter") == 1:
            asked = types.ElicitRequestURLParams(message="Log in", url=url, elicitation_id="e1")
            raise UrlElicitationRequiredError([asked])
        return "entered"

    desk.extra, desk._enter = [tool("enter")], enter


@pytest.mark.parametrize("is_yes", [True, False])
def test_an_error_that_asks_for_a_visit_is_a_ticket_and_the_call_is_made_again_after_it(
    is_yes: bool,
) -> None:
    async def scenario() -> None:
        desk = Desk()
        entrance(desk)
        plugin = McpPlugin([local(desk, protocol="legacy")])
        async with playing(plugin, calls("mcp__desk__enter"), "done") as (runtime, _):
            waiting = await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            assert "https://x.example/in" in ticket.suspension.message
            assert ticket.suspension.response_schema is None
            decision = {} if is_yes else {"action": DecisionAction.CANCEL}
            text = await answered(runtime, waiting.run_id, **decision)
        assert (text == "entered", desk.done.count("enter")) == (is_yes, 1 + is_yes)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "may_ask"), [("https://x.example/in", False), ("javascript:alert(1)", True)]
)
def test_an_error_that_asks_for_what_it_may_not_have_stays_an_error(
    url: str, may_ask: bool
) -> None:
    async def scenario() -> None:
        desk = Desk()
        entrance(desk, url)
        plugin = McpPlugin([local(desk, protocol="legacy", elicitation=may_ask)])
        async with playing(plugin, calls("mcp__desk__enter"), "done") as (runtime, _):
            (result,) = await results(runtime)
            assert result.metadata["code"] == "mcp_question_refused"

    asyncio.run(scenario())
