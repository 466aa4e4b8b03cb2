"""Previews and comparisons of rules know what tools that ask a person themselves would say."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.extensions.permission import PermissionConfig, PermissionPlugin, allow, deny
from awaken.server import ServerConfig
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import ask, config, token
from .managed_world import World


def is_large(amount: int) -> bool:
    return amount > 100


def is_of_guest(amount: int, ctx: ToolContext[Any]) -> bool:
    return amount > 100 and ctx.context["guest"]


def forgets(amount: int) -> Any:
    return [][amount]


@tool(approval=is_large)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(approval=True)
def wire(amount: int) -> str:
    """Wire."""
    return f"wired {amount}"


@tool(approval=is_of_guest)
def lend(amount: int) -> str:
    """Lend."""
    return f"lent {amount}"


@tool(approval=forgets)
def give(amount: int) -> str:
    """Give."""
    return f"gave {amount}"


@tool
def look() -> str:
    """Look."""
    return "seen"


TOOLS = [pay, wire, lend, give, look]
APPROVALS = [
    {"tool": "give", "when": "depends_on_arguments"},
    {"tool": "lend", "when": "depends_on_arguments"},
    {"tool": "pay", "when": "depends_on_arguments"},
    {"tool": "wire", "when": "always"},
]
PLUGIN = PermissionPlugin(default="allow")


def bank(*plugins: Any, script: Any = (), **options: Any) -> Agent:
    return Agent("bank", model=ScriptedModel(script), tools=TOOLS, plugins=plugins, **options)


async def preview(runtime: AgentRuntime, *calls: tuple[str, Any]) -> Any:
    body = {"agent": "bank", "calls": [{"tool": it, "arguments": given} for it, given in calls]}
    answer = await ask(runtime.asgi(ServerConfig()), "POST", "/v1/policy/preview", body=body)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        ("pay", 101, ("ask", "approval", "needed")),
        ("pay", 100, ("allow", "default", "not_needed")),
        ("pay", "many", ("allow", "default", "invalid_arguments")),
        ("wire", 1, ("ask", "approval", "needed")),
        ("lend", 100, ("allow", "default", "not_needed")),
        ("lend", 101, ("allow", "default", "depends_on_run")),
        ("give", 1, ("ask", "approval", "needed")),
    ],
)
@pytest.mark.parametrize("plugins", [(), (PLUGIN,)])
def test_a_preview_asks_the_tool_about_the_arguments(
    name: str, amount: Any, expected: Any, plugins: Any
) -> None:
    async def scenario() -> None:
        async with AgentRuntime([bank(*plugins)]) as runtime:
            shown = await preview(runtime, (name, {"amount": amount}))
            (call,) = shown["calls"]
            assert (call["behavior"], call["rule"], call["approval"]) == expected
            assert shown["approvals"] == APPROVALS
            path = "/v1/agents/bank/permission-preview"
            seen = await ask(runtime.asgi(ServerConfig()), "GET", path)
            assert seen.json["approvals"] == APPROVALS

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (allow(pay), ("allow", "pay")),
        (allow("p*"), ("ask", "approval")),
        (deny("p*"), ("deny", "p*")),
    ],
)
def test_a_rule_decides_in_a_preview_as_it_does_in_a_run(rule: Any, expected: Any) -> None:
    async def scenario() -> None:
        plugin = PermissionPlugin([rule], default="allow")
        script = [ToolCalls([("pay", {"amount": 500})]), "Done."]
        async with AgentRuntime([bank(plugin, script=script)]) as runtime:
            (call,) = (await preview(runtime, ("pay", {"amount": 500})))["calls"]
            assert (call["behavior"], call["rule"]) == expected
            result = await runtime.run("bank", "go", thread_id="t")
            assert bool(result.tickets) == (expected[0] == "ask")
            said = " ".join(it.message.text for it in await runtime.messages("t"))
            assert ("denied" in said) == (expected[0] == "deny")

    asyncio.run(scenario())


async def compare(runtime: AgentRuntime, new: Any, **more: Any) -> dict[str, int]:
    body = {"agent": "bank", "new": new, **more}
    answer = await ask(runtime.asgi(ServerConfig()), "POST", "/v1/policy/diff", body=body)
    assert answer.status == 200, answer.body
    return {kind: it["count"] for kind, it in answer.json["newly"].items()}


async def make_calls(runtime: AgentRuntime) -> None:
    result = await runtime.run("bank", "go", thread_id="t")
    assert {it.tool_name for it in result.tickets} == {"pay", "wire"}


CALLS = [
    ("pay", {"amount": 500}),
    ("pay", {"amount": 5}),
    ("wire", {"amount": 5}),
    ("look", {}),
]


def test_a_looser_default_allows_no_call_that_its_tool_wants_to_be_approved() -> None:
    async def scenario() -> None:
        agent = bank(PLUGIN, script=[ToolCalls(CALLS), "Done."])
        async with AgentRuntime([agent]) as runtime:
            await make_calls(runtime)
            asking, allowing = {"default_behavior": "ask"}, {"default_behavior": "allow"}
            found = await compare(runtime, allowing, old=asking)
            assert found == {"allow": 2, "ask": 0, "deny": 0}
            named = {**allowing, "rules": [{"tool": "wire", "behavior": "allow"}]}
            found = await compare(runtime, named, old=asking)
            assert found == {"allow": 3, "ask": 0, "deny": 0}
            found = await compare(runtime, {"default_behavior": "deny"}, old=allowing)
            assert found == {"allow": 0, "ask": 0, "deny": 4}

    asyncio.run(scenario())


def test_the_rules_that_an_agent_has_now_include_those_of_its_plugin() -> None:
    async def scenario() -> None:
        plugin = PermissionPlugin([deny("look")], default="allow")
        agent = bank(plugin, script=[ToolCalls(CALLS), "Done."])
        async with AgentRuntime([agent]) as runtime:
            await make_calls(runtime)
            assert await compare(runtime, {}) == {"allow": 0, "ask": 0, "deny": 0}
            now = await compare(runtime, {"default_behavior": "deny"})
            assert now == {"allow": 0, "ask": 0, "deny": 3}

    asyncio.run(scenario())


def test_an_agent_without_the_plugin_lets_calls_pass_now() -> None:
    async def scenario() -> None:
        async with AgentRuntime([bank(script=[ToolCalls(CALLS), "Done."])]) as runtime:
            await make_calls(runtime)
            found = await compare(runtime, {"default_behavior": "ask"})
            assert found == {"allow": 0, "ask": 2, "deny": 0}

    asyncio.run(scenario())


def test_the_impact_of_a_draft_knows_approvals_and_the_rules_of_the_plugin() -> None:
    async def scenario() -> None:
        plugin = PermissionPlugin([deny("look")])
        agent = bank(plugin, script=[ToolCalls(CALLS), "Done."])
        async with AgentRuntime([agent], managed=True) as runtime:
            await runtime.run("bank", "go", thread_id="t")
            at = World(runtime, runtime.asgi(config(token("boss"))))
            loose = {"default_behavior": "allow"}
            draft = await at.draft(bank={"sections": {"permission": loose}})
            calls = (await at.get(f"/v1/config/drafts/{draft}/impact"))["calls"]
            assert (calls["calls"], calls["newly_allowed"]) == (4, 1)
            (example,) = calls["examples"]
            assert example["call"]["arguments"] == {"amount": 5}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (None, "deny"),
        ({"rules": [{"tool": "pay", "behavior": "allow"}]}, "deny"),
        ({"default_behavior": "ask"}, "ask"),
        (PermissionConfig(default_behavior="ask"), "ask"),  # type: ignore[arg-type]
    ],
)
def test_the_default_of_the_plugin_counts_unless_the_section_says_it(
    section: Any, expected: str
) -> None:
    async def scenario() -> None:
        sections = {} if section is None else {"permission": section}
        agent = bank(PermissionPlugin(default="deny"), config=sections)
        async with AgentRuntime([agent]) as runtime:
            (call,) = (await preview(runtime, ("look", {})))["calls"]
            assert call["behavior"] == expected

    asyncio.run(scenario())


def test_a_predicate_that_hangs_is_waited_for_once() -> None:
    asked: list[int] = []
    hanging = asyncio.Event()

    async def hangs(amount: int) -> bool:
        asked.append(amount)
        if hanging.is_set():
            await asyncio.Event().wait()
        return False

    @tool(approval=hangs)
    def hold(amount: int) -> str:
        """Hold."""
        return str(amount)

    async def scenario() -> None:
        calls = ToolCalls([("hold", {"amount": it}) for it in range(5)])
        agent = Agent("bank", model=ScriptedModel([calls, "."]), tools=[hold], plugins=[PLUGIN])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("bank", "go", thread_id="t")
            asked.clear()
            hanging.set()
            found = await compare(runtime, {"default_behavior": "allow"}, old={})
            assert (found["allow"], len(asked)) == (0, 1)

    asyncio.run(scenario())
