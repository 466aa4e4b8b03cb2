"""Every stage of the torture suite works and passes at a tiny size."""

import os
import re
import subprocess
import sys

import pytest

from .mutants import ROOT, planted

STAGES = (
    "sweep --failpoints --scenarios approval,dying --points 40",
    "sweep --layer store --scenarios queue,family --points 30",
    "kill9 --cycles 40",
    "powerloss --trials 80",
    "mutants --only NORMAL --lanes 2",
)
BOUND_S = 50


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_passes_and_says_what_it_did(stage: str) -> None:
    ended = _run(stage)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    name = stage.split()[0]
    counts = re.search(rf"^{name}.*: (\d+) passed, 0 failed$", ended.stdout, re.MULTILINE)
    assert counts is not None, ended.stdout
    assert int(counts[1]) > 1
    assert re.search(r": seed \d+$", ended.stdout, re.MULTILINE)


def test_every_planted_bug_still_applies_to_the_source() -> None:
    mutants = planted()
    assert len(mutants) >= 12
    for mutant in mutants:
        for name, old, new in mutant.edits:
            text = (ROOT / "src" / "awaken" / name).read_text("utf-8")
            assert text.count(old) == 1, f"{mutant.name}: {name} does not have {old!r} once"
            assert old != new


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
