"""The pattern language for tool calls in rules: `Bash(command ~ "git *")`.

Belongs here: parsing patterns, and matching calls. A rule that denies or asks uses `may_match`, a
rule that allows uses `must_match`; `conditions.py` explains why there are two. Does not: what
follows from a match. May import: contracts, and RE2, which runs every expression.
"""

from .calls import PatternCall, call_of
from .conditions import Condition, ConditionKind, ValueTest
from .errors import PatternError
from .globs import compile_tool_glob
from .grammar import parse_condition, parse_pattern
from .index import PatternIndex
from .readings import read_value
from .regexes import Regex, compile_regex
from .tool_pattern import ToolPattern

__all__ = [
    "Condition",
    "ConditionKind",
    "PatternCall",
    "PatternError",
    "PatternIndex",
    "Regex",
    "ToolPattern",
    "ValueTest",
    "call_of",
    "compile_regex",
    "compile_tool_glob",
    "parse_condition",
    "parse_pattern",
    "read_value",
]
