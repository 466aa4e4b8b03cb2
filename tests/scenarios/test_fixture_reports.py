"""Reports of fixtures are those that Awaken for Rust writes and reads, field by field."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tests.unit.scoring.outcomes import make_outcome, score_all
from tests.unit.scoring.test_judges import ScriptedJudge
from typer.testing import CliRunner

from awaken.cli.main import app
from awaken.contracts.evals.cases import Expectation
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.evals.fixture_reports import build_report
from awaken.scoring.expectations import list_expected_specs

Kind = Literal["exact", "ordered_subseq"]


class RuntimeProblem(msgspec.Struct, tag="runtime_error", tag_field="kind"):
    message: str


class MissingPhrase(msgspec.Struct, tag="answer_missing_phrase", tag_field="kind"):
    phrase: str


class ExcludedPhrase(msgspec.Struct, tag="answer_contains_excluded_phrase", tag_field="kind"):
    phrase: str


class Sequence(msgspec.Struct, tag="tool_sequence_mismatch", tag_field="kind"):
    expected: list[str]
    actual: list[str]
    mode: Kind = "exact"


class Forbidden(msgspec.Struct, tag="forbidden_tool_used", tag_field="kind"):
    tool: str


class Required(msgspec.Struct, tag="required_tool_call_not_satisfied", tag_field="kind"):
    name: str
    actual_matches: int
    expected_count: dict[str, Any] | None = None
    args_filter_set: bool = False
    result_filter_set: bool = False


class Tokens(msgspec.Struct, tag="token_budget_exceeded", tag_field="kind"):
    budget: int
    actual: int


class Duration(msgspec.Struct, tag="duration_exceeded", tag_field="kind"):
    budget_ms: int
    actual_ms: int


class Judged(msgspec.Struct, tag="judge_below_threshold", tag_field="kind"):
    threshold: float
    actual: float


class Lacks(msgspec.Struct, tag="expected_error_missing", tag_field="kind"):
    expected: str


class Mismatch(msgspec.Struct, tag="error_type_mismatch", tag_field="kind"):
    expected: str
    actual: str


class Runtime(msgspec.Struct, tag="replay_runtime_failure", tag_field="kind"):
    failure: RuntimeProblem


class Calls(msgspec.Struct):
    agent_id: str
    tool: str
    call_count: int
    failure_count: int
    total_duration_ms: int


Failure = (
    MissingPhrase | ExcludedPhrase | Sequence | Forbidden | Required | Tokens | Duration | Judged
) | (Lacks | Mismatch | Runtime)


class Report(msgspec.Struct):
    """What has no default here, Rust refuses to read a line without."""

    fixture_id: str
    passed: bool
    failures: list[Failure]
    final_text: str
    inference_count: int
    tool_count: int
    tool_failures: int
    total_input_tokens: int
    total_output_tokens: int
    session_duration_ms: int
    total_tokens: int = 0
    tool_calls_by_agent: list[Calls] = []
    error_type: str | None = None
    inference_error_count: int = 0
    runtime_failure: RuntimeProblem | None = None
    cost_usd: float | None = None
    judge_score: float | None = None
    judge_reasoning: str | None = None


def answer(text: str, **tokens: int) -> dict[str, Any]:
    return {"kind": "chat_response", "content": text, "tokens": tokens}


ERROR = {"kind": "error", "error_type": "rate_limit", "message": "429"}
CALL = {"kind": "tool_call", "id": "c1", "name": "search", "arguments": {"q": 1}}
COUNT = {"op": "exactly", "n": 2}
FIXTURES: dict[str, dict[str, Any]] = {
    "legacy": {"mock_response": {"kind": "text", "text": "four"}, "expect": {}},
    "counted": {
        "provider_script": [answer("9", prompt_tokens=6, completion_tokens=1, total_tokens=7)],
        "expect": {"max_tokens_total": 30},
    },
    "uncounted": {"provider_script": [{"kind": "chat_response", "content": "9"}], "expect": {}},
    "error": {"provider_script": [ERROR], "expect": {"expected_error_type": "rate_limit"}},
    "phrases": {
        "provider_script": [answer("no")],
        "expect": {"final_answer_contains": ["yes", "sure"], "final_answer_excludes": ["no"]},
    },
    "tools": {
        "provider_script": [CALL, answer("done")],
        "expect": {
            "tool_sequence": ["look", "search"],
            "tool_sequence_mode": "ordered_subseq",
            "forbidden_tools": ["search"],
            "required_tool_calls": [{"name": "search", "args_subset": {"q": 2}, "count": COUNT}],
        },
    },
    "costly": {
        "provider_script": [answer("9", prompt_tokens=60, completion_tokens=1)],
        "expect": {"max_tokens_total": 30},
    },
    "no error": {"provider_script": [answer("9")], "expect": {"expected_error_type": "timeout"}},
    "other error": {"provider_script": [ERROR], "expect": {"expected_error_type": "timeout"}},
    "legacy error": {
        "mock_response": ERROR,
        "expect": {"expected_error_type": "rate_limit"},
    },
    "failed": {"provider_script": [ERROR], "expect": {"final_answer_contains": ["x"]}},
}


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Report]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").mkdir()
    for name, fields in FIXTURES.items():
        made = {"id": name.replace(" ", "_"), "user_input": "What is 2+2?", **fields}
        (tmp_path / "fixtures" / f"{name}.json").write_text(json.dumps(made))
    words = ["eval", "replay", "--fixtures", "fixtures", "--report", "new.ndjson"]
    CliRunner().invoke(app, words)
    lines = (tmp_path / "new.ndjson").read_text().splitlines()
    found = [msgspec.json.decode(it, type=Report) for it in lines]
    return {it.fixture_id.replace("_", " "): it for it in found}


def test_counts_are_those_that_rust_takes(reports: dict[str, Report]) -> None:
    def count(name: str) -> tuple[int, ...]:
        it = reports[name]
        tokens = it.total_input_tokens, it.total_output_tokens, it.total_tokens
        return (it.inference_count, it.inference_error_count, *tokens)

    # One token of four characters, of the question and of the answer.
    assert count("legacy") == (1, 0, 3, 1, 4)
    assert count("counted") == (1, 0, 6, 1, 7)
    assert count("error") == (0, 1, 0, 0, 0)
    tools = reports["tools"]
    assert (tools.inference_count, tools.tool_count, tools.tool_failures) == (2, 1, 1)
    called = Calls("default", "search", 1, 1, 0)
    assert tools.tool_calls_by_agent == [called]


def test_a_count_that_is_not_known_is_named(reports: dict[str, Report]) -> None:
    lines = [json.loads(it) for it in Path("new.ndjson").read_text().splitlines()]
    unknown = {it["fixture_id"]: it["unknown"] for it in lines if "unknown" in it}
    tokens = ["total_input_tokens", "total_output_tokens", "total_tokens"]
    assert unknown["uncounted"] == tokens
    assert {"legacy", "counted", "error"}.isdisjoint(unknown)


def test_failures_say_what_rust_says_of_them(reports: dict[str, Report]) -> None:
    assert {name for name, it in reports.items() if it.passed} == {
        "legacy", "counted", "uncounted", "error", "legacy error",
    }  # fmt: skip
    assert reports["phrases"].failures == [
        MissingPhrase("yes"), MissingPhrase("sure"), ExcludedPhrase("no"),
    ]  # fmt: skip
    assert reports["tools"].failures == [
        Sequence(["look", "search"], ["search"], "ordered_subseq"),
        Forbidden("search"),
        Required("search", 0, COUNT, args_filter_set=True),
    ]
    assert reports["costly"].failures == [Tokens(30, 61)]
    assert reports["no error"].failures == [Lacks("timeout")]
    assert Mismatch("timeout", "rate_limit") in reports["other error"].failures
    assert any(isinstance(it, Runtime) for it in reports["failed"].failures)


def judge(reply: str, *, votes: int) -> Report:
    """Return the report of an answer that a judge was asked about, with `min_judge_score` 0.7."""
    options = {"rubric": "Is it right?", "scale": "0-1", "votes": votes}
    specs = list_expected_specs(Expectation(min_judge_score=0.7), options)
    asked = ScriptedJudge(by=lambda system, text: reply)
    scores = score_all([*specs], make_outcome("Paris"), ask=asked)
    item = EvalItem(
        number=0, case_id="c", variant="v", sample=0, status=ItemStatus.SCORED, scores=scores
    )
    return msgspec.json.decode(msgspec.json.encode(build_report(item)), type=Report)


def test_a_judge_that_fails_an_answer_says_what_was_asked_for() -> None:
    once = judge('{"score": 0.25, "reason": "vague"}', votes=1)
    assert once.failures == [Judged(threshold=0.7, actual=0.25)]
    assert (once.judge_score, once.judge_reasoning) == (0.25, "vague")
    assert judge('{"score": 0.25, "reason": ""}', votes=3).failures == [Judged(0.7, 0.25)]
    assert judge('{"score": 0.7, "reason": ""}', votes=1).failures == []


def test_a_judge_that_gives_no_score_is_a_failure_of_the_replay() -> None:
    (failure,) = judge("I like it", votes=1).failures
    assert isinstance(failure, Runtime)
    assert "judge" in failure.failure.message


def test_a_baseline_of_rust_is_met(reports: dict[str, Report]) -> None:
    """Times are not compared, and what Rust leaves out is nothing."""
    line = {
        "fixture_id": "legacy", "passed": True, "failures": [], "final_text": "four",
        "inference_count": 1, "tool_count": 0, "tool_failures": 0, "total_input_tokens": 3,
        "total_output_tokens": 1, "total_tokens": 4, "session_duration_ms": 77,
    }  # fmt: skip
    failed = line | {
        "fixture_id": "error", "final_text": "", "inference_count": 0, "total_input_tokens": 0,
        "total_output_tokens": 0, "total_tokens": 0, "error_type": "rate_limit",
        "inference_error_count": 1,
    }  # fmt: skip
    Path("base.ndjson").write_text("\n".join(map(json.dumps, (line, failed))))
    lines = Path("new.ndjson").read_text().splitlines()
    kept = [it for it in lines if json.loads(it)["fixture_id"] in ("legacy", "error")]
    Path("some.ndjson").write_text("\n".join(kept))
    words = ["eval", "check", "--baseline", "base.ndjson", "--new", "some.ndjson"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (0, "2 fixtures, 0 blocking.\n")
