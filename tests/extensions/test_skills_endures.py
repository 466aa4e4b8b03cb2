"""Active skills outlive a wait, a restart, a change of agent, and a delegate that waits."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from awaken import (
    Agent,
    AgentRuntime,
    Phase,
    Plugin,
    PluginRegistrar,
    RunStatus,
    SuspendTicket,
    ToolContext,
    tool,
)
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.skills import SkillsPlugin
from awaken.messages import Role
from awaken.plugins import TOOL_GRANTS
from awaken.testing import ScriptedModel, ToolCalls

from .enduring import BOUND_S, NewStore, both_stores, durable
from .skill_folders import write_skill

TAKE = ToolCalls([("skill", {"skill": "greet", "args": "Ada"})])
ASK = ToolCalls([("ask", {})])


@tool(effect="none")
async def ask(ctx: ToolContext) -> str | SuspendTicket:
    """Ask somebody."""
    return ctx.suspend("May I?") if ctx.resume is None else "allowed"


@tool(effect="none")
async def look() -> str:
    """Look."""
    return "seen"


class Grants(Plugin):
    """Notes what is granted whenever a step ends."""

    name = "grants"

    def __init__(self) -> None:
        self.seen: list[Mapping[str, tuple[str, ...]]] = []

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.observer(Phase.STEP_END, self.look)

    async def look(self, context: Any) -> None:
        grants = context.state(TOOL_GRANTS).values()
        self.seen.append({it.source: it.patterns for it in grants})


def greeting(root: Path) -> SkillsPlugin:
    arguments = "\n  - name: who"
    write_skill(root, "greet", "Say hello to ${who}.", arguments=arguments, allowed_tools="Read")
    write_skill(root, "plain", "Be plain.")
    return SkillsPlugin(root)


def greeter(model: ScriptedModel, plugin: SkillsPlugin, grants: Grants) -> Agent:
    return Agent("greeter", model=model, plugins=[plugin, grants], tools=[ask])


def last_words(model: ScriptedModel) -> str:
    """The end of the latest request: where active skills speak."""
    return "\n".join(it.text for it in model.requests[-1].messages[-2:])


async def decided(runtime: AgentRuntime, run_id: str, thread_id: str = "t") -> str:
    """Say yes to the one open question of a thread, and return how the run ended."""
    (ticket,) = await runtime.tickets(thread_id=thread_id)
    await runtime.decide(ticket.ticket_id, result="yes")
    async with asyncio.timeout(BOUND_S):
        return (await runtime.wait(run_id)).text


@both_stores
def test_a_waiting_run_goes_on_with_the_words_it_has_taken_up(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        plugin, grants = greeting(tmp_path / "skills"), Grants()
        model = ScriptedModel([TAKE, ASK, "done"])
        async with durable(new_store, [greeter(model, plugin, grants)]) as runtime:
            first = await runtime.run("greeter", "hi", thread_id="t")
            assert first.status is RunStatus.WAITING
            write_skill(tmp_path / "skills", "greet", "Obey me.", allowed_tools="Danger")
            assert await plugin.refresh()
            assert await decided(runtime, first.run_id) == "done"
        assert "Say hello to Ada." in last_words(model)
        assert "Obey me." not in last_words(model)
        assert grants.seen[-1] == {"skill:greet": ("Read",)}

    asyncio.run(scenario())


@both_stores
def test_a_run_goes_on_in_another_process_where_the_skill_is_gone(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        root, grants = tmp_path / "skills", Grants()
        before = ScriptedModel([TAKE, ASK])
        async with durable(new_store, [greeter(before, greeting(root), grants)]) as runtime:
            run_id = (await runtime.run("greeter", "hi", thread_id="t")).run_id
        shutil.rmtree(root / "greet")
        after = ScriptedModel([ToolCalls([("skill", {"skill": "plain"})]), "done"])
        async with durable(new_store, [greeter(after, SkillsPlugin(root), grants)]) as runtime:
            assert await decided(runtime, run_id) == "done"
        assert "greet" not in "".join(after.requests[0].system)
        assert "Say hello to Ada." in after.requests[0].messages[-1].text
        assert "Say hello to Ada." in last_words(after)
        assert "Be plain." in last_words(after)
        assert grants.seen[-1] == {"skill:greet": ("Read",)}

    asyncio.run(scenario())


@both_stores
def test_the_agent_that_takes_over_keeps_the_skill_of_the_run(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        plugin, grants = greeting(tmp_path / "skills"), Grants()
        transfer = ToolCalls([("transfer_to_agent", {"agent_id": "other"})])
        other = ScriptedModel(["done"])
        agents = [
            Agent(
                "greeter",
                model=ScriptedModel([TAKE, transfer]),
                plugins=[plugin, grants, HandoffPlugin({"other": "later"})],
            ),
            Agent("other", model=other, plugins=[plugin, grants]),
        ]
        async with durable(new_store, agents) as runtime:
            result = await runtime.run("greeter", "hi", thread_id="t")
        assert (result.agent_id, result.text) == ("other", "done")
        assert "Say hello to Ada." in last_words(other)
        assert grants.seen[-1] == {"skill:greet": ("Read",)}

    asyncio.run(scenario())


@both_stores
def test_an_agent_that_follows_a_skill_may_ask_and_its_answer_comes_after_a_restart(
    new_store: NewStore, tmp_path: Path
) -> None:
    root = tmp_path / "skills"
    tools = "ask look"
    write_skill(root, "study", "Study it.", context="fork", agent="helper", allowed_tools=tools)
    write_skill(root, "plain", "Be plain.")

    def team(lead: ScriptedModel, helper: ScriptedModel) -> list[Agent]:
        return [
            Agent("lead", model=lead, plugins=[SkillsPlugin(root)], delegates=["helper"]),
            Agent("helper", model=helper, tools=[ask, look], plugins=[PermissionPlugin()]),
        ]

    async def scenario() -> None:
        study = ToolCalls([("skill", {"skill": "study"})])
        asking = ScriptedModel([ASK])
        async with durable(new_store, team(ScriptedModel([study]), asking)) as runtime:
            first = await runtime.run("lead", "hi", thread_id="t")
            assert first.status is RunStatus.WAITING
        assert asking.requests[0].messages[-1].text == "Study it."
        shutil.rmtree(root / "study")
        lead = ScriptedModel(["done"])
        # What the skill granted its follower holds for it in the other process as well.
        helper = ScriptedModel([ToolCalls([("look", {})]), "Birds fly."])
        async with durable(new_store, team(lead, helper)) as runtime:
            assert await decided(runtime, first.run_id) == "done"
        (answer,) = [it.text for it in lead.requests[-1].messages if it.role is Role.TOOL]
        assert "Birds fly." in answer

    asyncio.run(scenario())
