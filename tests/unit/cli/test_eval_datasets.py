"""`awaken eval` for datasets: files there and back, imports, captures, and what is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime
from awaken.cli.eval import app
from awaken.cli.threads import app as threads
from awaken.testing import ScriptedModel

FIXTURE = {"id": "hello", "user_input": "Hello", "expect": {"final_answer_contains": ["Hi"]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWAKEN_STORE", f"sqlite:///{tmp_path / 'awaken.db'}")
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures" / "hello.json").write_text(json.dumps(FIXTURE))
    return tmp_path


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout or done.stderr)


def test_a_folder_is_pushed_pulled_changed_and_pushed_again(folder: Path) -> None:
    assert call("push", "greetings", "fixtures")["revision"] == 1
    assert [it["dataset_id"] for it in call("list")["datasets"]] == ["greetings"]
    assert call("pull", "greetings", "out")["files"] == ["cases/hello.yaml", "dataset.yaml"]
    path = folder / "out" / "cases" / "hello.yaml"
    path.write_text(path.read_text().replace("Hello", "Hello again"))
    pushed = call("push", "greetings", "out", "--expected", "1")
    assert (pushed["revision"], pushed["replaced"]) == (2, ["hello"])
    assert call("show", "greetings", "--case", "hello")["user_input"] == "Hello again"
    first = call("show", "greetings", "--revision", "1")
    assert first["cases"][0]["user_input"] == "Hello"
    call("push", "greetings", "out", "--expected", "1", code=1)
    shown = CliRunner().invoke(app, ["show", "greetings"]).stdout
    assert "hello" in shown
    assert "gate         none" in shown
    head = folder / "out" / "dataset.yaml"
    head.write_text(head.read_text() + "gate: {cases: {must_pass: [smoke]}}\n")
    call("push", "greetings", "out")
    shown = CliRunner().invoke(app, ["show", "greetings"]).stdout
    assert '{"cases":{"must_pass":["smoke"]}}' in shown
    assert "greetings" in CliRunner().invoke(app, ["list"]).stdout


def test_a_broken_folder_is_refused_and_the_dataset_stays(folder: Path) -> None:
    call("push", "greetings", "fixtures")
    (folder / "fixtures" / "bad.json").write_text('{"id": "bad", "user_input": 5}')
    done = CliRunner().invoke(app, ["push", "greetings", "fixtures"])
    assert done.exit_code != 0
    assert "bad.json" in done.output
    assert "user_input" in done.output
    assert call("list")["datasets"][0]["revision"] == 1


def test_an_import_makes_the_dataset_and_lists_what_is_left_out(folder: Path) -> None:
    tests = "tests: [{vars: {q: Hi}, assert: [{type: equals, value: x}, {type: javascript}]}]"
    (folder / "tests.yaml").write_text(tests)
    made = call("import", "imported", "tests.yaml", "--from", "promptfoo")
    assert made["added"] == ["case-0001"]
    assert made["left_out"] == ["test '1': assertion 'javascript'"]
    again = CliRunner().invoke(app, ["import", "imported", "tests.yaml", "--from", "promptfoo"])
    assert "0 added" in again.stdout


def test_an_import_that_is_refused_lists_what_could_not_be_carried_over(folder: Path) -> None:
    (folder / "tests.yaml").write_text("tests: [{vars: {q: Hi}, assert: [{type: javascript}]}]")
    words = ["import", "imported", "tests.yaml", "--from", "promptfoo"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code != 0
    assert "case 'case-0001': it has no expectation and no scorer" in refused.output
    assert "Not carried over: test '1': assertion 'javascript'" in refused.output


async def make_runs(folder: Path, *texts: str) -> list[str]:
    agent = Agent(id="helper", model=ScriptedModel(["Done."] * len(texts)))
    url = f"sqlite:///{folder / 'awaken.db'}"
    async with AgentRuntime([agent], store=url, has_worker=False) as runtime:
        return [(await runtime.run("helper", it, thread_id="t")).run_id for it in texts]


def test_runs_are_captured_by_id_by_filter_and_forgotten_with_their_thread(folder: Path) -> None:
    first, _ = asyncio.run(make_runs(folder, "One", "Two"))
    made = call("capture", first, "captured", "--id", "one")
    assert made["added"] == ["one"]
    case = call("show", "captured", "--case", "one")
    assert (case["status"], case["user_input"], case["source_thread_id"]) == ("draft", "One", "t")
    many = call("capture", "captured", "--agent", "helper")
    assert len(many["added"]) == 1
    assert many["duplicates"][0]["same_as"] == "one"
    call("pull", "captured", "out")
    assert len(list((folder / "out" / "recordings").iterdir())) == 2
    kinds = sorted(it["kind"] for it in call("forget", "--thread", "t")["sources"])
    assert kinds == ["case", "case", "recording", "recording"]
    assert len(call("forget", "--thread", "t", "--yes")["cases"]) == 2
    assert call("show", "captured")["cases"] == []
    assert call("forget", "--thread", "t")["sources"] == []
    call("forget", code=2)


def test_a_capture_without_a_dataset_or_without_a_run_makes_no_dataset(folder: Path) -> None:
    (run_id,) = asyncio.run(make_runs(folder, "One"))
    refused = call("capture", run_id, code=2)
    assert "is a run; name the dataset after it" in str(refused)
    assert call("capture", "captured", "--agent", "someone-else")["added"] == []
    assert call("list")["datasets"] == []


def test_deleting_a_thread_tells_what_still_holds_it_or_deletes_that_too(folder: Path) -> None:
    (first,) = asyncio.run(make_runs(folder, "One"))
    call("capture", first, "captured")
    deleted = CliRunner().invoke(threads, ["delete", "t", "--yes"])
    assert "2 objects of evals still hold it" in deleted.stdout
    asyncio.run(make_runs(folder, "Again"))
    words = ["delete", "t", "--yes", "--with-cases", "--json"]
    assert json.loads(CliRunner().invoke(threads, words).stdout)["eval_objects"] == 0
    assert call("show", "captured")["cases"] == []
