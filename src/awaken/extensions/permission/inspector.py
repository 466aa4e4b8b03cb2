"""Inspects permission rules for operators, by the same functions by which the gate decides."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.policy import (
    AgentPolicy,
    ArgumentRule,
    CallVerdict,
    PastCall,
    PolicyDiff,
)
from awaken.patterns import call_of

from .config import SECTION, PermissionConfig
from .policy import policy_diff
from .rule_compiler import RefusedRule, compile_rules
from .rules import RuleSet, decide, find_hidden_tools


class PermissionInspector:
    """A `PolicyInspector` for the rules of this extension."""

    def inspect(self, prepared: Mapping[str, Any], tool_ids: Collection[str]) -> AgentPolicy | None:
        """Return the effect of an agent's compiled rules; None without any: every call passes."""
        own = prepared.get(SECTION)
        if own is None:
            return None
        rules: RuleSet = own.rules
        return AgentPolicy(
            default_behavior=rules.default,
            hidden=tuple(sorted(find_hidden_tools(rules, tool_ids))),
            argument_rules=tuple(
                ArgumentRule(
                    tool=rule.pattern.tool.text,
                    behavior=rule.behavior,
                    pattern=rule.pattern.text,
                )
                for rule in rules.rules
                if rule.pattern.has_arguments
            ),
        )

    def decide(self, prepared: Mapping[str, Any], tool: str, arguments: Any) -> CallVerdict:
        """Decide about a call by an agent's compiled rules.

        Raises:
            InvalidInput: The agent has no rules.
        """
        own = prepared.get(SECTION)
        if own is None:
            raise InvalidInput(what="The agent", problem="it has no permission rules")
        verdict = decide(own.rules, call_of(tool, arguments))
        return CallVerdict(behavior=verdict.behavior, rule=verdict.rule_text)

    def section_of(self, sections: Mapping[str, Any]) -> Any:
        """Return the section of the rules among an agent's sections; without one, an empty one."""
        return sections.get(SECTION) or {}

    def compare(self, old: Any, new: Any, calls: Sequence[PastCall]) -> PolicyDiff:
        """Decide about calls by two sections, and return those that differ.

        Raises:
            InvalidInput: A section is malformed, or a rule in it cannot be used.
        """
        return policy_diff(compile_section(old, "old"), compile_section(new, "new"), calls)


def compile_section(section: Any, what: str) -> RuleSet:
    """Compile a section, as data.

    Raises:
        InvalidInput: It is malformed, or a rule in it cannot be used; the error names it.
    """
    try:
        return compile_rules(msgspec.convert(section, PermissionConfig)).rules
    except (msgspec.MsgspecError, RecursionError, RefusedRule) as error:
        raise InvalidInput(what=what, problem=str(error).removesuffix(".")) from error
