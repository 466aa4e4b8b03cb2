"""What a run waits for is asked of the MCP client's user, where the client can ask."""

import asyncio
from typing import Any

import pytest
from mcp_types import ElicitResult, ErrorData

from awaken import Access, AgentRuntime, RedactedString, RunStatus
from awaken.server import ServerConfig, TenantView, TokenSpec
from awaken.tools import DecisionAction, TicketStatus

from .mcp_world import LEGACY, MODERN, RawClient, asking, both_eras, talking
from .serving import serving

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class User:
    """Answers forms, and remembers them."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, _ctx: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self.answers.pop(0)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


@both_eras
@pytest.mark.parametrize(
    ("schema", "answer", "told"),
    [
        (None, accept(decision="approve"), "told {'approved': True}"),
        (NAME, accept(name="Ann"), "told {'name': 'Ann'}"),
        ({"type": "string"}, accept(answer="yes"), "told yes"),
    ],
    ids=["approval", "object", "plain value"],
)
def test_the_user_decides_and_the_run_goes_on(
    era: str, schema: Any, answer: ElicitResult, told: str
) -> None:
    async def scenario() -> None:
        user = User(answer)
        async with talking([asking(schema)], era, elicitation_callback=user) as (client, _):
            result = await client.call_tool("asker", {"message": "do it"})
        (form,) = user.asked
        assert form.message == "Sure 0?"
        assert form.requested_schema["required"] == list(answer.content or ())
        assert result.content[0].text == f"The tool was {told}"
        assert result.structured_content["status"] == "completed"

    asyncio.run(scenario())


@both_eras
@pytest.mark.parametrize("answer", [ElicitResult(action="decline"), accept(decision="deny")])
def test_a_user_that_says_no_gives_the_call_up(era: str, answer: ElicitResult) -> None:
    async def scenario() -> None:
        user = User(answer)
        async with talking([asking()], era, elicitation_callback=user) as (client, runtime):
            result = await client.call_tool("asker", {"message": "do it"})
            (ticket,) = await _tickets(runtime, result.structured_content["run_id"])
        assert ticket.decision is not None
        assert ticket.decision.action is DecisionAction.CANCEL
        assert ticket.decision.decided_by == "local"
        assert "told" not in result.content[0].text

    asyncio.run(scenario())


@both_eras
def test_several_questions_at_once_are_all_asked(era: str) -> None:
    async def scenario() -> None:
        user = User(accept(name="Ann"), accept(name="Bob"))
        agent = asking(NAME, times=2)
        async with talking([agent], era, elicitation_callback=user) as (client, _):
            result = await client.call_tool("asker", {"message": "do it"})
        assert sorted(form.message for form in user.asked) == ["Sure 0?", "Sure 1?"]
        assert result.content[0].text == "The tool was told {'name': 'Ann'}; told {'name': 'Bob'}"

    asyncio.run(scenario())


@both_eras
def test_several_answers_are_one_decision(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        sizes = []
        decide = TenantView.decide

        async def counted(view: TenantView, target: Any, decisions: Any) -> Any:
            sizes.append(len(decisions))
            return await decide(view, target, decisions)

        monkeypatch.setattr(TenantView, "decide", counted)
        user = User(accept(name="Ann"), accept(name="Bob"))
        agents = [asking(NAME, times=2)]
        async with talking(agents, era, elicitation_callback=user) as (client, _):
            await client.call_tool("asker", {"message": "do it"})
        # Decided one by one, the run could go on with half of the answers.
        assert sizes == [2]

    asyncio.run(scenario())


@both_eras
def test_an_answer_that_does_not_fit_keeps_no_other_back(era: str) -> None:
    async def scenario() -> None:
        schema = {**NAME, "properties": {"name": {"type": "string", "minLength": 3}}}
        user = User(accept(name="Al"), accept(name="Ann"))
        agents = [asking(schema, times=2)]
        async with talking(agents, era, elicitation_callback=user) as (client, runtime):
            result = await client.call_tool("asker", {"message": "do it"})
            tickets = await _tickets(runtime, result.structured_content["run_id"])
        assert sum(it.status is TicketStatus.OPEN for it in tickets) == 1
        assert len(result.structured_content["ticket_ids"]) == 1

    asyncio.run(scenario())


@both_eras
def test_a_dismissed_form_leaves_the_ticket_open(era: str) -> None:
    async def scenario() -> None:
        # Whatever a form held when it was closed, it was not sent.
        user = User(ElicitResult(action="cancel", content={"decision": "approve"}))
        async with talking([asking()], era, elicitation_callback=user) as (client, runtime):
            result = await client.call_tool("asker", {"message": "do it"})
            (ticket,) = await _tickets(runtime, result.structured_content["run_id"])
        assert ticket.status is TicketStatus.OPEN
        assert result.structured_content["status"] == "waiting"

    asyncio.run(scenario())


@both_eras
@pytest.mark.parametrize(
    ("is_able", "schema"),
    [(False, None), (True, {"type": "object", "properties": {"deep": {"type": "object"}}})],
    ids=["a client without forms", "more than a form can hold"],
)
def test_where_nobody_can_be_asked_the_result_says_what_is_waited_for(
    era: str, is_able: bool, schema: Any
) -> None:
    async def scenario() -> None:
        user = {"elicitation_callback": User()} if is_able else {}
        async with talking([asking(schema)], era, **user) as (client, runtime):
            result = await client.call_tool("asker", {"message": "do it"})
            given = result.structured_content
            (ticket,) = await _tickets(runtime, given["run_id"])
            assert (given["status"], given["ticket_ids"]) == ("waiting", [ticket.ticket_id])
            assert not result.is_error
            assert ticket.ticket_id in result.content[0].text
            # Anybody else can decide, and the run goes on without the client.
            await runtime.decide(ticket.ticket_id, result={"deep": {}})
            ended = await runtime.wait(given["run_id"], timeout_ms=10_000)
            assert ended.status is RunStatus.DONE

    asyncio.run(scenario())


@both_eras
def test_an_answer_that_does_not_fit_leaves_the_ticket_open(era: str) -> None:
    async def scenario() -> None:
        schema = {**NAME, "properties": {"name": {"type": "string", "minLength": 3}}}
        user = User(accept(name="Al"))
        agents = [asking(schema)]
        async with talking(agents, era, elicitation_callback=user) as (client, _):
            result = await client.call_tool("asker", {"message": "do it"})
        assert result.structured_content["status"] == "waiting"

    asyncio.run(scenario())


def test_a_client_that_fails_to_ask_leaves_the_ticket_open() -> None:
    async def scenario() -> None:
        async def broken(_ctx: Any, _params: Any) -> Any:
            return ErrorData(code=-32000, message="the window is gone")

        options = {"elicitation_callback": broken}
        async with talking([asking()], LEGACY, **options) as (client, _):
            result = await client.call_tool("asker", {"message": "do it"})
        assert result.structured_content["status"] == "waiting"

    asyncio.run(scenario())


@both_eras
def test_who_may_not_decide_is_not_asked(era: str) -> None:
    async def scenario() -> None:
        token = TokenSpec(
            id="machine", token=RedactedString("t0ken"), access=frozenset({Access.INVOKE})
        )
        config = ServerConfig(tokens=(token,))
        user = User(accept(decision="approve"))
        options = {"elicitation_callback": user, "headers": {"authorization": "Bearer t0ken"}}
        async with talking([asking()], era, config, **options) as (client, _):
            result = await client.call_tool("asker", {"message": "do it"})
        assert (result.structured_content["status"], user.asked) == ("waiting", [])

    asyncio.run(scenario())


def test_a_form_is_taken_back_when_somebody_else_decides() -> None:
    async def scenario() -> None:
        is_shown = asyncio.Event()

        async def never(_ctx: Any, _params: Any) -> ElicitResult:
            is_shown.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with talking([asking()], LEGACY, elicitation_callback=never) as (client, runtime):
            call = asyncio.create_task(client.call_tool("asker", {"message": "do it"}))
            async with asyncio.timeout(10):
                await is_shown.wait()
                (ticket,) = await runtime.tickets()
                await runtime.decide(ticket.ticket_id, result="elsewhere")
                result = await call
        assert result.content[0].text == "The tool was told elsewhere"

    asyncio.run(scenario())


def test_a_form_that_was_taken_back_is_shown_again_if_it_is_still_open() -> None:
    async def scenario() -> None:
        shown: asyncio.Queue[str] = asyncio.Queue()

        async def slow(_ctx: Any, params: Any) -> ElicitResult:
            shown.put_nowait(params.message)
            if is_first.is_set():
                return accept(name="Ann")
            is_first.set()
            await asyncio.Event().wait()
            raise AssertionError

        is_first = asyncio.Event()
        agents = [asking(NAME, times=2)]
        async with talking(agents, LEGACY, elicitation_callback=slow) as (client, runtime):
            call = asyncio.create_task(client.call_tool("asker", {"message": "do it"}))
            async with asyncio.timeout(10):
                first = await shown.get()
                tickets = await runtime.tickets()
                (other,) = (it for it in tickets if it.suspension.message != first)
                await runtime.decide(other.ticket_id, result={"name": "Bob"})
                result = await call
        assert shown.get_nowait() == first
        assert result.structured_content["status"] == "completed"

    asyncio.run(scenario())


def test_the_state_of_a_round_names_a_run_of_the_same_tool_or_is_refused() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([asking(NAME, suspension_id="who")])
        able = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}}
        call = {"name": "asker", "arguments": {"message": "do it"}, **able}
        async with serving(runtime) as url, RawClient(url, MODERN) as client:
            _, _, asked = await client.post("tools/call", call)
            state = asked["result"]["requestState"]
            assert list(asked["result"]["inputRequests"]) == ["who"]
            for wrong in (state + "x", "x" + state, state.partition("@")[0], "", "nobody's@1"):
                status, _, refused = await client.post(
                    "tools/call", {**call, "requestState": wrong}
                )
                assert (status, refused["error"]["code"]) == (400, -32602)
            # An answer that decides nothing says so; the question comes again without an answer.
            again = {**call, "requestState": state, "inputResponses": {"who": {"action": "accept"}}}
            _, _, left = await client.post("tools/call", again)
            assert left["result"]["structuredContent"]["status"] == "waiting"
            for answers in ({"other": {"action": "accept"}}, {}):
                again = {**call, "requestState": state, "inputResponses": answers}
                _, _, asked = await client.post("tools/call", again)
                assert list(asked["result"]["inputRequests"]) == ["who"]
            good = {"who": {"action": "accept", "content": {"name": "Ann"}}}
            again = {**call, "requestState": state, "inputResponses": good}
            _, _, done = await client.post("tools/call", again)
            assert done["result"]["structuredContent"]["run_id"] == state.partition("@")[0]
            assert "Ann" in done["result"]["content"][0]["text"]

    asyncio.run(scenario())


async def _tickets(runtime: AgentRuntime, run_id: str) -> Any:
    record = await runtime.store.load_run(run_id)
    assert record is not None
    return await runtime.store.list_run_tickets(record.thread_id, run_id)
