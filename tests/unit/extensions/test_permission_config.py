"""The section `permission`: what is refused when it is written, and what may come true later."""

import logging
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.errors import InvalidPluginConfig, InvalidSpec
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission.gate import PreparedPolicy
from awaken.testing import ScriptedModel

OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
BASH: dict[str, Any] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "options": {"type": "object", "properties": {}}},
    "additionalProperties": False,
}
TOOLS = {
    "Bash": ToolDescriptor(id="Bash", parameters=BASH),
    "Basic": ToolDescriptor(id="Basic", parameters=BASH),
    "Any": ToolDescriptor(id="Any", parameters=OPEN),
}


def prepared(*rules: Any, **section: Any) -> PreparedPolicy:
    written = [dict(zip(("tool", "behavior", "scope"), it, strict=False)) for it in rules]
    sections = {"permission": {"rules": written, **section}}
    agent = AgentSpec(id="a", model_id="m", sections=sections)
    return PermissionPlugin().prepare(agent, TOOLS)


def problem(*rules: Any) -> str:
    with pytest.raises(InvalidPluginConfig) as caught:
        prepared(("Bash", "allow"), *rules)
    assert (caught.value.section, caught.value.agent_id) == ("permission", "a")
    return caught.value.problem


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("Basic(", 5),
        ("", 0),
        ("/(/", 0),
        ('Basic(command =~ "(")', 18),
        ("Basic(*) x", 9),
        ('Basic(command = "x)', 16),
    ],
)
@pytest.mark.parametrize("behavior", ["allow", "ask", "deny"])
def test_a_rule_that_cannot_be_read_is_refused_with_its_number_and_the_place(
    text: str, position: int, behavior: str
) -> None:
    told = problem((text, behavior))
    assert told.startswith(f"rule 2 ({text}): at character {position}: ")


@pytest.mark.parametrize("behavior", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    "text",
    [
        'Bash(comand = "x")',
        'Bas*(comand ~ "x")',
        'Bash(command.deep = "x")',
        'Bash(command[0] = "x")',
    ],
)
def test_a_rule_that_no_call_could_ever_fit_is_refused(text: str, behavior: str) -> None:
    assert "no call of tool 'Bash' can fit it" in problem((text, behavior))


def test_a_path_that_some_tool_of_the_pattern_can_have_is_accepted() -> None:
    prepared(('*(comand = "x")', "deny"), ('Any(whatever.deep = "x")', "allow"))


@pytest.mark.parametrize("behavior", ["allow", "ask"])
def test_a_tool_that_nobody_has_is_refused_and_the_right_name_is_offered(behavior: str) -> None:
    told = problem(("Bahs", behavior))
    assert "the agent has no tool 'Bahs'; write 'Bash', or 'Bahs*'" in told
    assert "the agent has no tool 'Nothing'; write 'Nothing*'" in problem(("Nothing", behavior))


def test_a_denial_of_a_tool_that_may_come_later_is_accepted_and_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        made = prepared(("mcp__x__drop", "deny"), ("mcp__y__*", "allow"))
    assert len(made.rules.rules) == 2
    assert "matches none of the tools that are known now (and 1 more)" in caplog.text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("Bash(ls *)", "allow"), ("Bash( ls * )", "deny")),
        (("Any", "ask"), ("Any(*)", "deny")),
        (("Any", "ask", "run"), ("Any", "ask", "thread")),
    ],
)
def test_two_rules_that_contradict_each_other_about_the_same_calls_are_refused(
    first: Any, second: Any
) -> None:
    assert "rule 2 says something else about the same calls" in problem(first, second)


def test_the_same_rule_twice_is_one_rule() -> None:
    assert len(prepared(("Bash", "ask"), ("Bash", "ask"), ("Any", "deny")).rules.rules) == 2


def test_what_is_hidden_is_found_when_the_agent_is_resolved() -> None:
    made = prepared(("Ba*", "deny"), ("Any(x)", "deny"))
    assert made.hidden == {"Bash", "Basic"}
    assert made.tool_ids == set(TOOLS)


@tool
async def read(path: str) -> str:
    """Read a file."""
    return path


@pytest.mark.parametrize(
    "section",
    [
        {"rules": [{"tool": "read(", "behavior": "deny"}]},
        {"rules": [{"tool": "read", "behavior": "forbid"}]},
        {"rules": [{"tool": "read", "behavior": "deny", "scop": "run"}]},
        {"rules": [{"behavior": "deny"}]},
        {"default_behavior": "never"},
        {"default": "deny"},
        {"on_deny": "explode"},
        {"rules": [{"tool": 'read(file = "x")', "behavior": "deny"}]},
    ],
)
def test_an_agent_whose_section_is_wrong_is_not_registered(section: Any) -> None:
    agent = Agent(
        "reader",
        model=ScriptedModel([]),
        tools=[read],
        plugins=[PermissionPlugin()],
        config={"permission": section},
    )
    with pytest.raises(InvalidSpec, match="Section 'permission' of agent 'reader' is invalid"):
        AgentRuntime([agent])


def test_a_rule_may_name_a_tool_of_a_server_that_is_not_there_yet() -> None:
    made = prepared(("mcp__github__create_issue", "ask"), ("mcp__github__list", "allow"))
    assert len(made.rules.rules_for_tool("mcp__github__create_issue")) == 1
