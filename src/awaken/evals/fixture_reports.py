"""Reports in the form of Awaken for Rust: one for each fixture, as a line of NDJSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, ItemStatus

_RUNTIME = "replay_runtime_failure"


def build_report(item: EvalItem) -> dict[str, Any]:
    """Return the report of an item."""
    failures: list[dict[str, Any]] = [
        {"kind": it.kind or it.name, "detail": it.reason or it.error or ""}
        for it in item.scores
        if not it.passed
    ]
    if item.status is not ItemStatus.SCORED:
        failures.append({"kind": _RUNTIME, "detail": item.error or item.status.value})
    judged = next((it for it in item.scores if it.judge is not None), None)
    usage = item.usage
    prompt = None if usage is None else usage.prompt_tokens
    completion = None if usage is None else usage.completion_tokens
    error = (item.error or "").partition(":")[0] if item.error else None
    report = {
        "fixture_id": item.case_id,
        "passed": not failures,
        "failures": failures,
        "final_text": item.text,
        "tool_count": len(item.calls),
        "total_input_tokens": prompt,
        "total_output_tokens": completion,
        "total_tokens": None if None in (prompt, completion) else (prompt or 0) + (completion or 0),
        "total_duration_ms": item.ms,
        "tool_calls_by_agent": dict(sorted(Counter(item.calls).items())),
        "error_type": error,
        "runtime_failure": None if item.status is ItemStatus.SCORED else item.error,
        "cost_usd": item.cost_usd,
        "judge_score": None if judged is None else judged.value,
        "judge_reasoning": None if judged is None else judged.reason,
    }
    return {name: value for name, value in report.items() if value is not None}


def build_run(record: EvalRecord, items: Sequence[EvalItem]) -> dict[str, Any]:
    """Return an eval as a run of evals."""
    is_one = len(record.spec.variants) == 1
    run: dict[str, Any] = {
        "id": record.eval_id,
        "dataset_id": record.spec.dataset_id,
        "dataset_revision": record.revision,
        "execution_mode": str(record.spec.mode),
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


def build_aggregates(record: EvalRecord) -> list[dict[str, Any]]:
    """Return the figures of an ended eval, one for each variant and scorer."""
    return [
        {"cell": variant["variant"], **scorer}
        for variant in record.summary.get("variants", ())
        for scorer in variant.get("scorers", ())
    ]
