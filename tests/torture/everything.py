"""All cases of the tests of which `make test` runs a sample or nothing (see `tests/sampling.py`).

python -m tests.torture everything             all of them
python -m tests.torture everything --rotate 6  every sixth file: today's part
python -m tests.torture everything -k cut      with arguments of pytest
"""

import argparse
import os
import subprocess
import sys

from tests.sampling import VARIABLE

from awaken.contracts.clock import SystemClock

from .mutants import ROOT

DAY_MS = 24 * 60 * 60 * 1000


def main() -> None:
    """Run the tests with a mark of a lane, spread over the cores."""
    parser = argparse.ArgumentParser(prog="everything")
    parser.add_argument("--rotate", type=int, default=1, help="a part of the files, by the day")
    args, rest = parser.parse_known_args()
    today = SystemClock().now_ms() // DAY_MS % args.rotate
    marked = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "tests.sampling" in path.read_text("utf-8")
    ]
    chosen = marked[today :: args.rotate]
    print(f"part {today + 1} of {args.rotate}: {len(chosen)} of {len(marked)} files", flush=True)
    options = ["-n", "auto", "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *options, *rest, *chosen]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {VARIABLE: "1"}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
