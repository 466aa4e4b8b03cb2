"""Unions, pydantic dataclasses and constraints as types of answers, contexts and arguments."""

import asyncio
import dataclasses
import math
from typing import Annotated, Any, Literal

import annotated_types
import pydantic.dataclasses
import pytest
from pydantic import BaseModel, Field, SecretStr, computed_field

from awaken import Agent, AgentRuntime, RunContext, ToolContext, tool
from awaken.errors import InvalidContext, InvalidInput, InvalidSpec, RunFailed
from awaken.testing import ScriptedModel, ToolCalls


@dataclasses.dataclass
class Done:
    file: str


@dataclasses.dataclass
class Refused:
    reason: str
    file: str = ""


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: int


@pydantic.dataclasses.dataclass
class Level:
    value: Annotated[int, Field(gt=3)]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def answer(type_: Any, *texts: str) -> Any:
    agent: Any = Agent("a", model=ScriptedModel(texts), output_type=type_, output_retries=0)
    return agent.run_sync("Hi").output


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (Done | Refused, '{"file": "a"}', Done("a")),
        (Done | Refused, '{"reason": "b"}', Refused("b")),
        (Done | Refused, '{"reason": "b", "file": "c"}', Refused("b", "c")),
        (Cat | Dog, '{"kind": "dog", "tricks": 2}', Dog(tricks=2)),
        (Pet, '{"kind": "cat", "lives": 9}', Cat(lives=9)),
        (Cat | str, '{"lives": 9}', Cat(lives=9)),
        (Cat | str, "Plain words.", "Plain words."),
        (int | str, "hello", "hello"),
        (int | str, "7", 7),
        (Level, '{"value": 4}', Level(4)),
        (Annotated[int, Field(gt=5)], "6", 6),
        (Annotated[int, annotated_types.Gt(5)], "6", 6),
    ],
)
def test_an_answer_is_a_value_of_its_type(type_: Any, text: str, expected: Any) -> None:
    assert answer(type_, text) == expected


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Done | Refused, '{"other": 1}'),
        (Cat | Dog, '{"kind": "cow"}'),
        (Level, '{"value": 3}'),
        (list[Level], '[{"value": 3}]'),
        (Annotated[int, Field(gt=5)], "5"),
        (Annotated[int, annotated_types.Gt(5)], "5"),
        (Cat | str, '{"lives": "many"}'),
    ],
)
def test_an_answer_that_breaks_a_constraint_is_refused(type_: Any, text: str) -> None:
    with pytest.raises(RunFailed):
        answer(type_, text)


class Customer(BaseModel):
    id: str = Field(alias="customerId")


class Order(BaseModel, extra="forbid"):
    count: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return 2 * self.count


class Login(BaseModel):
    secret: SecretStr


class Hidden(BaseModel):
    token: str = Field(exclude=True)


def see_context(context: Any, type_: Any = None) -> Any:
    seen = []

    def note(ctx: RunContext[Any]) -> str:
        seen.append(ctx.context)
        return "Help."

    agent: Any = Agent("a", model=ScriptedModel(["x"]), context_type=type_, instructions=note)
    agent.run_sync("Hi", context=context)
    return seen[0]


@pytest.mark.parametrize("value", [Customer(customerId="x"), Order(count=2), Level(4)])
def test_a_context_comes_back_as_it_was_given(value: Any) -> None:
    assert see_context(value, type(value)) == value


@pytest.mark.parametrize("value", [Login(secret=SecretStr("s")), Hidden(token="s")])
def test_a_context_that_would_lose_something_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=type(value).__name__):
        see_context(value, type(value))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    for context in ({"x": {"y": [1, number]}}, {"x": number}):
        with pytest.raises(InvalidInput, match=r"not finite - at `\$\.x"):
            see_context(context)


def test_a_constraint_of_a_context_is_checked_at_the_door() -> None:
    with pytest.raises(InvalidContext, match="value"):
        see_context({"value": 3}, Level)


@pytest.mark.parametrize(
    "type_", [Level, Annotated[int, annotated_types.Gt(3)], list[Annotated[int, Field(gt=3)]]]
)
def test_a_tool_refuses_constraints_that_it_would_not_check(type_: Any) -> None:
    def work(n: Any) -> str:
        """Work."""
        return str(n)

    work.__annotations__["n"] = type_
    with pytest.raises(InvalidSpec, match="only pydantic checks"):
        tool(work)


def test_a_tool_that_asks_for_a_run_context_is_refused() -> None:
    def work(ctx: RunContext[Any], n: int) -> str:
        """Work."""
        return str(n)

    with pytest.raises(InvalidSpec, match="tools get a ToolContext"):
        tool(work)


def test_a_predicate_may_be_a_lambda_with_the_context_of_the_call() -> None:
    @tool(approval=lambda amount, ctx: amount > ctx.context["limit"])
    def pay(amount: int, ctx: ToolContext[Any]) -> str:
        """Pay."""
        return "paid"

    async def scenario() -> None:
        script = [ToolCalls([("pay", {"amount": 5})]), "Done."]
        agent = Agent("a", model=ScriptedModel(script, cycle=True), tools=[pay])
        async with AgentRuntime([agent]) as runtime:
            assert (await runtime.run("a", "Hi", context={"limit": 9})).text == "Done."
            assert (await runtime.run("a", "Hi", context={"limit": 1})).tickets

    asyncio.run(scenario())
