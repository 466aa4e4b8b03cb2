"""The chaos stages work and pass at a tiny size, and their planted bugs still fit the source."""

import os
import re
import subprocess
import sys

import pytest

from .chaos_mutants import planted
from .mutants import ROOT
from .schedule_sweep import SCENARIOS
from .starvation import cases

STAGES = (
    "schedule_sweep --schedules 300",
    "pgchaos --restarts 2 --cuts 6",
    "starvation --only skewed",
    "leaks --runs 60",
)
BOUND_S = 50


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_passes_and_says_what_it_did(stage: str) -> None:
    ended = _run(stage)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    name = stage.split()[0]
    counts = re.search(rf"^{name}: (\d+) passed, 0 failed$", ended.stdout, re.MULTILINE)
    assert counts is not None, ended.stdout
    assert int(counts[1]) > 1


def test_a_failing_schedule_is_played_again_by_the_command_that_is_shown() -> None:
    ended = _run("schedule_sweep --scenarios late_commit --seed 7 --schedules 1 --lanes 1")
    assert "late_commit: 1 schedules" in ended.stdout


def test_every_planted_bug_still_applies_to_the_source() -> None:
    assert len(planted()) >= 8
    for mutant in planted():
        for name, old, new in mutant.edits:
            text = (ROOT / "src" / "awaken" / name).read_text("utf-8")
            assert text.count(old) == 1, f"{mutant.name}: {name} does not have {old!r} once"
            assert old != new


def test_there_are_as_many_scenarios_and_cases_as_promised() -> None:
    assert len(SCENARIOS) >= 12
    assert len(cases()) >= 20


def _run(stage: str) -> "subprocess.CompletedProcess[str]":
    name, *options = stage.split()
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", f"tests.torture.{name}", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
