"""JUnit XML of evals: by its schema, and never green for what did not pass."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from awaken.contracts.evals.eval_runs import (
    EvalItem,
    EvalRecord,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.scores import Score
from awaken.contracts.evals.verdicts import GateCheck, GateResult, GateStatus
from awaken.contracts.evals.worlds import Variant
from awaken.evals import EvalResult
from awaken.evals.reports import ExitCode, choose_exit, to_junit, to_markdown
from awaken.evals.results import EvalFigures

_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")
_SAID = ({"message", "type"}, set(), set())
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    # Attributes that may be there, those that must, and children; as in Jenkins' `junit-10.xsd`.
    "testsuites": (
        {"name", "time", "tests", "failures", "disabled", "errors"},
        set(),
        {"testsuite"},
    ),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp"}
        | {"hostname", "id", "package", "file", "log", "url", "version"},
        {"name", "tests", "failures", "errors"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "classname", "time", "group"},
        {"name", "classname"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": _SAID,
    "error": _SAID,
    "skipped": _SAID,
}


def check_schema(element: ET.Element) -> None:
    allowed, needed, children = SCHEMA[element.tag]
    assert needed <= set(element.keys()) <= allowed, (element.tag, element.keys())
    assert _TIME.fullmatch(element.get("time", "")), element.get("time")
    if element.tag not in ("failure", "error", "skipped"):
        assert not (element.text or "").strip()
    for child in element:
        assert child.tag in children, (element.tag, child.tag)
        check_schema(child)
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        assert element.get("tests") == str(len(cases))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert element.get(name) == str(sum(it.find(tag) is not None for it in cases))


def make_item(number: int, status: ItemStatus = ItemStatus.SCORED, **fields: Any) -> EvalItem:
    return EvalItem(
        number=number, case_id=f"c{number}", variant="v", sample=0, status=status, ms=1_234_567,
        **fields,
    )  # fmt: skip


def make_score(*, is_passed: bool | None, **fields: Any) -> Score:
    value = None if is_passed is None else float(is_passed)
    return Score(name="says", value=value, passed=is_passed, **fields)


PASSED = make_item(0, scores=(make_score(is_passed=True),))
HOSTILE = "a\x00b\x1b[31m\r]]> <x> & \"' \ufffe\uffff \ud800 \U0001f600\n# not a heading"
RESULTS = {
    "passed": ([PASSED], EvalStatus.DONE, None),
    "failed": (
        [make_item(0, scores=(make_score(is_passed=False, reason=HOSTILE),))], EvalStatus.DONE, None
    ),
    "unscored": (
        [make_item(0, scores=(make_score(is_passed=None, error=HOSTILE),))], EvalStatus.DONE, None
    ),
    "diverged": ([make_item(0, ItemStatus.DIVERGED, error=HOSTILE)], EvalStatus.DONE, None),
    "cut": ([PASSED, make_item(1, ItemStatus.CUT)], EvalStatus.INCOMPLETE, None),
    "providers": ([make_item(0, ItemStatus.INFRA_ERROR, error=HOSTILE)], EvalStatus.DONE, None),
    "nothing": ([], EvalStatus.FAILED, None),
    "cancelled": ([PASSED], EvalStatus.CANCELLED, None),
    "gate passed": ([PASSED], EvalStatus.DONE, GateStatus.PASSED),
    "gate failed": ([PASSED], EvalStatus.DONE, GateStatus.FAILED),
    "gate undecided": ([PASSED], EvalStatus.DONE, GateStatus.UNDECIDED),
}  # fmt: skip


def make_result(name: str) -> EvalResult:
    items, status, gate = RESULTS[name]
    spec = EvalSpec(dataset_id="refunds", variants=(Variant(name="v"),))
    problem = HOSTILE if status is EvalStatus.FAILED else None
    record = EvalRecord(
        eval_id="e", spec=spec, revision=1, status=status, planned=max(1, len(items)),
        problem=problem,
    )  # fmt: skip
    checks = (GateCheck(condition="require[0]", status=gate, reason=HOSTILE),) if gate else ()
    judged = None if gate is None else GateResult(status=gate, checks=checks)
    return EvalResult(record=record, items=tuple(items), figures=EvalFigures(gate=judged))


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_fits_the_schema_and_is_green_only_if_the_eval_passed(name: str) -> None:
    result = make_result(name)
    root = ET.fromstring(to_junit(result))
    check_schema(root)
    problems = [*root.iter("failure"), *root.iter("error")]
    assert bool(problems) == (choose_exit(result) is not ExitCode.PASSED)


@pytest.mark.parametrize("name", ["failed", "unscored", "diverged"])
def test_what_an_agent_says_stays_in_its_line(name: str) -> None:
    assert "\n# not a heading" not in to_markdown(make_result(name))
