"""A parsed tool pattern: which tool, and which arguments."""

from itertools import repeat
from typing import Any

from .calls import PatternCall
from .conditions import PRECISION, Condition, ConditionKind, build_matcher
from .errors import PatternError
from .globs import Glob
from .regexes import Regex
from .schemas import path_problem

Specificity = tuple[int, int, int, int]
_LONGEST_ID = 1_024
"""Names up to this length are always searched, so that no denial can miss a tool."""


class ToolName:
    """The tool name or names that a pattern matches.

    Raises:
        PatternError: The text is not a valid glob or regular expression.
    """

    __slots__ = ("_matcher", "kind", "text")

    def __init__(self, kind: ConditionKind, text: str) -> None:
        self.kind = kind
        self.text = text
        self._matcher = build_matcher(kind, text)
        if isinstance(self._matcher, Regex) and self._matcher.limit < _LONGEST_ID:
            raise PatternError(
                pattern=text,
                position=0,
                problem="the expression is too large for a name; repeat less in it",
            )

    @property
    def prefix(self) -> str:
        """The common prefix of all matching tool names."""
        return self._matcher.prefix if isinstance(self._matcher, Glob) else ""

    def matches(self, tool_id: str) -> bool:
        """Whether the pattern matches this tool id."""
        return self._matcher.matches(tool_id.encode(errors="replace"), otherwise=False)


class ToolPattern:
    """A compiled pattern. Equal patterns have equal `text`, which `parse_pattern` can parse."""

    __slots__ = ("conditions", "specificity", "text", "tool")

    def __init__(self, tool: ToolName, conditions: tuple[Condition, ...]) -> None:
        shown = f"/{tool.text}/" if tool.kind is ConditionKind.REGEX else tool.text
        arguments = ", ".join(condition.text for condition in conditions)
        self.tool = tool
        self.conditions = conditions
        self.text = f"{shown}({arguments})" if conditions else shown
        """The canonical form, for example as the key of a rule."""
        self.specificity: Specificity = (
            PRECISION[tool.kind],
            int(bool(conditions)),
            len(conditions),
            min(255, sum(PRECISION[condition.kind] for condition in conditions)),
        )
        """The greater of two patterns is the more specific one."""

    @property
    def has_arguments(self) -> bool:
        """Whether it has conditions on the arguments."""
        return bool(self.conditions)

    def matches_tool(self, tool_id: str) -> bool:
        """Whether it matches this tool, whatever the arguments."""
        return self.tool.matches(tool_id)

    def may_match(self, call: PatternCall) -> bool:
        """Whether the call possibly matches; for rules that deny or ask."""
        return self.matches_tool(call.tool_id) and self.may_match_arguments(call)

    def must_match(self, call: PatternCall) -> bool:
        """Whether the call certainly matches; for rules that allow."""
        return self.matches_tool(call.tool_id) and self.must_match_arguments(call)

    def may_match_arguments(self, call: PatternCall) -> bool:
        """Like `may_match`, for a call whose tool is known to match."""
        return all(map(Condition.may_match, self.conditions, repeat(call)))

    def must_match_arguments(self, call: PatternCall) -> bool:
        """Like `must_match`, for a call whose tool is known to match."""
        return all(map(Condition.must_match, self.conditions, repeat(call)))

    def problems(self, schema: Any) -> tuple[str, ...]:
        """The conditions that no arguments that fit the tool's JSON Schema can meet, as texts."""
        found = (path_problem(it.path, schema) for it in self.conditions if it.path is not None)
        return tuple(problem for problem in found if problem)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolPattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"ToolPattern({self.text!r})"
