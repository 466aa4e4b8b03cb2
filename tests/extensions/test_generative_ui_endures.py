"""Surfaces and written interfaces over waits, restarts, handoffs and delegations."""

import asyncio
import json
from typing import Any

import msgspec

from awaken import Agent, AgentRuntime, NaturalEnd, Suspended, ToolContext, tool
from awaken.extensions.generative_ui import GenerativeUiPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.models import InferenceRequest
from awaken.testing import Chunks, ScriptedModel, ToolCalls

from .enduring import BOUND_S, CONFIG, NewStore, both_stores, durable

DIVIDER = {"id": "root", "component": {"Divider": {}}}
SHOW = {
    "messages": [
        {"surfaceUpdate": {"surfaceId": "s", "components": [DIVIDER]}},
        {"beginRendering": {"surfaceId": "s", "root": "root"}},
    ]
}
CHANGE = {"dataModelUpdate": {"surfaceId": "s", "contents": [{"key": "a", "valueNumber": 1}]}}
DELETE = {"deleteSurface": {"surfaceId": "s"}}
LINES = [
    '{"op": "add", "path": "/root", "value": "page"}\n',
    '{"op": "add", "path": "/elements/page", "value": {"type": "Card"}}\n',
]
SPEC = {"root": "page", "elements": {"page": {"type": "Card"}}}


def render(*calls: Any) -> ToolCalls:
    return ToolCalls([("render_a2ui", it) for it in calls])


@tool(effect="idempotent")
async def ask(ctx: ToolContext) -> Any:
    """Ask somebody."""
    return ctx.suspend("May I?") if ctx.resume is None else ctx.resume.result


def painter(*script: Any, id_: str = "painter", **options: Any) -> Agent:
    plugins = [GenerativeUiPlugin(), *options.pop("plugins", ())]
    model = ScriptedModel([*script, "done"])
    return Agent(id_, model=model, tools=[ask], plugins=plugins, **options)


async def results(runtime: AgentRuntime, thread_id: str) -> list[str]:
    return [
        it.message.text for it in await runtime.messages(thread_id) if it.message.role == "tool"
    ]


def is_rendered(text: str) -> bool:
    return text.startswith('{"rendered":true')


@both_stores
def test_a_surface_is_remembered_over_a_wait_and_a_restart(new_store: NewStore) -> None:
    async def scenario() -> None:
        first = painter(render(SHOW), ToolCalls([("ask", {})]))
        async with durable(new_store, [first]) as runtime:
            waiting = await runtime.run("painter", "go", thread_id="t")
            assert waiting.termination == Suspended()
        second = painter(render(CHANGE), render(DELETE), render(CHANGE))
        async with durable(new_store, [second]) as runtime:
            (ticket,) = await runtime.tickets()
            await runtime.decide(ticket.ticket_id, "resume", result="yes")
            ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.termination == NaturalEnd()
        third = painter(render(CHANGE, SHOW))
        async with durable(new_store, [third]) as runtime:
            await runtime.run("painter", "again", thread_id="t")
            shown, _, changed, deleted, *refused = await results(runtime, "t")
        assert all(map(is_rendered, (shown, changed, deleted)))
        assert len(refused) == 3
        assert all("surface 's' was deleted" in it for it in refused)

    asyncio.run(scenario())


@both_stores
def test_a_surface_outlives_a_handoff_even_to_an_agent_that_knows_none(new_store: NewStore) -> None:
    async def scenario() -> None:
        def handing(to: str) -> Any:
            return ToolCalls([("transfer_to_agent", {"agent_id": to})])

        plain = Agent(
            "plain", model=ScriptedModel([handing("back")]), plugins=[HandoffPlugin({"back": "x"})]
        )
        front = painter(
            render(SHOW), handing("plain"), id_="front", plugins=[HandoffPlugin({"plain": "x"})]
        )
        back = painter(render(CHANGE), render(DELETE), id_="back")
        async with durable(new_store, [front, plain, back]) as runtime:
            result = await runtime.run("front", "go", thread_id="t")
            assert (result.agent_id, result.termination) == ("back", NaturalEnd())
            told = [it for it in await results(runtime, "t") if not it.startswith("Transferred")]
        assert len(told) == 3
        assert all(map(is_rendered, told))

    asyncio.run(scenario())


@both_stores
def test_a_delegate_has_surfaces_of_its_own(new_store: NewStore) -> None:
    async def scenario() -> None:
        asking = ToolCalls([("agent_run_helper", {"prompt": "go"})])
        boss = painter(render(SHOW), asking, render(CHANGE), id_="boss", delegates=["helper"])
        helper = painter(render(CHANGE), render(SHOW), render(CHANGE), id_="helper")
        async with durable(new_store, [boss, helper]) as runtime:
            result = await runtime.run("boss", "go", thread_id="t")
            assert result.termination == NaturalEnd()
            (child,) = [it for it in await runtime.list_runs() if it.parent_run_id]
            mine, theirs = await results(runtime, "t"), await results(runtime, child.thread_id)
        assert [is_rendered(it) for it in mine] == [True, False, True]
        assert "there is no surface 's'" in theirs[0]
        assert [is_rendered(it) for it in theirs[1:]] == [True, True]

    asyncio.run(scenario())


def lead(*script: Any) -> Agent:
    return Agent(
        "lead",
        model=ScriptedModel(script),
        delegates=["writer"],
        plugins=[GenerativeUiPlugin()],
        config={"generative_ui": {"a2ui": False, "json_render": {"agent": "writer"}}},
    )


@both_stores
def test_an_interface_that_is_being_written_when_the_process_ends_is_written_by_the_next_one(
    new_store: NewStore,
) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def forever(_: InferenceRequest) -> str:
            begun.set()
            await asyncio.Event().wait()
            return ""

        call = ToolCalls([("render_json_ui", {"prompt": "a card"})])
        writer = Agent("writer", model=ScriptedModel([forever]))
        at_once = msgspec.structs.replace(CONFIG, drain_ms=0)
        agents = [lead(call), writer]
        async with AgentRuntime(agents, store=new_store(), mailbox=at_once) as runtime:
            receipt = await runtime.submit("lead", "go", thread_id="t")
            await asyncio.wait_for(begun.wait(), BOUND_S)
        writer = Agent("writer", model=ScriptedModel([Chunks(LINES)]))
        async with durable(new_store, [lead("done"), writer]) as runtime:
            ended = await runtime.wait(receipt.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.termination == NaturalEnd()
            (told,) = await results(runtime, "t")
            assert json.loads(told) == {"rendered": True, "spec": SPEC}
            assert len([it for it in await runtime.list_runs() if it.parent_run_id]) == 1

    asyncio.run(scenario())


@both_stores
def test_an_interface_whose_writer_waits_is_finished_after_a_restart(new_store: NewStore) -> None:
    async def scenario() -> None:
        call = ToolCalls([("render_json_ui", {"prompt": "a card"})])
        asking = ToolCalls([("ask", {})])
        writer = Agent("writer", model=ScriptedModel([asking]), tools=[ask])
        async with durable(new_store, [lead(call), writer]) as runtime:
            waiting = await runtime.run("lead", "go", thread_id="t")
            assert waiting.termination == Suspended()
        writer = Agent("writer", model=ScriptedModel(["".join(LINES)]), tools=[ask])
        async with durable(new_store, [lead("done"), writer]) as runtime:
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, "resume", result="yes")
            ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.termination == NaturalEnd()
            (told,) = await results(runtime, "t")
            assert json.loads(told) == {"rendered": True, "spec": SPEC}
            assert len([it for it in await runtime.list_runs() if it.parent_run_id]) == 1

    asyncio.run(scenario())
