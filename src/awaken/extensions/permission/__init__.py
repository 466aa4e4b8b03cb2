"""Which tool calls are allowed, which need an approval, and which are denied.

Belongs here: rules over tools and their arguments, the one function that decides by them, the
gate that calls it, and the remembered answers of people. `PermissionPlugin` adds it to an agent;
`policy` compares rule sets over past calls.
"""

from awaken.patterns import PatternCall, PatternIndex, ToolPattern, call_of, parse_pattern

from .config import SECTION, OnDeny, PermissionConfig, RuleConfig, allow, ask, deny
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
    "allow",
    "ask",
    "call_of",
    "deny",
    "parse_pattern",
]
