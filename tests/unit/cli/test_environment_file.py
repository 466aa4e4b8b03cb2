"""`.env`: read by commands in the current folder, weaker than the environment, never shown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import run_python

from awaken.cli import reload
from awaken.cli.environment_file import (
    BYTES_MAX,
    forget_loaded,
    list_loaded,
    load_environment_file,
    read_environment_file,
)
from awaken.contracts.errors import InvalidInput

SECRET = "sk-canary-0123456789"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A=b", "b"),
        ("  A = b c  ", "b c"),
        ("A=", ""),
        ("A=b # comment", "b"),
        ("A=b#c", "b#c"),
        ("A=#", ""),
        ("A='b # c'  # d", "b # c"),
        ("A='$B \\n'", "$B \\n"),
        ('A="b\\nc \\"d\\" \\\\ \\q"', 'b\nc "d" \\ \\q'),
        ('A="b\nc"', "b\nc"),
        ("A=$B", "$B"),
        ("A=it's", "it's"),
        ("A=1\nA=2", "2"),
        ("\ufeffA=b\r\n", "b"),
        ("# A=c\n\nA=b\n", "b"),
    ],
)
def test_a_value_is_read_as_it_is_meant(tmp_path: Path, line: str, value: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(line.encode())
    assert read_environment_file(path) == {"A": value}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"A=b\n{SECRET}\n", "line 2"),
        (f'A="{SECRET}\n', "line 1"),
        (f"A='x' {SECRET}", "line 1"),
        (f"1A={SECRET}", "line 1"),
        (f"A={SECRET}\0", "NUL"),
        ("A=" + "x" * BYTES_MAX, "larger"),
    ],
)
def test_a_malformed_file_is_named_and_its_text_is_not_shown(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / ".env"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_environment_file(path)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"A=\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_environment_file(path)


def test_the_environment_counts_more_and_what_was_loaded_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWAKEN_TEST_OWN", "mine")
    monkeypatch.delenv("AWAKEN_TEST_NEW", raising=False)
    (tmp_path / ".env").write_text("AWAKEN_TEST_OWN=other\nAWAKEN_TEST_NEW=new\n")
    load_environment_file()
    try:
        assert os.environ["AWAKEN_TEST_OWN"] == "mine"
        assert os.environ["AWAKEN_TEST_NEW"] == "new"
        assert list_loaded() == {"AWAKEN_TEST_NEW"}
    finally:
        forget_loaded()
    assert "AWAKEN_TEST_NEW" not in os.environ


def awaken(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return run_python("-m", "awaken", *arguments, cwd=folder, env={**own, **variables})


def test_commands_read_the_file_and_never_print_a_value(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"MISTRAL_API_KEY={SECRET}\n")
    listed = awaken(tmp_path, "models", "list", "--json")
    assert '"has_key": true' in listed.stdout
    checked = awaken(tmp_path, "doctor", AWAKEN_HTTP_ADDR="127.0.0.1:0")
    assert "MISTRAL_API_KEY" in checked.stdout
    assert SECRET not in listed.stdout + listed.stderr + checked.stdout + checked.stderr
    switched_off = awaken(tmp_path, "models", "list", "--json", AWAKEN_ENV_FILE="")
    assert '"has_key": true' not in switched_off.stdout
    (tmp_path / "other").write_text(f"MISTRAL_API_KEY={SECRET}\n")
    named = awaken(tmp_path, "models", "list", "--json", AWAKEN_ENV_FILE="other")
    assert '"has_key": true' in named.stdout
    missing = awaken(tmp_path, "models", "list", AWAKEN_ENV_FILE="gone")
    assert (missing.returncode, "gone" in missing.stderr) == (2, True)


def test_a_malformed_file_stops_the_commands_that_need_it_and_no_other(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{SECRET}\n")
    refused = awaken(tmp_path, "models", "list")
    assert refused.returncode == 2
    assert ".env', line 1" in refused.stderr
    assert SECRET not in refused.stderr
    for words in (["--help"], ["completion", "bash"], ["init", "project"]):
        done = awaken(tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_the_library_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AWAKEN_TEST_NEW=1\n")
    program = (
        "import os, awaken, awaken.server;"
        "awaken.AgentRuntime([awaken.Agent('a', model='scripted')]);"
        "print(os.environ.get('AWAKEN_TEST_NEW'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert done.stdout == "None\n"


def test_a_process_that_restarts_reads_the_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWAKEN_TEST_NEW", raising=False)
    (tmp_path / ".env").write_text("AWAKEN_TEST_NEW=before\n")
    load_environment_file()
    seen: list[bool] = []
    monkeypatch.setattr(reload.os, "execv", lambda *_: seen.append("AWAKEN_TEST_NEW" in os.environ))
    reload.restart_process(None)
    assert seen == [False]
