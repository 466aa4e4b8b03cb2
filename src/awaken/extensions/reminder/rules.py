"""Compiled rules: which results of which calls they match, and the text that follows.

Matching is generous, as for permission rules that ask: a reminder too many costs less than one too
few. The text is fixed when the rule is compiled; nothing of a call or a result enters it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from awaken.contracts.errors import InvalidPluginConfig
from awaken.contracts.messages.context_messages import ContextMessage
from awaken.contracts.messages.message import as_blocks
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.patterns import (
    Condition,
    ConditionKind,
    PatternCall,
    PatternError,
    PatternIndex,
    ToolPattern,
    ValueTest,
    call_of,
    parse_condition,
    parse_pattern,
    read_value,
)

from .config import SECTION, FieldsMatch, OutputMatch, ReminderRule

_OPERATORS = {
    "glob": "~",
    "exact": "=",
    "regex": "=~",
    "not_glob": "!~",
    "not_exact": "!=",
    "not_regex": "!=~",
}


class Reminder(msgspec.Struct, frozen=True, eq=False):
    """A text and the results that it follows."""

    message: ContextMessage
    status: str = "any"
    text: ValueTest | None = None
    fields: tuple[Condition, ...] = ()

    def follows(self, result: ToolResult) -> bool:
        """Whether this result triggers it."""
        if self.status not in ("any", result.status):
            return False
        # The glob is compared with the data, or with the message of a result without data.
        shown = result.message if result.data is None else result.data
        if self.text is not None and not self.text.may_fit(read_value(shown)):
            return False
        if not self.fields:
            return True
        values = call_of(result.tool_name, result.data)
        return result.data is not None and all(it.may_match(values) for it in self.fields)


class Reminders(msgspec.Struct, frozen=True, eq=False):
    """The rules of an agent."""

    rules: PatternIndex[Reminder]

    def find_due(self, call: PatternCall, result: ToolResult) -> list[ContextMessage]:
        """The reminders that the result of a call triggers."""
        return [it.message for it in self.rules.may_match(call) if it.follows(result)]


def compile_rules(
    rules: Iterable[ReminderRule], agent_id: str, tools: Mapping[str, ToolDescriptor]
) -> Reminders:
    """Compile and check the rules of an agent.

    Raises:
        InvalidPluginConfig: A rule is malformed, can never match, or has the name of another.
    """
    entries: dict[str, tuple[ToolPattern, Reminder]] = {}
    for place, rule in enumerate(rules):
        name = rule.name or f"rule-{place}-{rule.tool}"
        try:
            pattern = parse_pattern(rule.tool)
            reminder = _reminder(name, rule)
            problem = _problem(pattern, tools)
        except PatternError as error:
            raise _rule_error(agent_id, name, str(error).rstrip(".")) from error
        if name in entries:
            problem = "another rule has this name; give each its own"
        if problem:
            raise _rule_error(agent_id, name, problem)
        entries[name] = (pattern, reminder)
    return Reminders(PatternIndex(entries.values()))


def _reminder(name: str, rule: ReminderRule) -> Reminder:
    message = ContextMessage(
        key=f"reminder.{name}",
        content=as_blocks(rule.message.content),
        target=rule.message.target,
        cooldown_turns=rule.message.cooldown_turns,
    )
    match rule.output:
        case OutputMatch(status=status, content=FieldsMatch(fields=fields)):
            found = (parse_condition(it.path, _OPERATORS[it.op], it.value) for it in fields)
            return Reminder(message, status, None, tuple(found))
        case OutputMatch(status=status, content=str() as glob):
            return Reminder(message, status, ValueTest(ConditionKind.GLOB, glob))
        case OutputMatch(status=status):
            return Reminder(message, status)
    return Reminder(message)


def _problem(pattern: ToolPattern, tools: Mapping[str, ToolDescriptor]) -> str | None:
    """Why no call of the agent's tools can match. Tools that are added later are not checked."""
    named = [tool for tool_id, tool in tools.items() if pattern.matches_tool(tool_id)]
    problems = [pattern.problems(tool.parameters) for tool in named]
    return "; ".join(problems[0]) if problems and all(problems) else None


def _rule_error(agent_id: str, name: str, problem: str) -> InvalidPluginConfig:
    return InvalidPluginConfig(
        section=SECTION, agent_id=agent_id, problem=f"rule '{name}': {problem}"
    )
