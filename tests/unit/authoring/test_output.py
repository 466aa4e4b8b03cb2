"""Typed final answers."""

import datetime
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.authoring.output import OutputInvalid, OutputType
from awaken.contracts.errors import InvalidSpec, RunError


class Report(msgspec.Struct):
    title: str
    score: int = 0


class Event(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: datetime.date


FENCED = 'Here you are:\n```json\n{"title": "use ```x``` here"}\n```\nBye.'


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Report, '{"title": "t", "score": 3}', Report("t", 3)),
        (Report, '```json\n{"title": "t"}\n```', Report("t")),
        (Report, '```\n{"title": "t"}\n```', Report("t")),
        (Report, '```json\n{"title": "t"}', Report("t")),
        (Report, '```json\n{"title": "t"}\n``` or\n```json\n{"title": "u"}\n```', Report("t")),
        (Report, FENCED, Report("use ```x``` here")),
        (Event, '{"day": "2020-01-02"}', Event(day=datetime.date(2020, 1, 2))),
        (list[Event], "[]", []),
        (int, " 5 ", 5),
        (Any, '{"x": [1]}', {"x": [1]}),
        (str, '```json\n"as it is"\n```', '```json\n"as it is"\n```'),
        (str, "", ""),
    ],
)
def test_an_answer_is_decoded_alone_or_in_a_fence(type_: Any, text: str, value: Any) -> None:
    assert OutputType(type_).decode(text) == value


@pytest.mark.parametrize(
    ("type_", "text", "problem"),
    [
        (Report, '{"title": 5}', "Expected `str`, got `int` - at `$.title`"),
        (Report, '```json\n{"title": 5}\n```', "Expected `str`, got `int` - at `$.title`"),
        (Report, "SECRET", "JSON is malformed"),
        (Report, "", "Input data was truncated"),
        (Report, "``````", "JSON is malformed"),
        (Report, "\ud800", "lone surrogate"),
        (list, "[" * 100_000, "nested too deeply"),
        (Event, '{"day": "SECRET"}', "day: Input should be a valid date"),
    ],
)
def test_an_unfit_answer_is_a_typed_error_without_values(
    type_: Any, text: str, problem: str
) -> None:
    with pytest.raises(OutputInvalid) as caught:
        OutputType(type_).decode(text)
    assert isinstance(caught.value, RunError)
    assert caught.value.code == "invalid_output"
    assert problem in str(caught.value)
    assert "SECRET" not in str(caught.value)


@settings(deadline=None)
@given(st.builds(Report, title=st.text(), score=st.integers()))
def test_every_value_comes_back_from_its_json_in_any_wrapping(report: Report) -> None:
    text = msgspec.json.encode(report).decode()
    for wrapped in (text, f"```json\n{text}\n```", f"Sure!\n```\n{text}\n```\nDone."):
        assert OutputType(Report).decode(wrapped) == report


def test_the_schema_is_for_the_model_and_text_needs_none() -> None:
    assert OutputType(Report).schema == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "score": {"type": "integer", "default": 0}},
        "required": ["title"],
    }
    assert OutputType(str).schema is None
    assert OutputType(list[int]).name == "list[int]"
    with pytest.raises(InvalidSpec, match="output type 'object' is invalid"):
        OutputType(object)
