"""`awaken eval`: exit codes, reports, baselines, and the commands of Awaken for Rust."""

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from awaken import AgentRuntime
from awaken.cli.apps import load_app
from awaken.cli.main import app
from awaken.evals import EvalSpec, Variant

APP = """
from awaken import Agent
from awaken.errors import ProviderFailed
from awaken.models import TokenUsage
from awaken.testing import ScriptedModel, Turn

USAGE = TokenUsage(prompt_tokens=4, completion_tokens=90)
agent = Agent(id="agent", model=ScriptedModel([Turn("hello", usage=USAGE)] * 50), instructions="x")
broken = Agent(
    id="broken",
    model=ScriptedModel([ProviderFailed("503")] * 50),
    instructions="x",
    config={"retry": {"max_retries": 0}},
)
"""
GOOD = {"id": "good", "user_input": "hi", "provider_script": [{"text": "hello"}]}
BAD = {"id": "bad", "user_input": "hi", "provider_script": [{"text": "no"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents.py").write_text(APP)
    write_cases(tmp_path, GOOD)
    return tmp_path


def write_cases(folder: Path, *cases: dict[str, Any], **head: Any) -> None:
    made = folder / "greetings" / "cases"
    made.mkdir(parents=True, exist_ok=True)
    scorers = [{"scorer": "contains", "options": {"phrases": ["hello"]}}]
    (made.parent / "dataset.yaml").write_text(json.dumps({"scorers": scorers, **head}))
    for case in cases:
        (made / f"{case['id']}.json").write_text(json.dumps(case))


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", *arguments])


def run(*options: str) -> Result:
    return call("run", "greetings", "--app", "agents.py", "--agent", "agent", *options)


def test_a_dataset_and_a_baseline_come_from_a_store(folder: Path) -> None:
    async def fill() -> str:
        async with AgentRuntime(load_app("agents.py").agents, store="sqlite:///s.db") as runtime:
            spec = EvalSpec(
                dataset_id="kept", variants=(Variant(name="default", agent_id="agent"),)
            )
            made = await runtime.evals.create(spec)
            runtime.evals.start(made.eval_id)
            return (await runtime.evals.wait(made.eval_id, 60_000)).eval_id

    pushed = call("push", "kept", "greetings", "--store", "sqlite:///s.db")
    assert pushed.exit_code == 0, pushed.output
    eval_id = asyncio.run(fill())
    words = ("--app", "agents.py", "--agent", "agent", "--store", "sqlite:///s.db")
    done = call("run", "kept", *words, "--mode", "live", "--baseline", eval_id, "--json", "-")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["record"]["spec"]["dataset_id"] == "kept"
    assert found["figures"]["comparisons"], found["figures"]
    unknown = call("run", "nothing", *words)
    assert (unknown.exit_code, "no folder of this name" in unknown.stderr) == (2, True)
    assert call("run", "kept", *words, "--baseline", "nothing").exit_code == 2
    assert call("run", "nothing", *words[:4]).exit_code == 2


def test_a_dataset_that_passes_exits_with_0_and_writes_its_reports(folder: Path) -> None:
    done = run("--junit", "j.xml", "--json", "r.json", "--md", "r.md", "--save-baseline", "b.json")
    assert done.exit_code == 0, done.output
    assert "**Passed.**" in done.stdout
    suite = ET.parse("j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert json.loads(Path("r.json").read_text())["record"]["status"] == "done"
    assert Path("r.md").read_text() == done.stdout
    assert run("--baseline", "b.json").exit_code == 0


def test_a_sample_that_fails_exits_with_1_and_says_why(folder: Path) -> None:
    write_cases(folder, GOOD, BAD)
    done = run("--junit", "j.xml")
    assert done.exit_code == 1
    assert "`bad / default / 0`" in done.stdout
    suite = ET.parse("j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    loose = {"require": [{"scorer": "contains", "min_rate": 0.4}]}
    Path("gate.yaml").write_text(json.dumps(loose))
    assert run("--gate", "gate.yaml").exit_code == 0


def test_the_gate_of_a_dataset_counts(folder: Path) -> None:
    write_cases(folder, BAD, gate={"require": [{"scorer": "contains", "min_rate": 0.9}]})
    done = run()
    assert (done.exit_code, "Gate: **failed**" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "nothing", "--app", "agents.py"],
        ["run", "greetings", "--app", "nothing.py"],
        ["run", "greetings", "--app", "agents.py", "--agent", "nobody"],
        ["run", "greetings", "--app", "agents.py", "--variant", "what"],
        ["run", "greetings", "--app", "agents.py", *["--variant", "v:max_rounds=2"] * 2],
        ["run", "greetings", "--app", "agents.py", "--variant", "v:id=other"],
        ["run", "greetings", "--app", "agents.py", "--case", "nobody"],
        ["run", "greetings", "--app", "agents.py", "--gate", "agents.py"],
        ["run", "greetings", "--app", "agents.py", "--baseline", "agents.py"],
        ["run", "greetings", "--app", "agents.py", "--repeats", "99"],
        ["check", "--baseline", "none", "--new", "none"],
        ["replay", "--fixtures", "none", "--report", "r"],
        ["compare", "agents.py", "agents.py"],
    ],
)
def test_bad_input_exits_with_2(folder: Path, arguments: list[str]) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output


def test_reports_without_a_line_are_not_the_same(folder: Path) -> None:
    Path("empty.ndjson").write_text("\n")
    done = call("check", "--baseline", "empty.ndjson", "--new", "empty.ndjson")
    assert (done.exit_code, "it has no report" in done.stderr) == (2, True)


def test_drafts_take_part_only_if_they_are_asked_for(folder: Path) -> None:
    write_cases(folder, {**GOOD, "status": "draft"})
    refused = run()
    assert refused.exit_code == 2
    assert "1 are drafts: set status: ready in them, or has_drafts" in refused.stderr
    assert run("--drafts").exit_code == 0


def test_what_is_compared_with_an_eval_that_did_not_end_is_warned_of(folder: Path) -> None:
    assert run("--save-baseline", "a.json").exit_code == 0
    document = json.loads(Path("a.json").read_text())
    document["record"] |= {"status": "cancelled", "eval_id": "half"}
    Path("half.json").write_text(json.dumps(document))
    warned = call("compare", "a.json", "half.json")
    assert "Warning: eval 'half' is cancelled: 1 of 1 samples." in warned.stdout, warned.output
    Path("empty.json").write_text(json.dumps({**document, "items": []}))
    refused = call("compare", "a.json", "empty.json")
    assert (refused.exit_code, "has no sample" in refused.stderr) == (2, True)


def test_a_budget_that_is_used_up_exits_with_3(folder: Path) -> None:
    options = ["--mode", "live", "--repeats", "20", "--budget-tokens", "400"]
    policy = 'v:context_policy={"max_output_tokens": 90}'
    done = run(*options, "--variant", policy)
    assert done.exit_code == 3, done.output
    assert "**Incomplete.**" in done.stdout


def test_providers_that_fail_exit_with_4(folder: Path) -> None:
    arguments = ["greetings", "--app", "agents.py", "--agent", "broken", "--mode", "live"]
    done = call("run", *arguments, "--repeats", "1")
    assert done.exit_code == 4, done.output


def test_the_gate_of_a_dataset_says_how_many_samples_providers_may_fail(folder: Path) -> None:
    gate = {"require": [{"scorer": "contains", "min_rate": 0}], "max_missing": 1}
    write_cases(folder, gate=gate)
    arguments = ["greetings", "--app", "agents.py", "--agent", "broken", "--mode", "live"]
    done = call("run", *arguments, "--repeats", "1")
    # Nothing was scored: not passed, and not because too many are missing.
    assert done.exit_code == 1, done.output


def test_a_baseline_of_another_mode_exits_with_2(folder: Path) -> None:
    assert run("--save-baseline", "good.json").exit_code == 0
    refused = run("--mode", "live", "--repeats", "1", "--baseline", "good.json")
    assert refused.exit_code == 2, refused.output
    assert "scripted" in refused.output


def test_results_are_compared_from_files(folder: Path) -> None:
    assert run("--save-baseline", "good.json").exit_code == 0
    same = call("compare", "good.json", "good.json")
    assert (same.exit_code, "contains" in same.stdout) == (0, True)


def test_fixtures_are_replayed_and_checked_as_awaken_for_rust_does(folder: Path) -> None:
    fixtures = folder / "fixtures"
    fixtures.mkdir()

    def write(name: str, text: str) -> None:
        fixture = {
            "id": name,
            "user_input": "hi",
            "provider_script": [{"kind": "chat_response", "content": text}],
            "expect": {"final_answer_contains": ["hello"]},
        }
        (fixtures / f"{name}.json").write_text(json.dumps(fixture))

    write("one", "hello")
    write("two", "hello you")
    replay = ["replay", "--fixtures", "fixtures", "--report"]
    first = call(*replay, "a.ndjson")
    assert first.exit_code == 0, first.output
    lines = [json.loads(it) for it in Path("a.ndjson").read_text().splitlines()]
    assert [(it["fixture_id"], it["passed"]) for it in lines] == [("one", True), ("two", True)]
    assert call("check", "--baseline", "a.ndjson", "--new", "a.ndjson").exit_code == 0
    write("two", "no")
    assert call(*replay, "b.ndjson").exit_code == 1
    worse = call("check", "--baseline", "a.ndjson", "--new", "b.ndjson")
    assert (worse.exit_code, '"kind":"regression"' in worse.stdout) == (1, True)
