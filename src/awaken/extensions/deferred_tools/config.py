"""The section `deferred_tools`: which tools are deferred, and when loaded ones are again."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta

from awaken.contracts.record import StrictRecord

SECTION = "deferred_tools"
TOOL_SEARCH = "ToolSearch"

NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class LoadMode(StrEnum):
    """Whether a tool is in every request."""

    EAGER = "eager"
    DEFERRED = "deferred"


class LoadRule(StrictRecord, frozen=True, kw_only=True):
    """How tools that match an id or a glob are loaded."""

    tool: Annotated[str, Meta(min_length=1)]
    mode: LoadMode


class DiscountedBeta(StrictRecord, frozen=True, kw_only=True):
    """When a loaded tool that the model does not call is deferred again."""

    omega: Annotated[float, Meta(gt=0, le=1)] = 0.95
    """The weight of an observation one turn later."""
    n0: Positive = 5.0
    """The weight of the prior, in turns of observation."""
    defer_after: Annotated[int, Meta(ge=1)] = 5
    """Turns without a call before a tool may be deferred again."""
    thresh_mult: NotNegative = 0.5
    """The factor below break-even that a tool's use has to reach."""
    gamma: NotNegative = 2000.0
    """The cost of searching for a tool, in tokens; with 0 no tool is ever deferred again."""


class DeferredToolsConfig(StrictRecord, frozen=True, kw_only=True):
    """The section `deferred_tools` of an agent."""

    section: ClassVar[str] = SECTION

    enabled: bool | None = None
    """Absent: tools are deferred if that saves more than `beta_overhead`."""
    rules: tuple[LoadRule, ...] = ()
    """The first rule that matches a tool decides."""
    default_mode: LoadMode = LoadMode.DEFERRED
    beta_overhead: NotNegative = 1136.0
    """The cost of `ToolSearch` and the list of deferred tools in every request, in tokens."""
    agent_priors: Mapping[str, Share] = {}
    """The share of turns in which a tool is called, by tool id, until the agent has learned it."""
    disc_beta: DiscountedBeta = DiscountedBeta()
