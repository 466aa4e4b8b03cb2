"""The expectations of a fixture of Awaken for Rust, as scorers that keep its kinds of failures."""

from collections.abc import Iterator
from typing import Any

import msgspec

from awaken.contracts.evals.cases import Expectation, SequenceMode
from awaken.contracts.evals.errors import InvalidScorer
from awaken.contracts.evals.scores import ScorerSpec

SEQUENCE_FITS = {SequenceMode.EXACT: "exact", SequenceMode.ORDERED_SUBSEQ: "in_order"}
"""Rust's ways to compare sequences of tools, and ours."""


def list_expected_specs(
    expect: Expectation, judge: dict[str, Any] | None = None
) -> tuple[ScorerSpec, ...]:
    """The scorers of an expectation, in the order in which Rust lists failures.

    Args:
        expect: The expectation.
        judge: The options of the judge, `rubric` among them; only `min_judge_score` needs it.

    Raises:
        InvalidScorer: `min_judge_score` is given, and no judge.
    """
    return tuple(_list_specs(expect, judge))


def _list_specs(expect: Expectation, judge: dict[str, Any] | None) -> Iterator[ScorerSpec]:
    if expect.final_answer_contains:
        yield _make_spec("contains", phrases=expect.final_answer_contains)
    if expect.final_answer_excludes:
        yield _make_spec("excludes", phrases=expect.final_answer_excludes)
    if expect.tool_sequence:
        mode = SEQUENCE_FITS[expect.tool_sequence_mode]
        yield _make_spec("tool_sequence", tools=expect.tool_sequence, mode=mode)
    if expect.forbidden_tools:
        yield _make_spec("forbidden_tools", tools=expect.forbidden_tools)
    for place, call in enumerate(expect.required_tool_calls, start=1):
        given = {
            "name": call.name,
            "args_subset": call.args_subset,
            "result_subset": call.result_subset,
            "count": msgspec.UNSET if call.count is None else msgspec.to_builtins(call.count),
        }
        options = {name: it for name, it in given.items() if it is not msgspec.UNSET}
        yield ScorerSpec(scorer="tool_call", name=f"expect.tool_call.{place}", options=options)
    if expect.max_tokens_total is not None:
        yield _make_spec("max_tokens", max=expect.max_tokens_total)
    if expect.max_duration_ms is not None:
        yield _make_spec("max_ms", max=expect.max_duration_ms)
    yield _make_spec("error_type", expected=expect.expected_error_type)
    if expect.min_judge_score is not None:
        if judge is None:
            problem = "`min_judge_score` needs a judge; give the eval one with a rubric"
            raise InvalidScorer(scorer="judge", problem=problem)
        threshold = expect.min_judge_score
        yield ScorerSpec(scorer="judge", name="expect.judge", options=judge, threshold=threshold)


def _make_spec(scorer: str, **options: Any) -> ScorerSpec:
    plain = {name: list(it) if isinstance(it, tuple) else it for name, it in options.items()}
    return ScorerSpec(scorer=scorer, name=f"expect.{scorer}", options=plain)
