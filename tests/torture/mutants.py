"""Test the tests: plant each bug of `mutants.toml` in a copy of the source, and see it caught.

`python -m tests.torture.mutants` plants all, `--rotate 4` some that change with the seed. A stage
that fails without any bug catches nothing, so every stage first has to pass.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from awaken.contracts.record import Record

from .lanes import scratch, spread
from .report import finish

ROOT = Path(__file__).parents[2]
BUGS = Path(__file__).with_name("mutants.toml")
STAGE_S = 120
STALE = "does not apply"
_SUMMARY = re.compile(r"passed, [1-9][0-9]* failed|^FAILED ", re.MULTILINE)
"""How a stage says that it found something; pytest has its own way."""


class Mutant(Record, frozen=True, kw_only=True):
    """A planted bug."""

    name: str
    stage: str
    edits: tuple[tuple[str, str, str], ...] = ()


class Verdict(Record, frozen=True, kw_only=True):
    """What became of it: `caught`, `missed`, or why it could not be planted."""

    mutant: Mutant
    outcome: str


def main() -> None:
    """Plant, and exit with 1 when a bug was missed."""
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("--rotate", type=int, default=0, help="how many; 0 means all")
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    chosen = [mutant for mutant in planted() if args.only in mutant.name]
    if args.rotate:
        chosen = random.Random(args.seed).sample(chosen, min(args.rotate, len(chosen)))
    stages = list(dict.fromkeys(mutant.stage for mutant in chosen))
    sound = [Mutant(name="no bug", stage=stage) for stage in stages]
    verdicts = [it for found in spread(_tried, [*sound, *chosen], args.lanes) for it in found]
    failures = []
    for verdict in sorted(verdicts, key=lambda it: (bool(it.mutant.edits), it.mutant.name)):
        wanted = "caught" if verdict.mutant.edits else "missed"
        is_sound = not verdict.mutant.edits and verdict.outcome == wanted
        shown = "passes" if is_sound else verdict.outcome
        print(f"  {shown:15} {verdict.mutant.name:50} {verdict.mutant.stage}")
        if verdict.outcome != wanted:
            failures.append(f"{verdict.mutant.name}: {verdict.outcome} by {verdict.mutant.stage}")
    counts = {"planted": len(chosen), "stages that pass without a bug": len(sound)}
    finish("mutants", args.seed, counts, len(verdicts) - len(failures), failures)


def planted() -> list[Mutant]:
    """Every planted bug."""
    found = tomllib.loads(BUGS.read_text("utf-8"))["mutant"]
    return [
        Mutant(name=it["name"], stage=it["stage"], edits=tuple(map(tuple, it["edits"])))
        for it in found
    ]


def _tried(mutants: Sequence[Mutant]) -> list[Verdict]:
    return [Verdict(mutant=mutant, outcome=_outcome(mutant)) for mutant in mutants]


def _outcome(mutant: Mutant) -> str:
    with scratch() as folder:
        source = folder / "src"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", source, ignore=ignored)
        for name, old, new in mutant.edits:
            file = source / "awaken" / name
            text = file.read_text("utf-8")
            if text.count(old) != 1:
                return STALE
            file.write_text(
                text.replace(old, new.removeprefix("\n") if old.endswith("\n") else new)
            )
        return _run(mutant.stage, source)


def _run(stage: str, source: Path) -> str:
    """Run a stage on a source tree; to break down instead of finding something is no catch."""
    name, *options = stage.split()
    if name == "pytest":
        options[0] = str(ROOT / "tests" / options[0])
        command = ["pytest", "-x", "-q", "-p", "no:cacheprovider", *options]
    else:
        command = [f"tests.torture.{name}", *options]
    path = os.pathsep.join((str(source), str(ROOT)))
    ended = subprocess.run(
        [sys.executable, "-B", "-m", *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=STAGE_S,
        check=False,
    )
    if ended.returncode == 0:
        return "missed"
    is_told = ended.returncode == 1 and _SUMMARY.search(ended.stdout)
    return "caught" if is_told else f"broken: {ended.stderr[-200:]}"


if __name__ == "__main__":
    main()
