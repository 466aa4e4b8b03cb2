"""A stage at a tiny size, as a test runs it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

from .mutants import ROOT, Mutant

BOUND_S = 170


def check_stage(stage: str) -> str:
    """Run a stage; it must pass, and say its seed and its counts. Returns what it printed."""
    name, *options = stage.split()
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.torture.{name}", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = re.search(rf"^{name}.*: (\d+) passed, 0 failed$", ended.stdout, re.MULTILINE)
    assert counts is not None, ended.stdout
    assert int(counts[1]) >= 1
    assert re.search(r": seed \d+$", ended.stdout, re.MULTILINE)
    return ended.stdout


def check_planted(mutants: Sequence[Mutant], least: int) -> None:
    """Every planted bug must still fit the source that it is planted in."""
    assert len(mutants) >= least
    for mutant in mutants:
        for name, old, new in mutant.edits:
            text = (ROOT / "src" / "awaken" / name).read_text("utf-8")
            assert text.count(old) == 1, f"{mutant.name}: {name} does not have {old!r} once"
            assert old != new
