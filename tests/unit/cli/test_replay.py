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


def test_a_first_live_step_asks_the_model_also_if_it_is_the_first_of_all(folder: Path) -> None:
    (folder / "shop.py").write_text(APP.replace('"Paid."]', '"Other."]'))
    done = call("replay", "run-1", "--from-step", "1", "--app", "shop.py", "--json")
    assert done.exit_code == 1, done.stderr
    result = json.loads(done.stdout)
    assert (result["mode"], result["divergences"][0]["kind"]) == ("what_if", "answer")
    behind = call("replay", "run-1", "--from-step", "3", "--app", "shop.py")
    assert (behind.exit_code, "ended after 2 steps" in behind.stderr) == (2, True)


def test_a_verification_is_asked_for_with_nothing_live(folder: Path) -> None:
    for words in (["--tools", "live"], ["--from-step", "1"], ["--from-step", "2"]):
        refused = call("replay", "run-1", "--verify", *words, "--app", "shop.py")
        assert refused.exit_code == 2, (words, refused.stdout)


def test_changes_have_the_names_that_variants_of_evals_have(folder: Path) -> None:
    words = ["--set", "instructions=Sell nothing.", "--set", "max_rounds=9"]
    done = call("replay", "run-1", *words, "--app", "shop.py", "--json")
    assert json.loads(done.stdout)["divergences"][0]["path"] == "/request/frame", done.stderr
    refusals = {
        "id=other": "agent_id",
        "max_round=3": "no field 'max_round'; it has model_id",
        "publication=x": "int",
    }
    for change, said in refusals.items():
        refused = call("replay", "run-1", "--set", change, "--app", "shop.py")
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    (folder / "prompt.txt").write_text("Sell.")
    twice = (
        ["--set", "max_rounds=1", "--set", "max_rounds=2"],
        ["--set", "instructions=x", "--prompt", "prompt.txt"],
    )
    for given in twice:
        refused = call("replay", "run-1", *given, "--app", "shop.py")
        assert (refused.exit_code, "given twice" in refused.stderr) == (2, True), refused.stderr


def test_a_model_without_a_key_is_no_divergence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    change = ["--set", "model_id=openai:gpt-5-mini"]
    failed = call("replay", "run-1", *change, "--app", "shop.py")
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "OPENAI_API_KEY" in failed.stderr


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


OWN = """
from awaken import AgentRuntime
from awaken.stores import SqliteStore

runtime = AgentRuntime([agent], store={store})
"""
OWN_STORES = ['"sqlite:///own.db"', 'SqliteStore("own.db")']


@pytest.mark.parametrize("store", OWN_STORES)
def test_the_store_that_the_app_names_is_the_store_of_its_runs(
    folder: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "awaken.db").rename(folder / "own.db")
    (folder / "shop.py").write_text(APP + OWN.format(store=store))
    # The environment does not replace a store of the app's own, as with `awaken serve`.
    for environment in (None, "sqlite:///elsewhere.db"):
        if environment is not None:
            monkeypatch.setenv("AWAKEN_STORE", environment)
        verified = call("replay", "run-1", "--app", "shop.py")
        assert (verified.exit_code, verified.stdout) == (0, "verify: the same.\n"), verified.stderr
        assert call("recording", "show", "run-1", "--app", "shop.py").exit_code == 0
    captured = call("eval", "capture", "run-1", "paid", "--app", "shop.py")
    assert captured.exit_code == 0, captured.stderr
    tried = call("eval", "run", "paid", "--app", "shop.py", "--case", "run-1")
    assert (tried.exit_code, "case 'run-1' is a draft" in tried.stderr) == (2, True), tried.stderr
    # An option wins.
    other = call("replay", "run-1", "--app", "shop.py", "--store", "sqlite:///other.db")
    assert (other.exit_code, "other.db" in other.stderr) == (2, True)
    assert sorted(it.name for it in folder.glob("*.db")) == ["own.db"]


def test_a_store_in_memory_that_the_app_names_counts_as_none(folder: Path) -> None:
    (folder / "shop.py").write_text(APP + OWN.format(store='"memory://"'))
    verified = call("replay", "run-1", "--app", "shop.py")
    assert (verified.exit_code, verified.stdout) == (0, "verify: the same.\n"), verified.stderr
