"""How a runtime takes part in managed configuration: what `AgentRuntime(managed=…)` is given."""

import msgspec

from .publish_rules import PublishRules


class ManagedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a runtime takes part in managed configuration."""

    rules: PublishRules = PublishRules()
    """What must hold before a change becomes live."""
    publication: int | None = None
    """The publication that this process stays on, for rescue; None follows the head."""
