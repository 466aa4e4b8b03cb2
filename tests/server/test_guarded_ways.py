"""Guardrails see every way in: on each wire, in each field, whatever follows in the request."""

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sqlite_dump import dump_sqlite

from awaken import Agent, AgentRuntime, Blocked, MailboxConfig, ToolContext, tool
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ResumeMode, ToolCallResume

from .guarded_ways import WAYS, World

CANARY = "CANARY-7731"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUICK = MailboxConfig(poll_ms=20, lease_ms=20_000, renew_ms=200)


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask; the answer is the result."""
    return ctx.suspend("sure?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


@tool(effect="none")
async def hear(ctx: ToolContext) -> Any:
    """Ask, and tell what was said."""
    return ctx.suspend("who?") if ctx.resume is None else f"said: {ctx.resume.result}"


@tool(effect="none")
async def fill(ctx: ToolContext) -> Any:
    """Ask with a form."""
    if ctx.resume is None:
        return ctx.suspend("who?", response_schema=NAME)
    return f"said: {ctx.resume.result}"


@tool(effect="none")
async def edit(what: str, ctx: ToolContext) -> Any:
    """Ask, then do it."""
    if ctx.resume is None:
        return ctx.suspend("sure?", mode=ResumeMode.REPLAY_TOOL_CALL)
    return f"did {what}"


def guarded(action: str | None) -> dict[str, Any]:
    if action is None:
        return {}
    rule = {"name": "canary", "on": ["input"], "action": action, "pattern": "CANARY-[0-9]+"}
    return {"config": {"guardrails": {"rules": [rule]}}, "plugins": [GuardrailsPlugin()]}


def agent_of(name: str, model: ScriptedModel, world: list[World], action: str | None) -> Agent:
    @tool(effect="none")
    async def hold() -> str:
        """Wait."""
        world[0].entered.set()
        await world[0].opened.wait()
        return "held"

    tools = {
        "asking": [ask], "telling": [hear], "editing": [edit], "form": [fill], "holding": [hold],
    }.get(name, [])  # fmt: skip
    return Agent(name, model=model, tools=tools, description="x", **guarded(action))


def script_of(name: str) -> ScriptedModel:
    called = {
        "asking": ("ask", {}), "telling": ("hear", {}), "editing": ("edit", {"what": "x"}),
        "form": ("fill", {}), "holding": ("hold", {}), "fronting": ("front", {}),
    }.get(name)  # fmt: skip
    first = [ToolCalls([called])] if called is not None else []
    return ScriptedModel([*first, *['{"a": "ok"}' if name == "formed" else "ok"] * 5])


async def sent(way: str, action: str | None, folder: Path) -> tuple[str, list[Any]]:
    """Send the canary; returns everything that the model was asked, and how the runs ended."""
    name, send = WAYS[way]
    model, worlds = script_of(name), list[World]()
    agent = agent_of(name, model, worlds, action)
    store = f"sqlite:///{folder}/store.db"
    async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
        app = runtime.asgi()
        worlds.append(World(app, runtime))
        await asyncio.wait_for(send(worlds[0], f"before {CANARY} after"), 30)
        runs = await runtime.list_runs()
        ends = [run.termination for run in runs]
        await app.close()
    asked = msgspec.json.encode(
        [(it.system, it.messages, it.tools, it.output_schema) for it in model.requests]
    )
    return _readable(asked.decode()), ends


def _readable(text: str) -> str:
    """Files are sent as base64; their text is looked for as well."""
    found = re.findall(r'"data":"((?:[A-Za-z0-9+/=]{4})+)"', text)
    return "\n".join((text, *(base64.b64decode(it).decode("utf-8", "replace") for it in found)))


def kept(folder: Path) -> str:
    return _readable(dump_sqlite(folder / "store.db").decode("utf-8", "replace"))


def test_there_are_enough_ways() -> None:
    assert len(WAYS) >= 60
    wires = {name.split()[0] for name in WAYS}
    assert wires == {"native", "ag-ui", "ai-sdk", "chat", "responses", "a2a", "mcp"}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_a_way_in(way: str, tmp_path: Path) -> None:
    asked, _ = asyncio.run(sent(way, None, tmp_path))
    assert CANARY in asked


@pytest.mark.parametrize("way", WAYS)
def test_what_is_blocked_blocks_the_run_and_is_neither_sent_nor_kept(
    way: str, tmp_path: Path
) -> None:
    asked, ends = asyncio.run(sent(way, "block", tmp_path))
    assert CANARY not in asked
    assert any(isinstance(end, Blocked) for end in ends), ends
    assert CANARY not in kept(tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_redacted_is_neither_sent_nor_kept(way: str, tmp_path: Path) -> None:
    asked, ends = asyncio.run(sent(way, "redact", tmp_path))
    assert CANARY not in asked
    assert "[canary]" in asked
    assert not any(isinstance(end, Blocked) for end in ends), ends
    assert CANARY not in kept(tmp_path)


@pytest.mark.parametrize("action", ["block", "redact"])
def test_what_another_agent_says_is_looked_at(action: str) -> None:
    async def scenario() -> None:
        told = ToolCalls([("agent_run_a", {"prompt": f"tell {CANARY}"})])
        model, boss = ScriptedModel(["ok"] * 3), ScriptedModel([told, "done"])
        agents = [
            Agent("a", model=model, description="x", **guarded(action)),
            Agent("boss", model=boss, delegates=["a"]),
        ]
        async with AgentRuntime(agents) as runtime:
            await runtime.run("boss", "go")
            ends = [it.termination for it in await runtime.list_runs() if it.agent_id == "a"]
        assert ends, boss.requests
        assert CANARY not in str(model.requests)
        assert any(isinstance(end, Blocked) for end in ends) is (action == "block")

    asyncio.run(scenario())


def test_a_decision_that_another_process_takes_is_looked_at_before_it_rests(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/store.db"
        worlds = list[World]()
        model = script_of("asking")
        agent = agent_of("asking", model, worlds, "redact")
        async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
            waiting = await runtime.run("asking", "go")
            (ticket,) = waiting.tickets
            decision = ToolCallResume(decision_id="d", result={"a": CANARY})
            # As where somebody else executes the run.
            control = runtime._control
            shown = await control._screen_decisions([(ticket.ticket_id, decision)])
            await control._mailbox.decide(shown)
            await runtime.wait(waiting.run_id, timeout_ms=20_000)
        assert CANARY not in str(model.requests)
        assert "[canary]" in str(model.requests)

    asyncio.run(scenario())
    assert CANARY not in kept(tmp_path)


def test_a_decision_of_an_operator_who_has_no_agents_is_looked_at_by_the_run(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        model = script_of("asking")
        agent = agent_of("asking", model, [], "block")
        store = f"sqlite:///{tmp_path}/store.db"
        async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
            waiting = await runtime.run("asking", "go")
            (ticket,) = waiting.tickets
            decision = ToolCallResume(decision_id="d", result={"a": CANARY})
            await runtime._control._mailbox.decide([(ticket.ticket_id, decision)])
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
        assert isinstance(ended.termination, Blocked)
        assert CANARY not in str(model.requests)

    asyncio.run(scenario())
