"""Answers of a type: the schema goes to the model, the value to the caller, a misfit goes back."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from awaken import Failed, Limits, NaturalEnd, RunFailed, RunResult, tool
from awaken.messages import Role, Visibility
from awaken.models import StopReason
from awaken.testing import Entry, ToolCalls, Turn

from .worlds import World, play, simulated


class City(msgspec.Struct):
    name: str
    people: int


@dataclass
class Point:
    x: int


@tool(effect="none")
async def look(text: str) -> str:
    return text


GOOD = '{"name": "Rome", "people": 3}'
ROME = City("Rome", 3)


@pytest.mark.parametrize(
    ("type_", "script", "output", "requests"),
    [
        (City, [GOOD], ROME, 1),
        (City, [f"Here it is:\n```json\n{GOOD}\n```"], ROME, 1),
        (City, ["Rome!", GOOD], ROME, 2),
        (City, ['{"name": "Rome"}', "", GOOD], ROME, 3),
        (
            City,
            [Turn('{"name": "x", "people": 1}', calls=[("look", {"text": "a"})]), GOOD],
            ROME,
            2,
        ),
        (
            City,
            [Turn('{"name": "x", "people": 1}', calls=[("look", {"text": "a"})]), "", GOOD],
            ROME,
            3,
        ),
        (City, [Turn(GOOD[:9], stop=StopReason.MAX_TOKENS), GOOD], ROME, 2),
        (Point, ['{"x": 1}'], Point(1), 1),
        (list[int], ["[1, 2]"], [1, 2], 1),
        (str, ["plain text"], "plain text", 1),
        (None, ["plain text"], "plain text", 1),
    ],
    ids=[
        *(
            "value",
            "fenced",
            "asked again",
            "twice",
            "after a tool",
            "empty after a tool",
            "cut off",
        ),
        *("dataclass", "list", "text", "none"),
    ],
)
def test_the_last_answer_becomes_a_value_of_the_agents_type(
    type_: Any, script: list[Entry], output: Any, requests: int
) -> None:
    async def scenario() -> tuple[RunResult, World]:
        async with World(script, tools=[look], output_type=type_) as world:
            return await world.runtime.run("agent", "go", thread_id="t"), world

    result, world = simulated(scenario)
    assert result.termination == NaturalEnd()
    assert result.output == output
    assert len(world.model.requests) == requests
    assert world.model.problems == []
    for request in world.model.requests:
        assert (request.output_schema is None) is (type_ in (str, None))


def test_a_misfit_is_told_to_the_model_hidden_from_people_and_without_its_values() -> None:
    story = play(['{"name": "secret", "people": "many"}', GOOD], output_type=City)

    complaint = story.messages[2]
    assert (complaint.role, complaint.visibility) == (Role.USER, Visibility.INTERNAL)
    assert "people" in complaint.text
    assert "many" not in complaint.text
    assert story.result is not None
    assert (story.result.text, story.result.output) == (GOOD, ROME)
    assert story.requests[0].output_schema is not None


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (2, 3)])
def test_a_model_that_never_fits_fails_the_run_after_its_retries(retries: int, asked: int) -> None:
    async def scenario() -> tuple[RunFailed, World]:
        limits = Limits(output_retries=retries)
        async with World(["no"] * 9, output_type=City, limits=limits) as world:
            with pytest.raises(RunFailed) as caught:
                await world.runtime.run("agent", "go", thread_id="t")
            return caught.value, world

    error, world = simulated(scenario)
    assert error.cause_code == "invalid_output"
    assert error.result.text == "no"
    assert isinstance(error.result.termination, Failed)
    assert len(world.model.requests) == asked


def test_rounds_bound_the_retries_too() -> None:
    story = play(
        [ToolCalls([("look", {"text": "a"})]), "no", GOOD],
        tools=[look],
        output_type=City,
        max_rounds=2,
    )

    assert story.termination.__struct_config__.tag == "stopped"
    assert story.result is not None
    assert story.result.output is None
