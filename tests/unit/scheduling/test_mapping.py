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
    is_wanted,
    list_missing,
    map_target,
)
from awaken.scheduling.run_requests import read_input


def make_spec(template: Any = "", event: str | None = None, **fields: Any) -> TriggerSpec:
    return TriggerSpec(
        scheme=SignatureScheme.GITHUB,
        secrets=("env:HOOK_A",),
        target=RunTarget(agent_id="a", input=template, event=event),
        **fields,
    )


def told(body: Any, template: Any = "") -> str:
    spec = make_spec(template)
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


@pytest.mark.parametrize(
    ("body", "thread"),
    [
        ({"n": 1}, "hook.1"),
        ({"n": "1"}, "hook.1"),
        ({"n": "null"}, "hook.null"),
        ({"n": True}, "hook.true"),
        ({}, None),
        ({"n": None}, None),
        ({"n": ""}, None),
        ([], None),
    ],
)
def test_an_event_that_names_no_thread_shares_none(body: Any, thread: str | None) -> None:
    assert map_target(make_spec(thread="{/n}"), "@acme:hook", body).thread_id == thread
    if thread is None:
        with pytest.raises(InvalidInput, match="names the thread"):
            map_target(make_spec(event="paid", thread="{/n}"), "hook", body)


def test_values_that_are_no_ids_share_a_thread_when_they_are_equal() -> None:
    spec = make_spec(thread="{/n}")

    def name(value: Any) -> str | None:
        return map_target(spec, "hook", {"n": value}).thread_id

    assert name({"x": 1}) == name({"x": 1})
    assert len({name({"x": 1}), name({"x": 2}), name([]), name("a b"), name(1.5)}) == 5


def test_places_that_a_body_does_not_have_are_listed() -> None:
    spec = make_spec({"a": "{/a} {/b/0}", "b": ["{/c}"]}, thread="{/a}")
    assert list_missing(spec, {"b": [], "c": None}) == ("/a", "/b/0")
    assert list_missing(spec, {"a": 1, "b": [0], "c": 0}) == ()


@pytest.mark.parametrize("pointer", ["/a~b", "/~", "/a~2"])
def test_a_malformed_pointer_is_refused_when_the_trigger_is_made(pointer: str) -> None:
    for spec in (
        make_spec(f"Say {{{pointer}}}."),
        make_spec(thread=f"{{{pointer}}}"),
        make_spec(filter=EventFilter(where={pointer: 1})),
    ):
        with pytest.raises(InvalidInput, match="~0"):
            check_mapping(spec)


@pytest.mark.parametrize(
    ("wanted", "given", "is_same"),
    [
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (1, 1.0, True),
        ([1], [True], False),
        ([1], [1, 1], False),
        ({"a": 0}, {"a": False}, False),
        ({"a": 0}, {"a": 0}, True),
        ({"a": 0}, {"a": 0, "b": 1}, False),
        (None, 0, False),
        ("1", 1, False),
    ],
)
def test_a_filter_compares_as_json_does(wanted: Any, given: Any, is_same: bool) -> None:
    assert is_wanted(EventFilter(where={"/v": wanted}), None, {"v": given}) is is_same
