"""The runtime stages of the torture suite work and pass at a tiny size."""

import os
import re
import subprocess
import sys

import pytest

from .mutants import ROOT
from .runtime_mutants import planted
from .runtime_scenarios import SCENARIOS

STAGES = (
    "runtime_sweep --limit 24 --again 0.2",
    "worker_kills --cycles 2 --clients 6",
)
BOUND_S = 60


@pytest.mark.parametrize("stage", STAGES)
def test_a_runtime_stage_passes_and_says_what_it_did(stage: str) -> None:
    name, *options = stage.split()
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.torture.{name}", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = re.search(rf"^{name}: (\d+) passed, 0 failed$", ended.stdout, re.MULTILINE)
    assert counts is not None, ended.stdout
    assert int(counts[1]) > 10
    assert f"{name}: seed 1" in ended.stdout


def test_there_are_scenarios_for_everything_a_client_can_ask_for() -> None:
    assert len(SCENARIOS) >= 12


def test_every_bug_planted_in_the_runtime_still_applies_to_the_source() -> None:
    mutants = planted()
    assert len(mutants) >= 10
    for mutant in mutants:
        for name, old, new in mutant.edits:
            text = (ROOT / "src" / "awaken" / name).read_text("utf-8")
            assert text.count(old) == 1, f"{mutant.name}: {name} does not have {old!r} once"
            assert old != new
