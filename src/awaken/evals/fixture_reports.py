"""Reports in the form of Awaken for Rust: one for each fixture, as a line of NDJSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, ItemStatus
from awaken.contracts.evals.scores import Score
from awaken.contracts.evals.verdicts import FixtureDifference
from awaken.contracts.models.inference import TokenUsage
from awaken.scoring.expectations import SEQUENCE_FITS
from awaken.scoring.fixture_diffs import OBSERVED, diff_reports

_RUNTIME = "replay_runtime_failure"
_JUDGED = "judge_below_threshold"
_TOKENS = ("total_input_tokens", "total_output_tokens", "total_tokens")
_LISTED = {
    "answer_missing_phrase": "phrase",
    "answer_contains_excluded_phrase": "phrase",
    "forbidden_tool_used": "tool",
}
"""Failures that Rust states one by one, and the field that names what each is about."""
_SEQUENCES = {fit: str(mode) for mode, fit in SEQUENCE_FITS.items()}


def build_report(item: EvalItem) -> dict[str, Any]:
    """Return the report of an item, with every field that Rust reads.

    Its form has no missing counts: they are 0, and `unknown` names them.
    """
    failures = [it for score in item.scores if not score.passed for it in _list_failures(score)]
    is_scored = item.status is ItemStatus.SCORED
    problem = None if is_scored else _describe_problem(item.error or item.status.value)
    if problem is not None:
        failures.append({"kind": _RUNTIME, "failure": problem, "detail": problem["message"]})
    judged = next((it for it in item.scores if it.judge is not None), None)
    counts = _count_tokens(item)
    counts["inference_count"] = item.inferences
    counts["session_duration_ms"] = item.ms
    report = {
        "fixture_id": item.case_id,
        "passed": not failures,
        "failures": failures,
        "final_text": item.text,
        "tool_count": len(item.calls),
        "tool_failures": len(item.failed_calls),
        **{name: it or 0 for name, it in counts.items()},
        "unknown": sorted(name for name, it in counts.items() if it is None) or None,
        "tool_calls_by_agent": _count_calls(item) or None,
        "error_type": (item.error or "").partition(":")[0] or None,
        "inference_error_count": item.failed_inferences or None,
        "runtime_failure": problem,
        "cost_usd": item.cost_usd,
        "judge_score": None if judged is None else judged.value,
        "judge_reasoning": None if judged is None else judged.reason,
    }
    return {name: value for name, value in report.items() if value is not None}


def _count_tokens(item: EvalItem) -> dict[str, int | None]:
    # No answer, no tokens: that is known.
    known = 0 if item.inferences == 0 else None
    usage = item.usage or TokenUsage()
    prompt = known if usage.prompt_tokens is None else usage.prompt_tokens
    completion = known if usage.completion_tokens is None else usage.completion_tokens
    total = None if prompt is None or completion is None else prompt + completion
    return dict(zip(_TOKENS, (prompt, completion, total), strict=True))


def _count_calls(item: EvalItem) -> list[dict[str, Any]]:
    called, failed = Counter(item.calls), Counter(item.failed_calls)
    return [
        {
            "agent_id": item.agent_id or "",
            "tool": tool,
            "call_count": count,
            "failure_count": failed[tool],
            # Times differ every time, and Rust would call that a drift.
            "total_duration_ms": 0,
        }
        for tool, count in sorted(called.items())
    ]


def _describe_problem(text: str) -> dict[str, Any]:
    return {"kind": "runtime_error", "message": text}


def _list_failures(score: Score) -> list[dict[str, Any]]:
    """Return a score that did not pass as Rust's failures, each with what a person reads.

    A score without a value says nothing about the answer: the replay failed to judge it.
    """
    kind, text = score.kind or score.name, score.reason or score.error or ""
    if score.value is None:
        kind = _RUNTIME
    found = score.evidence
    if kind in _LISTED and isinstance(found, list):
        return [{"kind": kind, _LISTED[kind]: it, "detail": text} for it in found]
    if kind == _RUNTIME:
        return [{"kind": kind, "failure": _describe_problem(text), "detail": text}]
    if kind == "tool_sequence_mismatch" and isinstance(found, dict):
        found = {**found, "mode": _SEQUENCES.get(found.get("mode", ""), "exact")}
    more = found if isinstance(found, dict) else {}
    if kind == _JUDGED:
        more = {**more, "threshold": score.threshold, "actual": score.value}
    return [{"kind": kind, **more, "detail": text}]


def diff_items(
    before: Sequence[EvalItem], after: Sequence[EvalItem]
) -> tuple[FixtureDifference, ...]:
    """Compare all samples of two evals, fixture by fixture, for each model of the second one.

    A model is compared with itself, or with the only one that the first eval has.

    Raises:
        InvalidDataset: A report is broken.
    """
    old, new = _merge_cells(before), _merge_cells(after)
    if len(old) == 1:
        (only,) = old.values()
        old = dict.fromkeys(new, only) or old
    is_one = len({*old, *new}) == 1
    found = []
    for cell in dict.fromkeys((*new, *old)):
        for it in diff_reports(old.get(cell, ()), new.get(cell, ())):
            found.append(it if is_one else msgspec.structs.replace(it, cell=cell))
    return tuple(found)


def _merge_cells(items: Sequence[EvalItem]) -> dict[str, list[dict[str, Any]]]:
    """Return one report for each fixture of each variant, made of all its samples."""
    sampled: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for it in items:
        reports = sampled.setdefault(it.variant, {}).setdefault(it.case_id, [])
        reports.append(build_report(it))
    return {
        cell: [_merge_samples(reports) for reports in fixtures.values()]
        for cell, fixtures in sampled.items()
    }


def _merge_samples(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a report that passes if all do; a field that they do not share has all values."""
    merged: dict[str, Any] = {
        "fixture_id": reports[0]["fixture_id"],
        "passed": all(it["passed"] for it in reports),
        "failures": list({it["kind"]: it for each in reports for it in each["failures"]}.values()),
    }
    for name in OBSERVED:
        values = {msgspec.json.encode(it.get(name), order="sorted"): it.get(name) for it in reports}
        shown = [values[it] for it in sorted(values)]
        merged[name] = shown[0] if len(shown) == 1 else shown
    return merged


def build_run(record: EvalRecord, items: Sequence[EvalItem]) -> dict[str, Any]:
    """Return an eval as a run of evals."""
    is_one = len(record.spec.variants) == 1
    run: dict[str, Any] = {
        "id": record.eval_id,
        "dataset_id": record.spec.dataset_id,
        "dataset_revision": record.revision,
        "execution_mode": str(record.spec.mode_or_live),
        "status": str(record.status),
        "items": [
            {
                "fixture_id": it.case_id,
                **({} if is_one else {"cell": it.variant}),
                "report": build_report(it),
                "trace_run_id": it.run_id,
                "sample_index": it.sample,
            }
            for it in items
        ],
        "started_at_secs": (record.started_at or record.created_at) // 1000,
    }
    if record.finished_at is not None:
        run["ended_at_secs"] = record.finished_at // 1000
    return run


def build_summary(record: EvalRecord, items: Sequence[EvalItem]) -> dict[str, Any]:
    """Return an eval as a row of a list: without its items, but counted."""
    run = build_run(record, ())
    del run["items"]
    passed = sum(build_report(it)["passed"] for it in items)
    counts = {"item_count": len(items), "passed_count": passed}
    return {**run, **counts, "failed_count": len(items) - passed}


def build_aggregates(record: EvalRecord) -> list[dict[str, Any]]:
    """Return the figures of an ended eval, one for each variant and scorer."""
    return [
        {"cell": variant["variant"], **scorer}
        for variant in record.summary.get("variants", ())
        for scorer in variant.get("scorers", ())
    ]
