"""Which tools of an agent are deferred, and when loaded ones are again: `deferred_tools`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

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
    """How the tools of an id, or of a glob, are loaded."""

    tool: Annotated[str, Meta(min_length=1)]
    mode: LoadMode


class DiscountedBeta(StrictRecord, frozen=True, kw_only=True):
    """When a loaded tool that nobody calls is deferred again."""

    omega: Annotated[float, Meta(gt=0, le=1)] = 0.95
    """What an observation is still worth one turn later."""
    n0: Positive = 5.0
    """How many turns of observation the prior is worth."""
    defer_after: Annotated[int, Meta(ge=1)] = 5
    """Turns without a call before a tool may be deferred again."""
    thresh_mult: NotNegative = 0.5
    """How far below break-even a tool's use has to be."""
    gamma: NotNegative = 2000.0
    """What searching for a tool costs, in tokens; with 0 nothing is ever deferred again."""


class DeferredToolsConfig(StrictRecord, frozen=True, kw_only=True):
    """The section `deferred_tools` of an agent."""

    enabled: bool | None = None
    """Absent: if deferring saves more than `beta_overhead`."""
    rules: tuple[LoadRule, ...] = ()
    """The first rule that matches a tool decides."""
    default_mode: LoadMode = LoadMode.DEFERRED
    beta_overhead: NotNegative = 1136.0
    """What `ToolSearch` and the list of deferred tools cost in every request, in tokens."""
    agent_priors: Mapping[str, Share] = {}
    """In which share of the turns a tool is called, by tool id, until the agent has learned it."""
    disc_beta: DiscountedBeta = DiscountedBeta()
