"""The tutorial from an incident to a gate, typed by a stranger: files, and commands in a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "from-an-incident-to-a-gate.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND_S = 120


@pytest.mark.timeout(600)
def test_every_line_of_the_tutorial_can_be_typed(tmp_path: Path) -> None:
    found = _FENCE.findall(PAGE.read_text("utf-8"))
    agents, *incident = [code for language, code in found if language == "python"]
    commands = [code for language, code in found if language == "bash"]
    (tmp_path / "agents.py").write_text(agents)
    (tmp_path / "incident.py").write_text("\n\n".join(incident))
    codes = []
    for line in "".join(commands).splitlines():
        done = run_line(line, tmp_path)
        codes.append(done.returncode)
        assert "Traceback" not in done.stderr, done.stderr
    # The incident, the gate that fails, the fix, and the gate that passes.
    assert codes == [0, 1, 0, 0]
    assert "<testsuite" in (tmp_path / "junit.xml").read_text()
    assert sorted(it.name for it in (tmp_path / "evals" / "refunds" / "cases").iterdir())


def run_line(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a person types it, with the programs of this environment first."""
    programs = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": programs + os.pathsep + os.environ["PATH"]}
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
