"""All cases of the tests of which `make test` runs a sample or nothing (see `tests/sampling.py`).

python -m tests.torture everything             all of them
python -m tests.torture everything -k cut      with arguments of pytest
"""

import os
import subprocess
import sys

from tests.sampling import VARIABLE

from .mutants import ROOT


def main() -> None:
    """Run the tests with a mark of a lane, spread over the cores."""
    marked = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "tests.sampling" in path.read_text("utf-8")
    ]
    options = ["-n", "auto", "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *options, *sys.argv[1:], *marked]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {VARIABLE: "1"}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
