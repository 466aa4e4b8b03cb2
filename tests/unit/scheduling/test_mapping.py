"""What of a webhook's body becomes a text, and how much of it."""

import json
from typing import Any

import pytest

from awaken.contracts.storage.schedules import RunTarget, SignatureScheme, TriggerSpec
from awaken.scheduling.mapping import BODY_BYTES_MAX, VALUE_BYTES_MAX, map_target
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
