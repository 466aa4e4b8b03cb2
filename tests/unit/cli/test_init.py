"""`awaken init`: the project works as printed, with what a plain install brings."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.server.processes import clean_environment
from tests.server.test_plain_install import plain_program

from awaken.cli import init
from awaken.cli.environment_file import read_environment_file
from awaken.cli.init import FILES

from .conftest import Call

WAIT_S = 60
UNITTEST = "import unittest; unittest.main(module=None, argv=['python -m unittest', 'discover'])"


def run_plain(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import what a plain install brings, and the current folder."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip


def test_a_new_project_is_tested_talks_and_serves_as_printed(tmp_path: Path) -> None:
    awaken = plain_program()
    made = run_plain(tmp_path, awaken, "init")
    assert made.returncode == 0, made.stderr
    for printed in ("-m unittest", "awaken chat agent.py", "awaken serve agent.py"):
        assert printed in made.stdout
        assert printed in (tmp_path / "README.md").read_text()
    without_awaken = awaken.partition("from awaken.cli")[0]
    tested = run_plain(tmp_path, without_awaken + UNITTEST)
    assert tested.returncode == 0, tested.stderr
    assert "Ran 1 test" in tested.stderr
    talked = subprocess.run(
        [sys.executable, "-c", awaken, "chat", "agent.py"],
        cwd=tmp_path, env=clean_environment(), input="RUN_WEATHER_TOOL\n", capture_output=True,
        text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert "sunny in Tokyo" in talked.stdout, talked.stderr
    assert answer_of_server(tmp_path, awaken) == "run_finish"


def answer_of_server(folder: Path, awaken: str) -> str:
    """Serve the project, ask it once, and return the type of the last event."""
    command = [sys.executable, "-c", awaken, "serve", "agent.py", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            message = {"role": "user", "content": "RUN_WEATHER_TOOL"}
            body = json.dumps({"agentId": "assistant", "messages": [message]}).encode()
            request = urllib.request.Request(
                f"{url}/v1/runs", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
                text = reply.read().decode()
        finally:
            process.send_signal(signal.SIGTERM)
    assert "sunny in Tokyo" in text
    data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return str(json.loads(data[-1])["event_type"])


def test_the_files_of_a_project_fit_each_other(call: Call, tmp_path: Path) -> None:
    done = call("init", "my-agent", "--model", "anthropic:claude-sonnet-4-5", "--json")
    assert done.code == 0, done.err
    assert done.document == {"folder": str(tmp_path / "my-agent"), "files": list(FILES)}
    folder = tmp_path / "my-agent"
    assert sorted(it.name for it in folder.iterdir()) == sorted(FILES)
    assert read_environment_file(folder / ".env") == {
        "MODEL": "anthropic:claude-sonnet-4-5",
        "ANTHROPIC_API_KEY": "",
    }
    assert (folder / ".env").stat().st_mode & 0o077 == 0
    assert ".env" in (folder / ".gitignore").read_text().splitlines()
    assert ".env" in (folder / ".dockerignore").read_text().splitlines()
    docker = (folder / "Dockerfile").read_text()
    assert 'CMD ["awaken", "serve", "agent.py", "--host", "0.0.0.0"]' in docker
    assert not any("${" in (folder / name).read_text() for name in FILES)


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "/tmp/a", "-a", "1a", "a b", "é", "nul", "a" * 64, "a\x1b[31m"]
)
def test_a_name_that_is_no_name_of_a_folder_is_refused(
    call: Call, tmp_path: Path, name: str
) -> None:
    done = call("init", "--", name)
    assert (done.code, done.out) == (2, "")
    assert "\x1b" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("gpt-5-mini", "did you mean 'openai:gpt-5-mini'?"),
        ("opnai:gpt-5", "did you mean 'openai:gpt-5'?"),
        ("openai:x\nEVIL=1", "no provider:model"),
    ],
)
def test_a_model_of_no_provider_is_refused(
    call: Call, tmp_path: Path, model: str, hint: str
) -> None:
    done = call("init", "--model", model)
    assert (done.code, hint in done.err) == (2, True), done.err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(call: Call, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "not empty" in call("init").err
    (tmp_path / "agent.py").symlink_to("nowhere")
    refused = call("init", "--here")
    assert (refused.code, "agent.py already" in refused.err) == (2, True)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["agent.py", "notes.txt"]
    (tmp_path / "agent.py").unlink()
    assert call("init", "--here").code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    again = call("init", "--here")
    assert all(name in again.err for name in FILES)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert "exists already" in call("init", "other").err
    assert "cannot be combined" in call("init", "x", "--here").err


def test_a_disk_that_fails_leaves_nothing_behind(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, seen = os.open, []

    def fail(path: object, *arguments: int) -> int:
        seen.append(path)
        if len(seen) == 4:
            raise OSError(28, "No space left on device")
        return write(str(path), *arguments)

    monkeypatch.setattr(init.os, "open", fail)
    done = call("init", "my-agent")
    assert done.code == 2
    assert "No space left" in done.err
    assert list(tmp_path.iterdir()) == []
