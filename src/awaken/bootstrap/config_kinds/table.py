"""Every kind, by namespace."""

from awaken.contracts.config.kinds import ConfigKind

from .agents import AGENTS
from .models import MODEL_POOLS, MODELS, PROVIDERS
from .others import BUDGETS, RULESETS, SCORERS, SKILLS, TOOLS
from .servers import A2A_SERVERS, MCP_SERVERS
from .wire_forms import build_kind


def config_kinds() -> dict[str, ConfigKind]:
    """Make the table of kinds, by namespace."""
    forms = (
        AGENTS, MODELS, MODEL_POOLS, PROVIDERS, MCP_SERVERS, A2A_SERVERS, SKILLS, TOOLS, RULESETS,
        BUDGETS, SCORERS,
    )  # fmt: skip
    return {form.name: build_kind(form) for form in forms}
