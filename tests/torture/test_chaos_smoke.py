"""The chaos stages work and pass at a tiny size, and their planted bugs still fit the source."""

import pytest
from tests.sampling import long

from .chaos_mutants import planted
from .schedule_sweep import SCENARIOS
from .smoke import check_planted, check_stage
from .starvation import cases

# Many processes: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)

STAGES = (
    "schedule_sweep --schedules 300",
    "pgchaos --restarts 2 --cuts 6",
    "starvation --only skewed",
    "leaks --runs 60",
    "control_races --races 30",
    "control_kills --kills 2",
    "cluster_chaos --faults 6 --carriers nats,none",
)


@long
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_passes_and_says_what_it_did(stage: str) -> None:
    assert check_stage(stage)


def test_a_failing_schedule_is_played_again_by_the_command_that_is_shown() -> None:
    shown = check_stage("schedule_sweep --scenarios late_commit --seed 7 --schedules 1 --lanes 1")
    assert "late_commit: 1 schedules" in shown


def test_every_planted_bug_still_applies_to_the_source() -> None:
    check_planted(planted(), least=8)


def test_there_are_as_many_scenarios_and_cases_as_promised() -> None:
    assert len(SCENARIOS) >= 12
    assert len(cases()) >= 20
