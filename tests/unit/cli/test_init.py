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
from awaken.cli.init import FILES, KEPT

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
        ("openai:x\nEVIL=1", "is no name of a model; write openai:MODEL."),
        ("openai:gpt-5$x", "'openai:gpt-5$x' is no name of a model; write openai:MODEL."),
    ],
)
def test_a_model_of_no_provider_is_refused(
    call: Call, tmp_path: Path, model: str, hint: str
) -> None:
    done = call("init", "--model", model)
    assert (done.code, hint in done.err) == (2, True), done.err
    assert f"did you mean '{model}'" not in done.err
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
    assert all(name in again.err for name in FILES if name not in KEPT)
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


@pytest.mark.parametrize("name", ["./my-agent", "my-agent/", "./my-agent//"])
def test_a_name_may_have_the_slashes_of_a_shell(call: Call, tmp_path: Path, name: str) -> None:
    done = call("init", name)
    assert (done.code, done.err) == (0, "")
    assert "  cd my-agent\n" in done.out
    assert (tmp_path / "my-agent" / "agent.py").is_file()


@pytest.mark.parametrize("words", [["init"], ["init", "."], ["init", "./"], ["init", "--here"]])
def test_a_repository_without_files_counts_as_empty(
    call: Call, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / ".git").mkdir()
    done = call(*words)
    assert done.code == 0, done.err
    assert {it.name for it in tmp_path.iterdir()} == {".git", *FILES}
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    assert call("init", "inner").code == 0


@pytest.mark.parametrize(("ignored", "steps"), [(".env\n*.pyc\n", 0), ("*.pyc\n", 1)])
def test_a_fresh_clone_keeps_its_own_files_and_is_told_what_hides_keys(
    call: Call, tmp_path: Path, ignored: str, steps: int
) -> None:
    own = {"README.md": "# Mine\n", ".gitignore": ignored, "LICENSE": "free"}
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    assert "`awaken init --here` adds the files" in call("init").err
    done = call("init", "--here")
    assert (done.code, done.err) == (0, "")
    assert "Kept .gitignore, README.md." in done.out
    assert done.out.count("printf '\\n.env\\n' >> .gitignore") == steps
    assert {name: (tmp_path / name).read_text() for name in own} == own
    assert set(FILES) <= {it.name for it in tmp_path.iterdir()}


def test_what_is_in_the_way_is_named_with_a_way_out(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "agent.py").touch()
    assert "'file' is a file; choose another name" in call("init", "file").err
    assert "'link' is a link to nothing; choose another name" in call("init", "link").err
    assert "`cd full` and `awaken init --here`" in call("init", "full").err
    assert call("init", "link").code == 2
