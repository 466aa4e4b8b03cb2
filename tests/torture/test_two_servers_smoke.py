"""The stage with two servers works and passes at a tiny size, and its planted bugs still fit."""

import pytest
from tests.sampling import long

from .smoke import check_planted, check_stage
from .two_servers_mutants import planted


@long
@pytest.mark.timeout(180)
def test_two_servers_of_which_each_is_killed_lose_nothing() -> None:
    shown = check_stage("two_servers --rounds 2 --runs 5 --victims both --seconds 3")
    assert "runs ended: far" in shown


def test_every_bug_planted_between_two_servers_still_applies_to_the_source() -> None:
    check_planted(planted(), least=8)
