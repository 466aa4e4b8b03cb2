"""How often an agent calls its tools, learned from its runs and kept in the profile store."""

import functools
from collections.abc import Mapping

from awaken.contracts.plugins.plugin import PhaseContext, RunEndContext
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileKey, agent_type_scope

from .catalog import DeferredCatalog
from .state import LOADED_TOOLS, TOOL_USE, ToolUsage

LEAST_WEIGHT = 0.1
"""The minimum weight of the latest run."""
REMEMBERED = 1_000
"""How many tools are stored for an agent: those that it calls most."""


class Learned(Record, frozen=True, kw_only=True):
    """How often an agent called its tools, over its runs."""

    runs: int = 0
    presence: Mapping[str, float] = {}
    """The share of a run's turns in which a tool is called, as a moving average over runs."""


LEARNED: ProfileKey[Learned] = ProfileKey("deferred_tools.learned", default=Learned(), type=Learned)


async def load_expected_use(context: PhaseContext, catalog: DeferredCatalog) -> dict[str, float]:
    """The expected call rate of the agent's deferred tools: as learned, else as configured."""
    expected: dict[str, float] = dict(catalog.config.agent_priors)
    if context.profile is not None:
        learned = await context.profile.read(LEARNED, agent_type_scope(context.agent.id))
        expected.update(learned.presence)
    return {tool_id: expected[tool_id] for tool_id in sorted(expected) if tool_id in catalog.tools}


async def learn(context: RunEndContext) -> None:
    """Update the statistics of every agent that took turns in the run."""
    if context.profile is None:
        return
    conversations = context.state(LOADED_TOOLS)
    for agent_id, use in context.state(TOOL_USE).items():
        turns = conversations[agent_id].turn - use.since
        if use.priors or use.calls:
            change = functools.partial(learn_from_run, use=use, turns=turns)
            await context.profile.change(LEARNED, agent_type_scope(agent_id), change)


def learn_from_run(before: Learned, *, use: ToolUsage, turns: int) -> Learned:
    """The statistics after one more run; tools that it could not call keep their value."""
    weight = max(LEAST_WEIGHT, 1 / (before.runs + 1))
    presence = dict(before.presence)
    for tool_id in {*use.priors, *use.calls}:
        known = presence.get(tool_id, use.priors.get(tool_id, 0.0))
        now = len(use.calls.get(tool_id, ())) / turns
        presence[tool_id] = (1 - weight) * known + weight * now
    return Learned(runs=before.runs + 1, presence=_most_called(presence))


def _most_called(presence: Mapping[str, float]) -> dict[str, float]:
    ranked = sorted(presence, key=lambda tool_id: (-presence[tool_id], tool_id))
    return {tool_id: presence[tool_id] for tool_id in sorted(ranked[:REMEMBERED])}
