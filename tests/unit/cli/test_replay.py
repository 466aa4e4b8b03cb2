"""`awaken recording` and `awaken replay`: what they show, and their exit codes."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from awaken import AgentRuntime
from awaken.cli.apps import load_app
from awaken.cli.main import app

APP = """
from awaken import Agent, tool
from awaken.testing import ScriptedModel, ToolCalls

@tool
async def charge(amount: int) -> str:
    "Charge."
    return f"charged {amount}"

MODEL = ScriptedModel([ToolCalls([("charge", {"amount": 5})]), "Paid."], cycle=True)
agent = Agent("shop", model=MODEL, instructions="Sell.", tools=[charge])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(APP)

    async def fill() -> None:
        agents = load_app("shop.py").agents
        async with AgentRuntime(agents, store="sqlite:///awaken.db", has_worker=False) as runtime:
            await runtime.run("shop", "Buy, key sk-ant-api03-" + "a" * 90, run_id_hint="run-1")

    asyncio.run(fill())
    return tmp_path


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_a_recording_is_shown_and_is_a_document(folder: Path) -> None:
    shown = call("recording", "show", "run-1", "--app", "shop.py")
    assert shown.exit_code == 0, shown.stderr
    assert 'charge {"amount":5}' in shown.stdout
    assert "secrets.model_key" in shown.stdout
    document = json.loads(call("recording", "show", "run-1", "--app", "shop.py", "--json").stdout)
    assert document["format"] == "recording/1"
    assert "sk-ant" not in json.dumps(document)
    raw = call("recording", "show", "run-1", "--no-redact", "--json").stdout
    assert "sk-ant" in raw


def test_a_replay_exits_with_0_1_or_2(folder: Path) -> None:
    same = call("replay", "run-1", "--verify", "--app", "shop.py")
    assert (same.exit_code, same.stdout) == (0, "verify: the same.\n"), same.stderr
    (folder / "shop.py").write_text(APP.replace("Sell.", "Sell more."))
    other = call("replay", "run-1", "--app", "shop.py", "--json")
    assert other.exit_code == 1
    first = json.loads(other.stdout)["divergences"][0]
    assert (first["step"], first["kind"], first["path"]) == (1, "request", "/request/frame")
    unknown = call("replay", "nothing", "--app", "shop.py")
    assert (unknown.exit_code, "nothing" in unknown.stderr) == (2, True)
    assert call("replay", "run-1", "--verify", "--set", "model_id=x").exit_code == 2
    assert call("replay", "run-1", "--set", "nonsense", "--app", "shop.py").exit_code == 2


def test_a_file_is_replayed_without_a_store(folder: Path) -> None:
    document = call("recording", "show", "run-1", "--app", "shop.py", "--json").stdout
    (folder / "run.json").write_text(document)
    (folder / "run.json.gz").write_bytes(gzip.compress(document.encode()))
    (folder / "awaken.db").rename(folder / "elsewhere.db")
    for name in ("run.json", "run.json.gz"):
        # Its digests are those of the redacted form.
        done = call("replay", name, "--app", "shop.py")
        assert done.exit_code == 0, (done.stdout, done.stderr)
    (folder / "run.json").write_text(document.replace("recording/1", "recording/9"))
    broken = call("replay", "run.json", "--app", "shop.py")
    assert (broken.exit_code, "recording/9" in broken.stderr) == (2, True)
    (folder / "run.json").write_text("{")
    assert call("recording", "show", "run.json").exit_code == 2


def test_a_change_is_tried_with_recorded_tools(folder: Path) -> None:
    (folder / "prompt.txt").write_text("Sell nothing.")
    done = call("replay", "run-1", "--prompt", "prompt.txt", "--app", "shop.py", "--json")
    result = json.loads(done.stdout)
    assert result["mode"] == "what_if"
    # The request differs because its instructions do; the scripted model answers the same.
    assert [it["path"] for it in result["divergences"]] == ["/request/frame"]
    called = result["replayed"]["steps"][0]["calls"][0]
    assert called["result"]["message"] == "charged 5"
