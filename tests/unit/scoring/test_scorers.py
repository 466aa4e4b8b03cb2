"""Every scorer: an outcome that passes, one that fails, one that it cannot score."""

import asyncio
import threading
import time
from typing import Any

import msgspec
import pytest

from awaken.contracts.evals.cases import (
    CallCount,
    CountOp,
    Expectation,
    RequiredCall,
    SequenceMode,
)
from awaken.contracts.evals.errors import InvalidScorer
from awaken.contracts.evals.recordings import RecordedConfig, RecordedDecision, RecordedState
from awaken.contracts.evals.scores import AskedTicket, Outcome, Score, ScorerSpec
from awaken.contracts.lifecycle import Blocked, Failed
from awaken.contracts.messages.message import assistant, user
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    SuspendTicket,
    ToolCallOutcome,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect
from awaken.scoring import SCORERS, list_expected_specs, make_scorers, scorers
from awaken.scoring.subsets import find_mismatch, is_equal
from awaken.scoring.text import count_edits
from awaken.scoring.threads import AbandonableThreads

from .outcomes import (
    make_call,
    make_outcome,
    make_recording,
    make_step,
    score_all,
    score_one,
    store,
)

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
SECRET = "the key is sk-ant-api03-" + "a1B2c3D4e5" * 9 + "AA"
MAIL = make_call("send_mail", {"to": "a"}, "sent", effect=ToolEffect.ONCE)
ASKED = make_call(
    "send_mail",
    effect=ToolEffect.ONCE,
    decisions=(
        RecordedDecision(question=SuspendTicket(), decision=ToolCallResume(decision_id="d")),
    ),
)
WAITS = make_call("send_mail", outcome=ToolCallOutcome.SUSPENDED, effect=ToolEffect.ONCE)
DENIED = make_call(
    "send_mail",
    result=ToolResult.error("send_mail", "no", code="blocked"),
    outcome=ToolCallOutcome.FAILED,
    effect=ToolEffect.ONCE,
)
CHILD = make_recording(make_step(MAIL), run={"run_id": "c1", "agent_id": "billing"})
PARENT = make_outcome(recording=make_recording(make_step(make_call("ask"), children=(CHILD,))))
FIND = make_call("find", {"q": "x", "n": [1, 2]}, {"hits": [{"id": 7, "score": 0.5}]})
UNTYPED = make_outcome('{"total": 3}')
TOO_LONG = make_outcome("[" + "1," * 1_000_001)
TYPED = make_outcome(output={"total": 3, "lines": [1]}, is_output_typed=True)
GAPS = make_outcome("", incomplete=("log purged before step 3",))
FAILED = make_outcome(run={"termination": Failed(message="slow down", code="rate_limited")})
MARK = "[blocked by guardrail 'pii': email]"
HELD = make_outcome(run={"termination": Blocked(reason=MARK)})
# Words are no evidence: a person, a model or a tool can write them.
WORDS = make_outcome(
    MARK, make_call("echo", {"text": MARK}, {"blocked": MARK}), input=(user(MARK),)
)
SPOKE = make_outcome(
    config=RecordedConfig(
        awaken="1", agents={it: AgentSpec(id=it, model_id="m") for it in ("support", "sales")}
    )
)

# scorer, options, passes, fails, cannot be scored
TABLE: list[tuple[str, dict[str, Any], Outcome, Outcome, Outcome | None]] = [
    (
        "exact",
        {},
        make_outcome(" Yes ", expected="Yes"),
        make_outcome("yes", expected="Yes"),
        make_outcome("yes"),
    ),
    ("contains", {"phrases": ["a", "b"]}, make_outcome("cab"), make_outcome("ca"), None),
    (
        "contains",
        {"phrases": ["a", "b"], "mode": "any"},
        make_outcome("ca"),
        make_outcome("c"),
        None,
    ),
    (
        "contains",
        {},
        make_outcome("cab", expected=["a"]),
        make_outcome("A", expected="a"),
        make_outcome("a", expected=7),
    ),
    ("excludes", {"phrases": ["x"]}, make_outcome("abc"), make_outcome("axc"), None),
    (
        "regex",
        {"pattern": "^a+$"},
        make_outcome("aaa"),
        make_outcome("ab"),
        make_outcome("a" * 300_000),
    ),
    ("regex", {"pattern": "b", "is_absent": True}, make_outcome("a"), make_outcome("ab"), None),
    (
        "token_f1",
        {},
        make_outcome("the red cat", expected="red cat"),
        make_outcome("a dog", expected="red cat"),
        make_outcome("a"),
    ),
    (
        "edit_similarity",
        {},
        make_outcome("kitten", expected="sitten"),
        make_outcome("abc", expected="xyz"),
        make_outcome("a" * 20_001, expected="b"),
    ),
    (
        "json_schema",
        {"schema": SCHEMA},
        TYPED,
        make_outcome(output={}, is_output_typed=True),
        TOO_LONG,
    ),
    ("json_schema", {"schema": SCHEMA, "part": "text"}, UNTYPED, make_outcome("total: 3"), None),
    (
        "json_subset",
        {"value": {"total": 3}},
        TYPED,
        make_outcome(output={"total": True}, is_output_typed=True),
        TOO_LONG,
    ),
    (
        "json_subset",
        {"part": "text"},
        make_outcome('```json\n{"a": [1]}\n```', expected={"a": [1]}),
        make_outcome('{"a": [1, 2]}', expected={"a": [1]}),
        make_outcome("{}"),
    ),
    (
        "number_close",
        {"value": 3, "path": "/total"},
        TYPED,
        make_outcome(output={"total": 3.1}, is_output_typed=True),
        TOO_LONG,
    ),
    (
        "number_close",
        {"part": "text", "abs_tol": 0.01},
        make_outcome("of 7 in all 1,234.50", expected=1234.5),
        make_outcome("none", expected=1),
        make_outcome("1", expected="1"),
    ),
    (
        "tool_sequence",
        {"tools": ["a", "b"]},
        make_outcome("", make_call("a"), make_call("b")),
        make_outcome("", make_call("b"), make_call("a")),
        GAPS,
    ),
    (
        "tool_sequence",
        {"tools": ["a", "b"], "mode": "in_order"},
        make_outcome("", make_call("a"), make_call("c"), make_call("b")),
        make_outcome("", make_call("b"), make_call("a")),
        None,
    ),
    (
        "tool_sequence",
        {"tools": ["a", "a"], "mode": "any_order"},
        make_outcome("", make_call("a"), make_call("b"), make_call("a")),
        make_outcome("", make_call("a")),
        None,
    ),
    (
        "tool_sequence",
        {"tools": ["a", "b"], "mode": "subset"},
        make_outcome("", make_call("a")),
        make_outcome("", make_call("c")),
        None,
    ),
    (
        "tool_sequence",
        {},
        make_outcome("", make_call("a"), expected_tools=("a",)),
        make_outcome("", expected_tools=("a",)),
        make_outcome(""),
    ),
    (
        "tool_call",
        {"name": "find", "args_subset": {"q": "x"}, "result_subset": {"hits": [{"id": 7}]}},
        make_outcome("", FIND),
        make_outcome("", make_call("find", {"q": "x"}, {"hits": []})),
        GAPS,
    ),
    (
        "tool_call",
        {"name": "find", "count": {"op": "exactly", "n": 2}},
        make_outcome("", FIND, FIND),
        make_outcome("", FIND),
        None,
    ),
    (
        "tool_call",
        {"name": "find", "count": {"op": "at_most", "n": 0}},
        make_outcome(""),
        make_outcome("", FIND),
        None,
    ),
    (
        "tool_call",
        {"name": "send_mail", "result_subset": None},
        make_outcome("", make_call("send_mail")),
        make_outcome("", WAITS),
        None,
    ),
    ("forbidden_tools", {"tools": ["send_*"]}, make_outcome("", make_call("a")), PARENT, GAPS),
    (
        "no_repeats",
        {},
        make_outcome("", make_call("a", {"x": 1}), make_call("a", {"x": 2})),
        make_outcome("", make_call("a", {"x": 1, "y": 2}), make_call("a", {"y": 2, "x": 1})),
        GAPS,
    ),
    (
        "max_steps",
        {"max": 1},
        make_outcome("", FIND),
        make_outcome(recording=make_recording(make_step(), make_step(n=2))),
        GAPS,
    ),
    ("delegates_to", {"agent": "billing"}, PARENT, make_outcome("", FIND), GAPS),
    (
        "delegates_to",
        {"agent": "bill ing"},
        make_outcome("", make_call("agent_run_bill_ing")),
        PARENT,
        None,
    ),
    ("hands_off_to", {"agent": "sales"}, SPOKE, make_outcome(""), GAPS),
    (
        "hands_off_to",
        {"agent": "sales"},
        make_outcome(run={"active_agent_id": "sales"}),
        make_outcome(run={"agent_id": "sales", "active_agent_id": "sales"}),
        None,
    ),
    ("asked_before", {"tool": "send_mail"}, make_outcome("", ASKED), make_outcome("", MAIL), GAPS),
    ("asked_before", {"tool": "send_*"}, make_outcome("", DENIED, WAITS), PARENT, None),
    (
        "asked_before",
        {"tool": "send_mail"},
        make_outcome(
            "",
            MAIL,
            tickets=(AskedTicket(call_id="call_send_mail", tool="send_mail", action="resume"),),
        ),
        make_outcome("", MAIL, tickets=(AskedTicket(call_id="call_send_mail", tool="send_mail"),)),
        None,
    ),
    ("no_effects_but", {}, make_outcome("", FIND, DENIED), make_outcome("", MAIL), GAPS),
    (
        "no_effects_but",
        {"tools": ["send_mail"]},
        PARENT,
        make_outcome("", make_call("pay", effect=ToolEffect.IDEMPOTENT)),
        None,
    ),
    ("no_secrets", {}, make_outcome("nothing here"), make_outcome(SECRET), GAPS),
    (
        "no_secrets",
        {},
        make_outcome("x", make_call("a", {"q": "x"})),
        make_outcome("x", make_call("a", {"q": SECRET})),
        None,
    ),
    (
        "no_secrets",
        {},
        make_outcome(recording=make_recording(make_step(), make_step(n=2), text="bye")),
        # Said in the first of two turns.
        make_outcome(
            recording=make_recording(
                make_step(answer=assistant(SECRET)), make_step(n=2), text="bye"
            )
        ),
        None,
    ),
    ("guardrail_held", {}, HELD, WORDS, GAPS),
    (
        "guardrail_held",
        {"rule": "pii"},
        make_outcome(run={"termination": Blocked(reason="[blocked by guardrail 'pii': email]")}),
        make_outcome(run={"termination": Blocked(reason="[blocked by guardrail 'other': email]")}),
        None,
    ),
    ("ended", {}, make_outcome(""), FAILED, None),
    (
        "ended",
        {"types": ["waiting"]},
        make_outcome(run={"termination": None}),
        make_outcome(""),
        None,
    ),
    (
        "error_type",
        {"expected": "rate_limited"},
        FAILED,
        make_outcome(run={"termination": Failed(message="x", code="other")}),
        None,
    ),
    ("error_type", {}, make_outcome(""), FAILED, None),
    (
        "state_equals",
        {"key": "cart", "value": {"n": 1}},
        make_outcome(recording=make_recording(make_step(state={"cart": store({"n": 1})}))),
        make_outcome(state=RecordedState(thread={"cart": store({"n": True})})),
        GAPS,
    ),
    (
        "max_tokens",
        {"max": 100},
        make_outcome(""),
        make_outcome(run={"usage": TokenUsage(total_tokens=101)}),
        make_outcome(run={"usage": TokenUsage()}),
    ),
    (
        "max_cost_usd",
        {"max": 0.01},
        make_outcome(""),
        make_outcome(cost_usd=0.02),
        make_outcome(run={"cost_usd": None}),
    ),
    (
        "max_ms",
        {"max": 500},
        make_outcome(""),
        make_outcome(ms=501),
        make_outcome(run={"duration_ms": None}),
    ),
    (
        "python",
        {"function": f"{__name__}:own"},
        make_outcome("good"),
        make_outcome("bad"),
        make_outcome("raises"),
    ),
    (
        "python",
        {"function": f"{__name__}:own_async", "options": {"wanted": "x"}},
        make_outcome("x"),
        make_outcome("y"),
        make_outcome("nan"),
    ),
]


def own(outcome: Outcome) -> bool:
    if outcome.text == "raises":
        raise SystemExit
    return outcome.text == "good"


async def own_async(outcome: Outcome, wanted: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"value": float("nan") if outcome.text == "nan" else float(outcome.text == wanted)}


HUNG_IN: list[int] = []
"""The threads in which functions hang."""


async def hang(outcome: Outcome) -> bool:
    HUNG_IN.append(threading.get_ident())
    time.sleep(60)
    return True


def loop_forever(outcome: Outcome) -> bool:
    HUNG_IN.append(threading.get_ident())
    time.sleep(60)
    return True


@pytest.mark.parametrize(
    ("name", "options", "good", "bad", "unknown"),
    TABLE,
    ids=[f"{place}-{it[0]}" for place, it in enumerate(TABLE)],
)
def test_a_scorer_passes_fails_and_says_what_it_lacks(
    name: str, options: dict[str, Any], good: Outcome, bad: Outcome, unknown: Outcome | None
) -> None:
    passed = score_one(name, options, good, modules=[__name__])
    assert (passed.passed, passed.error, passed.kind) == (True, None, "")
    assert passed.value is not None
    assert passed.value >= 0.5
    failed = score_one(name, options, bad, modules=[__name__])
    assert (failed.passed, failed.error) == (False, None)
    assert failed.value is not None
    assert failed.kind or name == "python"
    if unknown is not None:
        score = score_one(name, options, unknown, modules=[__name__])
        assert score.value is None, score
        assert score.passed is None
        assert score.error


def test_the_table_has_every_scorer_that_needs_no_model() -> None:
    judged = {name for name, it in SCORERS.items() if it.family == "judged"}
    assert {it[0] for it in TABLE} | judged == set(SCORERS)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (ScorerSpec(scorer="similar"), "no such scorer"),
        (ScorerSpec(scorer="contains", options={"phrase": ["a"]}), "`phrase`"),
        (ScorerSpec(scorer="contains", options={"phrases": "a"}), "$.phrases"),
        (ScorerSpec(scorer="contains", options={"phrases": [""]}), "empty phrase"),
        (ScorerSpec(scorer="excludes", options={"phrases": []}), "`phrases`"),
        (ScorerSpec(scorer="regex", options={"pattern": "(?=a)"}), "RE2"),
        (ScorerSpec(scorer="regex"), "`pattern`"),
        (ScorerSpec(scorer="json_schema", options={"schema": {"type": 7}}), "schema"),
        (ScorerSpec(scorer="tool_call", options={"name": "a", "count": {"n": -1}}), "count.n"),
        (ScorerSpec(scorer="max_tokens", options={"max": -1}), "`max`"),
        (ScorerSpec(scorer="max_cost_usd", options={"max": float("nan")}), "`max`"),
        (ScorerSpec(scorer="no_secrets", options={"detectors": ["x"]}), "'x'"),
        (ScorerSpec(scorer="ended", threshold=1.5), "threshold"),
        (ScorerSpec(scorer="judge", options={"rubric": "good?"}), "no model to ask"),
        (ScorerSpec(scorer="python", options={"function": "os:system"}), "not allowed"),
        (ScorerSpec(scorer="python", options={"function": "tests.unitx:f"}), "not allowed"),
        (ScorerSpec(scorer="python", options={"function": f"{__name__}:nothing"}), "imported"),
    ],
)
def test_a_wrong_option_is_refused_by_name(spec: ScorerSpec, named: str) -> None:
    with pytest.raises(InvalidScorer) as caught:
        make_scorers([spec], modules=["scoring", "tests.unit"])
    assert named in str(caught.value)


def test_two_scorers_of_one_name_are_refused() -> None:
    spec = ScorerSpec(scorer="ended")
    with pytest.raises(InvalidScorer, match="two scorers"):
        make_scorers([spec, spec])


def test_a_version_changes_with_options_threshold_and_frame() -> None:
    class Asks:
        async def ask(self, *given: Any) -> Any:
            raise AssertionError

    specs = [
        ScorerSpec(scorer="contains", name="1", options={"phrases": ["a"]}),
        ScorerSpec(scorer="contains", name="2", options={"phrases": ["b"]}),
        ScorerSpec(scorer="contains", name="3", options={"phrases": ["a"]}, threshold=0.6),
        ScorerSpec(scorer="judge", name="4", options={"rubric": "good"}),
        ScorerSpec(scorer="judge", name="5", options={"rubric": "very good"}),
    ]
    made = make_scorers(specs, ask=Asks())
    assert len({it.version for it in made}) == len(specs)
    assert made[0].version == make_scorers(specs[:1])[0].version


@pytest.mark.parametrize("function", ["hang", "loop_forever"])
def test_a_scorer_that_hangs_is_an_error_and_stalls_nothing(function: str) -> None:
    spec = ScorerSpec(scorer="python", options={"function": f"{__name__}:{function}"})

    async def score() -> Score:
        (scorer,) = make_scorers([spec], modules=[__name__], seconds=0.2)
        return await scorer.score(make_outcome("x"))

    HUNG_IN.clear()
    found = asyncio.run(score())
    assert found.value is None
    assert "0.2 s" in str(found.error)
    # Not in the thread of the loop, which goes on meanwhile.
    while not HUNG_IN:
        time.sleep(0.01)
    assert threading.get_ident() not in HUNG_IN


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("regex", {"pattern": "(a|b)*c$"}),
        ("token_f1", {"value": "word " * 1_000}),
        ("edit_similarity", {"value": "b" * 20_000}),
        ("contains", {"phrases": ["z"], "ignore_case": True}),
        ("no_secrets", {}),
        ("json_schema", {"schema": SCHEMA, "part": "text"}),
    ],
)
def test_a_large_answer_does_not_stall_the_loop(name: str, options: dict[str, Any]) -> None:
    outcome = make_outcome("a b " * 250_000)

    async def score() -> tuple[Any, float]:
        (scorer,) = make_scorers([ScorerSpec(scorer=name, options=options)])
        scoring = asyncio.create_task(scorer.score(outcome))
        used = worst = 0.0
        while not scoring.done():
            before = time.thread_time()
            await asyncio.sleep(0.001)
            used = time.thread_time() - before
            worst = max(worst, used)
        return scoring.result(), worst

    found, worst = asyncio.run(score())
    assert found.value is not None or found.error
    # CPU time of the loop's own thread in one turn: what a stall would be made of.
    assert worst < 0.05


def test_the_subset_rule() -> None:
    assert find_mismatch({"a": 1}, {"a": 1, "b": 2}) is None
    assert find_mismatch({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2, "d": 3}]}}) is None
    assert find_mismatch([1, 2], [1, 2, 3]) == "/"
    assert find_mismatch({"a/b": {"~": 1}}, {"a/b": {"~": 2}}) == "/a~1b/~0"
    assert find_mismatch({"a": None}, {}) == "/a"
    assert find_mismatch({"a": 1}, {"a": True}) == "/a"
    assert find_mismatch({"a": 1}, {"a": 1.0}) is None
    assert find_mismatch({}, None) == "/"
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert find_mismatch(deep, deep) is not None
    assert is_equal({"a": 1}, {"a": 1})
    assert not is_equal({"a": 1}, {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("ab", "ba", 2)],
)
def test_edits_are_counted(first: str, second: str, edits: int) -> None:
    assert count_edits(first, second) == count_edits(second, first) == edits


def test_expectations_of_rust_become_scorers_with_its_kinds() -> None:
    expect = Expectation(
        final_answer_contains=("banana",),
        final_answer_excludes=("apple",),
        tool_sequence=("a", "b"),
        tool_sequence_mode=SequenceMode.ORDERED_SUBSEQ,
        forbidden_tools=("c",),
        required_tool_calls=(
            RequiredCall(name="a", args_subset={"x": 1}),
            RequiredCall(name="b", count=CallCount(op=CountOp.EXACTLY, n=0)),
        ),
        max_tokens_total=10,
        max_duration_ms=10,
        expected_error_type="rate_limit",
    )
    specs = list(list_expected_specs(expect))
    calls = (make_call("b"), make_call("c"), make_call("a", {"x": 2}))
    scores = score_all(specs, make_outcome("apple", *calls))
    assert [it.kind for it in scores] == [
        "answer_missing_phrase",
        "answer_contains_excluded_phrase",
        "tool_sequence_mismatch",
        "forbidden_tool_used",
        "required_tool_call_not_satisfied",
        "required_tool_call_not_satisfied",
        "token_budget_exceeded",
        "duration_exceeded",
        "expected_error_missing",
    ]
    good = make_outcome(
        "banana",
        make_call("a", {"x": 1, "y": 2}),
        make_call("d"),
        run={
            "termination": Failed(message="", code="rate_limit"),
            "duration_ms": 10,
            "usage": TokenUsage(total_tokens=10),
        },
    )
    kinds = [it.kind for it in score_all(specs, good)]
    assert kinds == ["", "", "tool_sequence_mismatch", "", "", "", "", "", ""]
    (only,) = score_all(list(list_expected_specs(Expectation())), FAILED)
    assert only.kind == "replay_runtime_failure"
    with pytest.raises(InvalidScorer, match="min_judge_score"):
        list_expected_specs(Expectation(min_judge_score=0.5))


def test_unknown_usage_of_a_step_is_missing_unless_the_limit_is_exceeded_anyway() -> None:
    steps = (make_step(), make_step(n=2, usage=None))
    recording = make_recording(*steps, run={"usage": TokenUsage(total_tokens=100)})
    outcome = make_outcome(recording=recording)
    assert score_one("max_tokens", {"max": 100}, outcome).error
    assert score_one("max_tokens", {"max": 99}, outcome).kind == "token_budget_exceeded"


def test_a_threshold_is_passed_from_its_value_on() -> None:
    outcome = make_outcome("a b", expected="a c")
    score = score_one("token_f1", {}, outcome, threshold=0.5)
    assert (score.value, score.passed) == (0.5, True)
    assert score_one("token_f1", {}, outcome, threshold=0.500001).passed is False


def test_a_cancelled_score_is_cancelled() -> None:
    spec = ScorerSpec(scorer="python", options={"function": f"{__name__}:hang"})

    async def cancel() -> None:
        (scorer,) = make_scorers([spec], modules=[__name__], seconds=5)
        scoring = asyncio.create_task(scorer.score(make_outcome("x")))
        await asyncio.sleep(0.05)
        scoring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await scoring

    asyncio.run(cancel())


def test_the_decision_on_a_refused_call_counts_as_asked() -> None:
    tickets = (AskedTicket(call_id=MAIL.id, tool="send_mail", action=str(DecisionAction.CANCEL)),)
    assert score_one(
        "asked_before", {"tool": "send_mail"}, make_outcome("", MAIL, tickets=tickets)
    ).passed


@pytest.mark.parametrize("text", ["", "three", "{", '{"total": 3}.', '```json\n{"total": 3}\n```'])
@pytest.mark.parametrize(
    ("scorer", "options"),
    [
        ("json_schema", {"schema": SCHEMA}),
        ("json_subset", {"value": {"total": 3}}),
        ("number_close", {"value": 3, "path": "/total"}),
    ],
)
def test_an_answer_that_is_no_json_is_a_wrong_answer_and_no_missing_score(
    scorer: str, options: dict[str, Any], text: str
) -> None:
    score = score_one(scorer, options, make_outcome(text))
    assert (score.value, score.passed, score.error) == (0, False, None)
    assert (score.kind, "no JSON" in score.reason) == ("answer_is_no_json", True)
    assert score_one(scorer, options, UNTYPED).value == 1


def own_object(outcome: Outcome) -> dict[str, Any]:
    evidence: Any = object() if outcome.text == "object" else "x" * 100_000
    return {"value": 1, "evidence": evidence, "label": "l" * 1_000}


def test_evidence_is_json_of_a_bounded_size() -> None:
    options = {"function": f"{__name__}:own_object"}
    score = score_one("python", options, make_outcome("object"), modules=[__name__])
    assert score.value is None
    assert "no JSON" in str(score.error)
    score = score_one("python", options, make_outcome("large"), modules=[__name__])
    assert (score.value, score.evidence, len(score.label)) == (1, None, 100)


def test_many_scores_at_once_are_no_hung_ones() -> None:
    spec = ScorerSpec(scorer="python", options={"function": f"{__name__}:own_slow"})

    async def score() -> list[Any]:
        (scorer,) = make_scorers([spec], modules=[__name__])
        return await asyncio.gather(*(scorer.score(make_outcome("x")) for _ in range(100)))

    assert all(it.passed for it in asyncio.run(score()))


def own_slow(outcome: Outcome) -> bool:
    time.sleep(0.05)
    return True


def test_hung_calls_are_counted_until_they_return() -> None:
    threads = AbandonableThreads(2)
    go_on = threading.Event()
    hung = [threads.submit(go_on.wait) for _ in range(2)]
    assert [it.cancel() for it in hung] == [True, True]
    with pytest.raises(RuntimeError, match="2 scorers"):
        threads.submit(int)
    go_on.set()
    for _ in range(500):
        if threads._hung == 0:
            break
        time.sleep(0.01)
    assert threads.submit(int).result(timeout=10) == 0
    assert threads._hung == 0


def score_halves(outcome: Outcome) -> dict[str, Any]:
    """Say why with halves of surrogate pairs, which no store can write."""
    return {"value": 0, "reason": "why \ud800", "label": "\udfff", "kind": "\ud800"}


def score_unknown_halves(outcome: Outcome) -> dict[str, Any]:
    return {"\ud800": 1}


@pytest.mark.parametrize("function", [score_halves, score_unknown_halves])
def test_whatever_a_function_says_can_be_stored(function: Any) -> None:
    (scorer,) = make_scorers([scorers.python(function)])
    found = asyncio.run(scorer.score(make_outcome("x")))
    msgspec.msgpack.encode(found)
    assert "?" in (found.error or found.reason)


def test_a_function_at_hand_scores_without_permission_and_names_the_score() -> None:
    spec = scorers.python(score_halves)
    assert (spec.name, spec.options) == ("score_halves", {"function": f"{__name__}:score_halves"})
    # Who has only its name needs the permission to import it.
    unnamed = {"function": f"{__name__}:score_by_name"}
    with pytest.raises(InvalidScorer, match=r"scorers\.python"):
        make_scorers([ScorerSpec(scorer="python", options=unnamed)])


def test_a_function_that_no_file_can_name_is_refused() -> None:
    def score(outcome: Outcome) -> bool:
        return True

    for given in (score, lambda _: True, "x".upper):
        with pytest.raises(InvalidScorer, match="no function of a module"):
            scorers.python(given)


def close(outcome: Outcome) -> bool:
    raise GeneratorExit


def test_a_function_that_raises_generator_exit_is_an_error_and_closes_nothing() -> None:
    """It would pass for the end of the task that scores, and the eval would never end."""
    (scorer,) = make_scorers(
        [ScorerSpec(scorer="python", options={"function": f"{__name__}:close"})],
        modules=(__name__,),
    )
    score = asyncio.run(scorer.score(make_outcome("x")))
    assert score.value is None
    assert score.error == "the scorer failed: RuntimeError: the function raised GeneratorExit"
