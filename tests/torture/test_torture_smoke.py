"""The stages of the store work and pass at a tiny size, and their planted bugs still fit."""

import pytest
from tests.sampling import choose_size, long

from .mutants import planted
from .smoke import check_planted, check_stage

# Many processes: on a busy machine they take their time.
pytestmark = pytest.mark.timeout(180)

STAGES = (
    "sweep --failpoints --scenarios approval,dying --points 40",
    "sweep --layer store --scenarios queue,family --points 30",
    "kill9 --cycles 40",
    "powerloss --trials 80",
    "mutants --only NORMAL --lanes 2",
)


def test_a_publish_is_whole_or_absent_wherever_its_process_is_killed() -> None:
    assert check_stage(f"config_kills --points {choose_size(40, 0)} --postgres 12")


@long
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_passes_and_says_what_it_did(stage: str) -> None:
    assert check_stage(stage)


def test_every_planted_bug_still_applies_to_the_source() -> None:
    check_planted(planted(), least=12)
