"""Values of a delivery: compared as JSON, and never a thread that unrelated events share."""

import itertools
from typing import Any

import pytest

from awaken.contracts.storage.schedules import RunTarget, SignatureScheme, TriggerSpec
from awaken.scheduling.mapping import is_same, map_target

DIFFERENT: list[Any] = [None, True, False, 0, 1, "1", "true", "", [], [1], [True], {}, {"a": 1}]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(DIFFERENT, 2)))
def test_values_that_json_tells_apart_are_not_the_same(one: Any, other: Any) -> None:
    assert not is_same(one, other)
    assert not is_same(other, one)
    assert is_same(one, one)


def test_numbers_are_the_same_however_they_are_written() -> None:
    assert is_same(1, 1.0)
    assert is_same({"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2.0}]})
    assert not is_same({"a": [1, {"b": 1}]}, {"a": [1, {"b": True}]})


def make_spec(thread: str) -> TriggerSpec:
    return TriggerSpec(
        scheme=SignatureScheme.GITHUB,
        secrets=("env:HOOK_A",),
        target=RunTarget(agent_id="a"),
        thread=thread,
    )


@pytest.mark.parametrize("body", [{"a": 1}, {"issue": {}}, {"issue": {"number": None}}, [], "x"])
def test_an_event_without_the_value_of_its_thread_has_a_thread_of_its_own(body: Any) -> None:
    for thread in ("{/issue/number}", "issue-{/issue/number}", "{/action}-{/issue/number}"):
        spec = make_spec(thread)
        assert map_target(spec, "issues", body).thread_id is None
    found = map_target(make_spec("{/issue/number}"), "issues", {"issue": {"number": 0}})
    assert found.thread_id == "issues.0"
