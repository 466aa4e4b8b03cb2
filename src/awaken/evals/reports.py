"""Results of evals as documents: for people, for CI, and as baselines of later evals."""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.eval_runs import EvalItem, EvalStatus, ItemStatus
from awaken.contracts.evals.verdicts import (
    EvalComparison,
    GateStatus,
    Interval,
    ScorerFigures,
)

from .evaluating import EvalResult

FORMAT = "eval/1"
_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no document of XML 1.0 can have, and the carriage return, which it does not keep."""
MISSING_MAX = 0.02
"""The share of samples that providers may fail, without a gate."""


class ExitCode(IntEnum):
    """How `awaken eval run` ends."""

    PASSED = 0
    GATE_FAILED = 1
    BAD_INPUT = 2
    INCOMPLETE = 3
    INFRA_ERRORS = 4


def choose_exit(result: EvalResult) -> ExitCode:
    """Return the exit code of a result."""
    failed = sum(it.status is ItemStatus.INFRA_ERROR for it in result.items)
    if result.gate is not None:
        # The gate, of the eval or of the dataset, says how many may be missing.
        lacks = [it for it in result.gate.checks if it.condition == "max_missing"]
        is_lacking = any(it.status is not GateStatus.PASSED for it in lacks)
    else:
        is_lacking = failed / max(1, result.record.planned) > MISSING_MAX
    has_cut = any(it.status is ItemStatus.CUT for it in result.items)
    if failed and is_lacking and not has_cut:
        return ExitCode.INFRA_ERRORS
    if has_cut or result.record.status not in (EvalStatus.DONE, EvalStatus.INCOMPLETE):
        return ExitCode.INCOMPLETE
    return ExitCode.PASSED if result.is_passed else ExitCode.GATE_FAILED


def to_json(result: EvalResult) -> bytes:
    """Return a result as JSON; `read_result` reads it again."""
    document = {"format": FORMAT, **msgspec.to_builtins(result)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def read_result(data: bytes, what: str) -> EvalResult:
    """Read a result that `to_json` wrote.

    Raises:
        InvalidDataset: It is none.
    """
    try:
        document = msgspec.json.decode(data)
        if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
            raise InvalidDataset(what=what, problem=f"it is no result of an eval ({FORMAT})")
        return msgspec.convert(document, EvalResult)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidDataset(what=what, problem=str(error)) from error


def to_markdown(result: EvalResult) -> str:
    """Return a result as Markdown, for the summary of a job."""
    record = result.record
    lines = [
        f"# Eval of `{record.spec.dataset_id}`, revision {record.revision}",
        "",
        f"{_say_end(result)} {len(result.items)} of {record.planned} samples, "
        f"mode {record.spec.mode_or_live}.",
        *([] if record.problem is None else ["", f"It ended {record.status}: {record.problem}"]),
        "",
        "| variant | scorer | rate | 95 % | samples | errors | missing |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for variant in result.figures.variants:
        lines += [_row(variant.variant, it) for it in variant.scorers]
    for comparison in result.figures.comparisons:
        lines += ["", *_describe_comparison(comparison)]
    lines += ["", *_describe_gate(result), *_list_failures(result.items)]
    return "\n".join(lines).rstrip() + "\n"


def _say_end(result: EvalResult) -> str:
    match choose_exit(result):
        case ExitCode.PASSED:
            return "**Passed.**"
        case ExitCode.GATE_FAILED:
            return "**Failed.**"
        case ExitCode.INFRA_ERRORS:
            return "**Undecided: providers failed too often.**"
        case _:
            return "**Incomplete.**"


def _row(variant: str, it: ScorerFigures) -> str:
    rate = "-" if it.rate is None else f"{it.rate:.3f}"
    cells = (variant, it.scorer, rate, _show(it.interval), it.samples, it.errors, it.missing)
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _show(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"


def _describe_comparison(comparison: EvalComparison) -> list[str]:
    return [
        f"`{comparison.second}` against `{comparison.first}`:",
        "",
        *(f"- {it.scorer}: **{it.verdict}**. {it.reason}" for it in comparison.scorers),
        *(f"- {it}" for it in comparison.warnings),
    ]


def _describe_gate(result: EvalResult) -> list[str]:
    gate = result.gate
    if gate is None:
        return []
    return [
        f"Gate: **{gate.status}**",
        "",
        *(f"- {it.condition}: {it.status}. {it.reason}" for it in gate.checks),
        *(f"- warning: {it}" for it in (*gate.warnings, *result.figures.warnings)),
        "",
    ]


def _list_failures(items: Sequence[EvalItem], limit: int = 50) -> list[str]:
    failed = [it for it in items if describe_item(it)]
    if not failed:
        return []
    lines = ["Samples that did not pass:", ""]
    for it in failed[:limit]:
        where = f"{it.case_id} / {it.variant} / {it.sample}"
        # One line for each: what an agent said may have its own.
        lines.append(f"- `{where}`: {' '.join('; '.join(describe_item(it)).split())}")
    if len(failed) > limit:
        lines.append(f"- and {len(failed) - limit} more")
    return lines


def describe_item(item: EvalItem) -> list[str]:
    """Return what did not pass in a sample; nothing if all did."""
    found = [
        f"{it.name}: {it.error or it.reason or it.value}" for it in item.scores if not it.passed
    ]
    if item.status is not ItemStatus.SCORED:
        found.append(f"{item.status}: {item.error or ''}".rstrip(": "))
    return found


def to_junit(result: EvalResult) -> bytes:
    """Return a result as JUnit XML: one suite for each variant, one test for each case.

    A gate, and an eval that did not end, are a suite of their own: whatever `choose_exit` does not
    call passed has a failure or an error.
    """
    root = ET.Element("testsuites")
    for variant in dict.fromkeys(it.variant for it in result.items):
        own = [it for it in result.items if it.variant == variant]
        cases = list(dict.fromkeys(it.case_id for it in own))
        suite = ET.SubElement(root, "testsuite", name=f"{result.record.spec.dataset_id}.{variant}")
        counts: dict[str, int] = {"failures": 0, "errors": 0, "skipped": 0}
        for case_id in cases:
            samples = [it for it in own if it.case_id == case_id]
            kind = _add_case(suite, variant, case_id, samples)
            if kind is not None:
                counts[kind] += 1
        suite.set("tests", str(len(cases)))
        for name, count in counts.items():
            suite.set(name, str(count))
        suite.set("time", f"{sum(it.ms or 0 for it in own) / 1000:.3f}")
    _add_end(root, result)
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _add_end(root: ET.Element, result: EvalResult) -> None:
    """Add how the eval ended: what its gate says, or what kept it from its end."""
    code, gate = choose_exit(result), result.gate
    is_over = code in (ExitCode.PASSED, ExitCode.GATE_FAILED)
    if gate is None and is_over:
        return
    name = result.record.spec.dataset_id
    is_failed = is_over and code is ExitCode.GATE_FAILED
    suite = ET.SubElement(root, "testsuite", name=name, tests="1", skipped="0", time="0.000")
    suite.set("failures", str(int(is_failed)))
    suite.set("errors", str(int(not is_over)))
    what = "(eval)" if gate is None else "(gate)"
    made = ET.SubElement(suite, "testcase", name=what, classname=name, time="0.000")
    if code is ExitCode.PASSED:
        return
    checks = () if gate is None else gate.checks
    lines = [f"{it.condition}: {it.status}. {it.reason}" for it in checks]
    problem = result.record.problem or f"it ended {result.record.status}"
    message = f"the gate {gate.status}" if gate is not None and is_over else problem
    found = ET.SubElement(made, "failure" if is_failed else "error", message=_clean(message))
    found.text = _clean("\n".join(lines)) or None


def _add_case(
    suite: ET.Element, variant: str, case_id: str, samples: Sequence[EvalItem]
) -> str | None:
    seconds = f"{sum(it.ms or 0 for it in samples) / 1000:.3f}"
    made = ET.SubElement(suite, "testcase", name=case_id, classname=variant, time=seconds)
    missing = [it for it in samples if it.status.is_missing]
    failed = [it for it in samples if not it.status.is_missing and describe_item(it)]
    attributes: dict[str, Any]
    if failed:
        attributes = {"message": f"{len(failed)} of {len(samples)} samples failed"}
        text = "\n".join(f"sample {it.sample}: {'; '.join(describe_item(it))}" for it in failed)
        ET.SubElement(made, "failure", attributes).text = _clean(text)
        return "failures"
    if len(missing) == len(samples):
        attributes = {"message": _clean(missing[0].error or str(missing[0].status))}
        ET.SubElement(made, "skipped", attributes)
        return "skipped"
    return None


def _clean(text: str) -> str:
    """Return a text without characters that XML does not have."""
    return _NO_XML.sub("", text)
