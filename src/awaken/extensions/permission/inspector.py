"""Inspects permission rules for operators, by the same functions by which the gate decides."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import (
    AgentPolicy,
    ApprovalNeed,
    ArgumentRule,
    CallVerdict,
    PastCall,
    PolicyDiff,
)
from awaken.patterns import call_of

from .config import SECTION, PermissionConfig
from .policy import policy_diff
from .rule_compiler import RefusedRule, compile_rules
from .rules import RuleSet, apply_approval, decide, find_hidden_tools

_NO_RULES = RuleSet(default=ToolBehavior.ALLOW)
_PASS_ALL = {"default_behavior": ToolBehavior.ALLOW.value}


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

    def decide(
        self,
        prepared: Mapping[str, Any],
        tool: str,
        arguments: Any,
        approval: ApprovalNeed | None = None,
    ) -> CallVerdict:
        """Decide about a call by an agent's compiled rules, and by what its tool says.

        Without rules every call passes that no tool wants to be approved.
        """
        own = prepared.get(SECTION)
        rules = _NO_RULES if own is None else own.rules
        verdict = decide(rules, call_of(tool, arguments))
        verdict = apply_approval(verdict, is_needed=approval is ApprovalNeed.NEEDED)
        return CallVerdict(behavior=verdict.behavior, rule=verdict.rule_text, approval=approval)

    def rules_of(self, prepared: Mapping[str, Any]) -> Any:
        """Return all rules of an agent as one section, those of its plugin included."""
        own = prepared.get(SECTION)
        return _PASS_ALL if own is None else msgspec.to_builtins(own.config)

    def add_section(self, prepared: Mapping[str, Any], section: Any, what: str) -> Any:
        """Return the rules that an agent would have with another section.

        Raises:
            InvalidInput: The section is malformed.
        """
        own = prepared.get(SECTION)
        if own is None:
            return section
        return msgspec.to_builtins(own.own.add_section(_decode_section(section, what)))

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
        return compile_rules(_decode_section(section, what)).rules
    except RefusedRule as error:
        raise InvalidInput(what=what, problem=str(error).removesuffix(".")) from error


def _decode_section(section: Any, what: str) -> PermissionConfig:
    try:
        return msgspec.convert(section, PermissionConfig)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(what=what, problem=str(error).removesuffix(".")) from error
