"""Which tool calls may pass, which are asked about, and which are refused.

Belongs here: rules over tools and their arguments, the one function that decides by them, the
gate that asks it, and what people have answered before. `PermissionPlugin` puts it into an agent;
`policy` compares rule sets over calls of the past.
"""

from awaken.patterns import PatternCall, PatternIndex, ToolPattern, call_of, parse_pattern

from .config import SECTION, OnDeny, PermissionConfig, RuleConfig
from .plugin import PermissionPlugin

__all__ = [
    "SECTION",
    "OnDeny",
    "PatternCall",
    "PatternIndex",
    "PermissionConfig",
    "PermissionPlugin",
    "RuleConfig",
    "ToolPattern",
    "call_of",
    "parse_pattern",
]
