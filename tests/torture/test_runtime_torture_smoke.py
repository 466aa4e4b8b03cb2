"""The runtime stages work and pass at a tiny size, and their planted bugs still fit."""

import pytest

from .runtime_mutants import planted
from .runtime_scenarios import SCENARIOS
from .smoke import check_planted, check_stage

# Many processes: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)

STAGES = (
    "runtime_sweep --limit 24 --again 0.2",
    "worker_kills --cycles 2 --clients 6",
)


@pytest.mark.parametrize("stage", STAGES)
def test_a_runtime_stage_passes_and_says_what_it_did(stage: str) -> None:
    assert check_stage(stage)


def test_there_are_scenarios_for_everything_a_client_can_ask_for() -> None:
    assert len(SCENARIOS) >= 12


def test_every_bug_planted_in_the_runtime_still_applies_to_the_source() -> None:
    check_planted(planted(), least=10)
