"""What of a webhook's body becomes a text, and how much of it."""

import json
from typing import Any

import pytest

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.schedules import (
    EventFilter,
    RunTarget,
    SignatureScheme,
    TriggerSpec,
)
from awaken.scheduling.mapping import (
    BODY_BYTES_MAX,
    VALUE_BYTES_MAX,
    check_mapping,
    describe_missing,
    is_wanted,
    map_target,
)
from awaken.scheduling.run_requests import read_input


def told(body: Any, template: Any = "") -> str:
    spec = TriggerSpec(
        scheme=SignatureScheme.GITHUB,
        secrets=("env:HOOK_A",),
        target=RunTarget(agent_id="a", input=template),
    )
    text = map_target(spec, "@acme:hook", body).input
    assert read_input(text)
    return text


@pytest.mark.parametrize(
    "value", ["x" * 50_000, ['é\n\x01"' * 50_000], {"a": "\U0001f600" * 9_000}]
)
def test_a_value_that_is_cut_stays_one_json_text_and_says_so(value: Any) -> None:
    text = told({"v": value, "end": "stop"}, "Data: {/v}. Then {/end}.")
    assert text.endswith('characters]. Then "stop".')
    data = text.removeprefix("Data: ")
    begin, end = json.JSONDecoder().raw_decode(data)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    whole = value if isinstance(value, str) else compact
    assert begin[:100] == whole[:100]
    assert len(data[:end].encode()) <= VALUE_BYTES_MAX
    assert data[end:].startswith(f" [cut: the first {len(begin)} of ")


@pytest.mark.parametrize(
    "value", ["x" * 500_000, '"\\' * 200_000, "\x01" * 100_000, "\U0001f600" * 90_000]
)
def test_a_body_of_any_size_is_an_input_that_a_run_takes(value: str) -> None:
    _, _, data = told({"v": value}).partition("\n")
    _, end = json.JSONDecoder().raw_decode(data)
    assert len(data[:end].encode()) <= BODY_BYTES_MAX
    assert data[end:].startswith(" [cut: ")


def test_a_placeholder_in_the_body_stays_text() -> None:
    assert told({"v": "{/w} {}", "w": "secret"}).endswith('{"v":"{/w} {}","w":"secret"}')


def hook(target: RunTarget | None = None, **fields: Any) -> TriggerSpec:
    return TriggerSpec(
        scheme=SignatureScheme.GITHUB,
        secrets=("env:HOOK_A",),
        target=target or RunTarget(agent_id="a"),
        **fields,
    )


@pytest.mark.parametrize("body", [{}, {"issue": {"number": None}}, {"issue": 5}, [], None])
def test_an_event_that_names_no_thread_gets_one_of_its_own(body: Any) -> None:
    for thread in ("{/issue/number}", "issue-{/issue/number}", "{/a}-{/issue/number}"):
        assert map_target(hook(thread=thread), "hook", body).thread_id is None
    known = {"issue": {"number": 7}}
    assert map_target(hook(thread="{/issue/number}"), "hook", known).thread_id == "hook.7"


@pytest.mark.parametrize(
    ("wanted", "given", "is_same"),
    [
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (1, 1.0, True),
        (None, False, False),
        ([True], [1], False),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ("1", 1, False),
    ],
)
def test_a_filter_compares_json_and_not_python(wanted: Any, given: Any, is_same: bool) -> None:
    assert is_wanted(EventFilter(where={"/v": wanted}), None, {"v": given}) is is_same


@pytest.mark.parametrize("pointer", ["/a~b", "/a~", "/~2"])
def test_a_malformed_pointer_is_refused_when_the_trigger_is_made(pointer: str) -> None:
    for spec in (
        hook(RunTarget(agent_id="a", input=f"hi {{{pointer}}}")),
        hook(thread=f"{{{pointer}}}"),
        hook(filter=EventFilter(where={pointer: 1})),
    ):
        with pytest.raises(InvalidInput, match="~0 stands for ~"):
            check_mapping(spec)
    check_mapping(hook(RunTarget(agent_id="a", input="hi {/a~1b~0c}")))


def test_places_that_an_event_does_not_have_are_named() -> None:
    spec = hook(RunTarget(agent_id="a", input="{/isue/title} by {/user}", context={"n": "{/n}"}))
    assert describe_missing(spec, {"user": "ann"}) == "the event has nothing at /isue/title, /n"
    assert describe_missing(hook(RunTarget(agent_id="a", input="{/a}")), {"a": 0}) is None
