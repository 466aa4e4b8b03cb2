"""`awaken completion`: a script for each shell, and lists that import no command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from awaken.cli import completion
from awaken.cli.command_line import MODULES

from .conftest import Call


@pytest.mark.parametrize("shell", completion.Shell)
def test_every_shell_has_a_script_that_asks_this_program(call: Call, shell: str) -> None:
    done = call("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "_AWAKEN_COMPLETE" in done.out
    assert f"complete_{shell}" in done.out


def test_completing_the_name_of_a_command_imports_none(tmp_path: Path) -> None:
    code = (
        "import atexit, sys\n"
        "from awaken.cli.main import app\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(sys.modules)))\n"
        "app()\n"
    )
    asked = {"_AWAKEN_COMPLETE": "complete_bash", "COMP_WORDS": "awaken d", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [name for name in MODULES if name.startswith("d")]
    loaded = set(done.stderr.splitlines())
    assert not {f"awaken.cli.{name}" for name in MODULES.values()} & loaded


def test_it_is_installed_where_the_shell_reads_it(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = call("completion", "bash", "--install")
    assert done.code == 0, done.err
    script = tmp_path / ".bash_completions" / "awaken.sh"
    assert str(script) in done.out
    assert "_AWAKEN_COMPLETE" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
    # It would permit unsigned scripts of any kind.
    refused = call("completion", "powershell", "--install")
    assert (refused.code, "$PROFILE" in refused.err) == (2, True)


def test_a_shell_that_is_not_known_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("nushell", "/bin/nu"))
    done = call("completion")
    assert (done.code, "'nushell' is none of bash, zsh" in done.err) == (2, True)
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("zsh", "/bin/zsh"))
    assert "#compdef awaken" in call("completion").out
