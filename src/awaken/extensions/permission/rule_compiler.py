"""Compiles a section to rules; a rule that can never match is refused."""

import difflib
from collections.abc import Mapping

from awaken.contracts.record import Record
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.patterns import ConditionKind, PatternError, ToolPattern, parse_pattern

from .config import PermissionConfig, RuleConfig
from .rules import Rule, RuleSet

Tools = Mapping[str, ToolDescriptor]

LATE_TOOLS = "mcp__"
"""Tools of MCP servers are added when their servers connect, which may be after this check."""


class RefusedRule(ValueError):
    """A rule that cannot be used; the text says which one and why."""


class CompiledRules(Record, frozen=True, kw_only=True):
    """Compiled rules, and warnings about them."""

    rules: RuleSet
    oddities: tuple[str, ...] = ()


def compile_rules(config: PermissionConfig, tools: Tools | None = None) -> CompiledRules:
    """Compile a section and check it, against the tools of its agent if they are known.

    Raises:
        RefusedRule: A rule is malformed, contradicts another one, or can never match.
    """
    numbered: dict[str, tuple[int, Rule]] = {}
    for number, written in enumerate(config.rules, 1):
        rule = Rule(_parse_rule(number, written), written.behavior, written.scope)
        earlier, same = numbered.setdefault(rule.pattern.text, (number, rule))
        if (same.behavior, same.scope) != (rule.behavior, rule.scope):
            problem = f"rule {earlier} says something else about the same calls; keep one of them"
            raise _rule_error(number, rule.pattern, problem)
    default = config.default_behavior or ToolBehavior.ASK
    rules = RuleSet((rule for _, rule in numbered.values()), default)
    if tools is None:
        return CompiledRules(rules=rules)
    meant = _tools_by_pattern(rules, tools)
    found = (_find_oddity(*it, meant.get(text, []), tools) for text, it in numbered.items())
    return CompiledRules(rules=rules, oddities=tuple(oddity for oddity in found if oddity))


def _parse_rule(number: int, written: RuleConfig) -> ToolPattern:
    try:
        return parse_pattern(written.tool)
    except PatternError as error:
        problem = f"at character {error.position}: {error.problem}"
        raise RefusedRule(f"rule {number} ({written.tool}): {problem}") from error


def _tools_by_pattern(rules: RuleSet, tools: Tools) -> dict[str, list[ToolDescriptor]]:
    """The tools that each pattern matches."""
    meant: dict[str, list[ToolDescriptor]] = {}
    for tool_id, tool in tools.items():
        for rule in rules.rules_for_tool(tool_id):
            meant.setdefault(rule.pattern.text, []).append(tool)
    return meant


def _find_oddity(number: int, rule: Rule, meant: list[ToolDescriptor], tools: Tools) -> str | None:
    """Refuse a rule that can never match; return a warning for one that may match later."""
    pattern = rule.pattern
    if not meant:
        return _describe_missing_tool(number, rule, tools)
    if pattern.has_arguments and all(pattern.problems(tool.parameters) for tool in meant):
        problem = pattern.problems(meant[0].parameters)[0]
        raise _rule_error(number, pattern, f"no call of tool '{meant[0].id}' can fit it: {problem}")
    return None


def _describe_missing_tool(number: int, rule: Rule, tools: Tools) -> str:
    wanted = rule.pattern.tool
    is_named = wanted.kind is ConditionKind.EXACT and not wanted.text.startswith(LATE_TOOLS)
    if is_named and rule.behavior is not ToolBehavior.DENY:
        near = difflib.get_close_matches(wanted.text, tools, n=1)
        hint = f"write '{near[0]}', or" if near else "write"
        later = f"'{wanted.text}*' for one that comes later"
        problem = f"the agent has no tool '{wanted.text}'; {hint} {later}"
        raise _rule_error(number, rule.pattern, problem)
    return f"rule {number} ({rule.pattern.text}) matches none of the tools that are known now"


def _rule_error(number: int, pattern: ToolPattern, problem: str) -> RefusedRule:
    return RefusedRule(f"rule {number} ({pattern.text}): {problem}")
