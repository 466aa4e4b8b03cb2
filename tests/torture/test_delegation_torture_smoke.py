"""The stages in which parents and children are killed work and pass at a tiny size."""

import pytest
from tests.sampling import long

from .delegation_scenarios import SCENARIOS
from .pair_sweep import BEGINNINGS
from .runtime_mutants import planted
from .smoke import check_stage

# Many processes: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)

STAGES = (
    "runtime_sweep --scenarios delegation --limit 16 --again 0.2",
    "pair_sweep --scenarios delegate-slowly --limit 4",
)
FEATURES = ("delegate", "tasks", "tell", "cancel")


@long
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_of_parents_and_children_passes_and_says_what_it_did(stage: str) -> None:
    assert check_stage(stage)


def test_there_are_scenarios_for_all_that_runs_set_going() -> None:
    for feature in FEATURES:
        assert any(name.startswith(feature) for name in SCENARIOS)
    assert set(BEGINNINGS) <= set(SCENARIOS)


def test_bugs_are_planted_for_both_stages() -> None:
    stages = [mutant.stage for mutant in planted()]
    names = [name for stage in stages for name in stage.partition("--scenarios ")[2].split(" ")[:1]]
    about = [name for group in names for name in group.split(",") if name in SCENARIOS]
    assert len(about) >= 12
    assert any(stage.startswith("pair_sweep") for stage in stages)
