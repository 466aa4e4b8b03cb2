"""Two reports compared fixture by fixture, as Awaken for Rust does it: equality, no statistics."""

from collections.abc import Iterable, Mapping
from typing import Any

from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.verdicts import FixtureChange, FixtureDifference

OBSERVED = (
    "final_text",
    "inference_count",
    "tool_count",
    "tool_failures",
    "total_input_tokens",
    "total_output_tokens",
    "total_tokens",
    "error_type",
    "inference_error_count",
    "runtime_failure",
    "tool_calls_by_agent",
    "cost_usd",
)
"""The fields whose change is a drift. Times are not among them: they differ every time."""

Report = Mapping[str, Any]


def diff_reports(
    baseline: Iterable[Report], new: Iterable[Report]
) -> tuple[FixtureDifference, ...]:
    """Compare the reports of two replays, by fixture id.

    Raises:
        InvalidDataset: A report has no `fixture_id` or `passed`, or a fixture has two.
    """
    before, after = _index_reports(baseline, "baseline"), _index_reports(new, "new report")
    return tuple(
        _diff_fixture(it, before.get(it), after.get(it)) for it in sorted({*before, *after})
    )


def _index_reports(reports: Iterable[Report], what: str) -> dict[str, Report]:
    found: dict[str, Report] = {}
    for number, report in enumerate(reports, start=1):
        fixture_id, passed = report.get("fixture_id"), report.get("passed")
        if not isinstance(fixture_id, str) or not isinstance(passed, bool):
            problem = "it has no `fixture_id` and `passed`"
            raise InvalidDataset(what=f"Line {number} of the {what}", problem=problem)
        if fixture_id in found:
            problem = f"fixture '{fixture_id}' is there twice"
            raise InvalidDataset(what=f"Line {number} of the {what}", problem=problem)
        found[fixture_id] = report
    return found


def _diff_fixture(fixture_id: str, old: Report | None, new: Report | None) -> FixtureDifference:
    if new is None:
        return FixtureDifference(kind=FixtureChange.MISSING_FROM_NEW, fixture_id=fixture_id)
    kind, found = _compare_reports(old, new)
    return FixtureDifference(kind=kind, fixture_id=fixture_id, **found)


def _compare_reports(old: Report | None, new: Report) -> tuple[FixtureChange, dict[str, Any]]:
    if old is None:
        return FixtureChange.NEWLY_ADDED, {"passed": new["passed"]}
    if not new["passed"]:
        failures = tuple(_name_failure(it) for it in new.get("failures") or ())
        kind = FixtureChange.REGRESSION if old["passed"] else FixtureChange.STILL_FAILING
        return kind, {"new_failures": failures}
    if not old["passed"]:
        return FixtureChange.FIXED, {}
    fields = tuple(it for it in OBSERVED if old.get(it) != new.get(it))
    return (FixtureChange.DRIFT, {"fields": fields}) if fields else (FixtureChange.UNCHANGED, {})


def _name_failure(failure: Any) -> str:
    return str(failure.get("kind", "")) if isinstance(failure, Mapping) else str(failure)
