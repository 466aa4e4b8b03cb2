"""An MCP server that hangs, dies, floods, lies or changes under us costs a tool call, no more."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from tests.sampling import choose_cases, sampled

from .hostile_mcp_cases import cases
from .mcp_trials import Trial, trials

CASES = cases()
TOGETHER = 8


def batches() -> Iterator[Sequence[Trial]]:
    """All behaviours, several together, so that their waits overlap."""
    over = defaultdict(list)
    for case in CASES:
        for transport in case.over:
            over[transport, case.is_heavy].append(Trial(case, transport))
    for (_, is_heavy), found in over.items():
        size = 2 if is_heavy else TOGETHER
        yield from (found[at : at + size] for at in range(0, len(found), size))


def test_there_are_many_behaviours_with_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 200


@sampled
@pytest.mark.parametrize(
    "batch", choose_cases(list(batches()), 12), ids=lambda batch: f"{batch[0]} and on"
)
def test_a_bad_server_costs_a_tool_call_and_nothing_else(batch: Sequence[Trial]) -> None:
    async def scenario() -> None:
        async with trials(batch) as world:
            await world.play()
            if problems := world.problems():
                pytest.fail("\n".join(f"{name}: {it}" for name, it in problems.items()))

    asyncio.run(scenario())
