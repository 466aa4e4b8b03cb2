"""Made-up arguments fit the schemas that tools have, and agents with real models use them."""

from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from awaken import Agent, tool
from awaken.authoring.json_schemas import JsonSchema
from awaken.testing import AgentReport, ScriptedModel, ToolCalls
from awaken.testing.schema_samples import sample_of
from awaken.testing.turn_model import ToolTourModel, is_repeatable

pytest_plugins = ["awaken.testing.fixtures"]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(msgspec.Struct):
    street: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    inside: "Address | None" = None


@tool
def everything(
    text: Annotated[str, msgspec.Meta(min_length=7)],
    count: Annotated[int, msgspec.Meta(gt=3, multiple_of=5)],
    share: Annotated[float, msgspec.Meta(ge=0.5, le=0.75)],
    colour: Colour,
    mode: Literal["fast", "slow"],
    address: Address,
    tags: Annotated[list[str], msgspec.Meta(min_length=2)],
    maybe: int | None,
    day: date,
    is_sure: bool,
) -> str:
    """Take everything."""
    return text


def test_a_sample_fits_the_schema_of_a_tool_and_is_accepted_by_it() -> None:
    sample = sample_of(everything.descriptor.parameters)
    assert JsonSchema(everything.descriptor.parameters, what="it").violations(sample) == []
    assert everything.validate(sample)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"const": 3},
        {"enum": ["b", "a"]},
        {"type": ["null", "integer"]},
        {"type": "string", "minLength": 9, "maxLength": 9},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 7, "maximum": 7},
        {"type": "integer", "exclusiveMinimum": 0},
        {"type": "number", "maximum": -2},
        {"type": "array", "items": {"type": "integer"}, "minItems": 3},
        {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer", "minimum": 4}}},
        {"type": "object", "required": ["undeclared"]},
        {"type": "null"},
    ],
    ids=str,
)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert JsonSchema(schema, what="it").violations(sample_of(schema)) == []


def test_a_schema_that_refers_to_itself_has_a_sample_with_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert sample_of(node)


def test_the_stand_in_calls_every_tool_once(
    simulate_agent: Callable[..., AgentReport],
) -> None:
    ran: list[str] = []

    @tool(effect="none")
    def one(city: str) -> str:
        """One."""
        ran.append(city)
        return city

    @tool(effect="none")
    def two(count: int) -> str:
        """Two."""
        ran.append(str(count))
        return "two"

    agent = Agent("a", model="openai:gpt", tools=[one, two])
    report = simulate_agent(agent, "go", model=ToolTourModel(), schedules=2)
    assert not report.violations
    assert set(ran) == {"text", "0"}


def test_only_what_says_so_is_repeatable() -> None:
    assert is_repeatable("scripted")
    assert is_repeatable(ScriptedModel([ToolCalls([])]))
    assert not is_repeatable("openai:gpt")
