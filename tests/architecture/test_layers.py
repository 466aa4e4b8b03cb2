"""The import rules of pyproject.toml hold, type-checking imports included."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_point_down_the_layers() -> None:
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
