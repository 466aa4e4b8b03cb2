"""The table of kinds: every namespace of managed configuration, its spec and its HTTP form.

Belongs here: how a kind is written over HTTP, checked, and what it names. Does not: how records
become something that runs, which is the compiler's. Start with `wire_forms`, then any kind.
"""

from awaken.contracts.config.kinds import ConfigKind

from .agents import AGENTS
from .models import MODEL_POOLS, MODELS, PROVIDERS, SUPPORTED_ADAPTERS
from .others import BUDGETS, RULESETS, SKILLS, TOOLS
from .servers import A2A_SERVERS, MCP_SERVERS
from .wire_forms import build_kind

__all__ = ["SUPPORTED_ADAPTERS", "config_kinds"]


def config_kinds() -> dict[str, ConfigKind]:
    """Make the table of kinds, by namespace."""
    forms = (
        AGENTS, MODELS, MODEL_POOLS, PROVIDERS, MCP_SERVERS, A2A_SERVERS, SKILLS, TOOLS, RULESETS,
        BUDGETS,
    )  # fmt: skip
    return {form.name: build_kind(form) for form in forms}
