"""Functions, and raw JSON Schemas, as tools."""

import asyncio
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import math
import pathlib
import subprocess
import sys
import threading
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awaken.authoring.functions import FunctionTool, as_tool, tool
from awaken.authoring.schema_tools import SchemaTool
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import EMPTY_COMMAND, StateCommand, StateKey
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    InvalidArguments,
    Reconcilable,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolInternalError,
    ToolKind,
    ToolOutput,
    check_of,
)

COUNT = StateKey("count", default=0)


def context() -> ToolContext:
    return ToolContext(
        run=RunIdentity(thread_id="t"),
        agent=AgentSpec(id="a", model_id="m"),
        call=ToolCall(id="c1", name="probe"),
    )


def called(subject: Tool, arguments: Any, ctx: ToolContext | None = None) -> ToolOutput:
    async def call() -> ToolOutput:
        validated = subject.validate(arguments)
        if (check := check_of(subject)) is not None:
            await check(validated)
        return await subject.execute(validated, ctx or context())

    return asyncio.run(call())


def returning(value: Any) -> FunctionTool[..., Any]:
    async def probe() -> Any:
        return value

    return tool(probe)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(msgspec.Struct):
    name: str
    qty: Annotated[int, msgspec.Meta(ge=0)] = 1


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Options(TypedDict, total=False):
    deep: bool


class Pair(NamedTuple):
    left: int
    right: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    street: str
    since: datetime.date | None = None


TEXT = st.text(max_size=20)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
ITEM = st.builds(Item, name=TEXT, qty=st.integers(0, 2**70))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (str, TEXT),
    (bool, st.booleans()),
    (float, FLOAT),
    (bytes, st.binary(max_size=20)),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (uuid.UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (list[int], st.lists(st.integers(), max_size=3)),
    (frozenset[str], st.frozensets(TEXT, max_size=3)),
    (dict[int, str], st.dictionaries(st.integers(), TEXT, max_size=3)),
    (dict[Colour, float], st.dictionaries(st.sampled_from(Colour), FLOAT)),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (datetime.timedelta, st.timedeltas()),
    (datetime.time | None, st.times()),
    (dict[str, list[Item]], st.dictionaries(TEXT, st.lists(ITEM, max_size=2), max_size=2)),
    (tuple[int, str], st.tuples(st.integers(), TEXT)),
    (Item, ITEM),
    (Point, st.builds(Point, x=FLOAT, y=FLOAT)),
    (Options, st.just(Options(deep=True)) | st.just(Options())),
    (Pair, st.builds(Pair, left=st.integers(), right=TEXT)),
    (Cat | Dog, st.builds(Cat, lives=st.integers()) | st.builds(Dog, tricks=st.lists(TEXT))),
    (Address, st.builds(Address, street=TEXT, since=st.dates())),
    (list[Address], st.lists(st.builds(Address, street=TEXT, since=st.dates()), max_size=2)),
    (dict[str, Any], st.dictionaries(TEXT, JSON, max_size=3)),
    (Any, JSON),
    (int | str, st.integers() | TEXT),
]


def encoded(value: Any) -> Any:
    return msgspec.to_builtins(
        value, str_keys=True, enc_hook=lambda model: model.model_dump(mode="json")
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TYPED), min_size=1, max_size=4), st.data())
def test_arguments_fit_the_schema_and_reach_the_function_unchanged(
    chosen: list[tuple[Any, st.SearchStrategy[Any]]], data: st.DataObject
) -> None:
    seen: dict[str, Any] = {}

    async def probe(**arguments: Any) -> None:
        seen.update(arguments)

    names = [f"p{index}" for index in range(len(chosen))]
    probe.__annotations__ = {name: kind for name, (kind, _) in zip(names, chosen, strict=True)}
    probe.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    subject = tool(probe)
    values = {name: data.draw(values) for name, (_, values) in zip(names, chosen, strict=True)}
    arguments = {name: encoded(value) for name, value in values.items()}

    jsonschema_rs.validator_for(subject.descriptor.parameters).validate(arguments)
    called(subject, arguments)

    assert seen == values
    assert {name: type(value) for name, value in seen.items()} == {
        name: type(value) for name, value in values.items()
    }


async def place_order(
    item: Item, count: int, note: str | None = None, colour: Colour = Colour.RED
) -> str:
    return f"{count} {item.name} {note} {colour.value}"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"item": {"name": "x"}, "count": "5"}, "Expected `int`, got `str` - at `$.count`"),
        ({"item": {"name": "x"}}, "Object missing required field `count`"),
        ({"item": {"qty": 1}, "count": 1}, "missing required field `name` - at `$.item`"),
        ({"item": {"name": "x", "qty": -1}, "count": 1}, "`int` >= 0 - at `$.item.qty`"),
        ({"item": {"name": "x"}, "count": 1, "extra": 2}, "unknown field `extra`"),
        ({"item": {"name": "x"}, "count": True}, "got `bool` - at `$.count`"),
        ({"item": {"name": "x"}, "count": math.nan}, "got `float` - at `$.count`"),
        (
            {"item": {"name": "x"}, "count": 1, "colour": "SECRET - at `$.item`"},
            "Invalid arguments: Invalid enum value - at `$.colour`",
        ),
        ({"item": {"name": "x"}, "count": 1, "\ud800": 1}, "lone surrogate"),
        ({"item": {"name": "x"}, "count": 1, "k" * 10_000_000: 1}, "unknown field `kkk"),
        ([], "Expected `object`, got `array`"),
        ('{"count": 1}', "Expected `object`, got `str`"),
        (None, "Object missing required field `item`"),
    ],
)
def test_unfit_arguments_are_refused_by_place_and_never_quoted(arguments: Any, text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        tool(place_order).validate(arguments)

    message = str(caught.value)
    assert message.startswith("Invalid arguments: ")
    assert text in message
    assert "SECRET" not in message
    assert len(message) < 600
    message.encode()


def test_missing_arguments_take_the_functions_own_defaults() -> None:
    marker = object()

    async def probe(a: int = 1, b: list[int] = [2], c: Any = marker) -> None:  # noqa: B006
        assert (a, b, c) == (1, [2], marker)

    subject = tool(probe)
    assert called(subject, None).result.status is ToolStatus.SUCCESS
    properties = subject.descriptor.parameters["properties"]
    assert properties["b"]["default"] == [2]
    assert "default" not in properties["c"]


@dataclasses.dataclass
class Basket:
    items: list[str]


@pytest.mark.parametrize(
    ("default", "change"),
    [
        (["kept"], lambda value: value.append("leaked")),
        ({"kept": []}, lambda value: value["kept"].append("leaked")),
        ({"kept"}, lambda value: value.add("leaked")),
        ((["kept"],), lambda value: value[0].append("leaked")),
        (Basket(["kept"]), lambda value: value.items.append("leaked")),
        (Item("kept"), lambda value: setattr(value, "name", "leaked")),
        (Address(street="kept"), lambda value: setattr(value, "street", "leaked")),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("is_typed", [True, False])
def test_a_mutable_default_is_new_in_every_call(default: Any, change: Any, is_typed: bool) -> None:
    default = copy.deepcopy(default)  # Other cases have the same one.
    pristine = repr(default)

    def probe(value: Any = default) -> str:
        seen = repr(value)
        change(value)
        return seen

    probe.__annotations__["value"] = type(default) if is_typed else Any
    subject = tool(probe)
    assert [called(subject, {}).result.data for _ in range(2)] == [pristine, pristine]
    assert repr(default) == pristine
    subject()  # A plain call changes the function's own default, as plain calls do.
    assert called(subject, {}).result.data == pristine


def test_a_tool_goes_by_the_name_and_the_module_of_its_function() -> None:
    subject = tool(id="other")(place_order)
    assert (subject.__name__, subject.__qualname__) == ("place_order", "place_order")
    assert (subject.__module__, subject.__wrapped__) == (__name__, place_order)
    assert inspect.signature(subject) == inspect.signature(place_order)


def test_a_name_in_the_place_of_the_function_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidSpec, match=r"use @tool or @tool\(id='add'\)"):
        tool("add")  # type: ignore[call-overload]


@pytest.mark.parametrize("annotation", [Any, dict, list[Any], dict[str, Any]])
def test_a_tool_that_changes_its_arguments_leaves_the_transcript_alone(annotation: Any) -> None:
    def probe(value: Any) -> None:
        (value["inner"] if isinstance(value, dict) else value[0]).append("changed")

    probe.__annotations__["value"] = annotation
    for odd in ("x", "\ud800"):
        value = [[odd]] if annotation == list[Any] else {"inner": [odd]}
        arguments = {"value": value}
        called(tool(probe), arguments)
        assert arguments == {"value": [[odd]] if annotation == list[Any] else {"inner": [odd]}}


def test_texts_arrive_unchanged_even_when_odd_or_huge() -> None:
    async def plain(text: str) -> int:
        assert text in odd
        return len(text)

    async def untyped(text: str, extra: dict[str, Any]) -> int:
        assert text in odd
        return len(text)

    odd = ["\ud800", "a\u0000b", "é" * 5_000_000, ""]
    for text in odd:
        assert called(tool(plain), {"text": text}).result.data == len(text)
        mixed = {"text": text, "extra": {"k": [text]}}
        assert called(tool(untyped), mixed).result.data == len(text)


class Node(msgspec.Struct):
    a: "Node | None" = None


@pytest.mark.parametrize("kind", [Any, Node])
def test_data_nested_too_deeply_is_refused(kind: Any) -> None:
    async def probe(value: Any) -> None: ...

    probe.__annotations__["value"] = kind
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        tool(probe).validate({"value": deep})


def test_a_refusal_by_a_pydantic_model_names_fields_and_no_values() -> None:
    async def probe(home: Address) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        tool(probe).validate({"home": {"street": 5, "since": "SECRET"}})
    assert "street: Input should be a valid string; since: " in str(caught.value)
    assert str(caught.value).endswith("- at `$.home`")
    assert "SECRET" not in str(caught.value)


def test_a_check_refuses_before_anything_runs() -> None:
    def check(low: int, high: int) -> None:
        if low > high:
            raise ValueError("low is above high \ud800")

    @tool(check=check, category="maths")
    async def span(low: int, high: int, unit: str = "m") -> str:
        return f"{high - low}{unit}"

    assert span.descriptor.category == "maths"
    assert called(span, {"low": 1, "high": 3}).result.data == "2m"
    with pytest.raises(InvalidArguments, match=r"^Invalid arguments: low is above high \?$"):
        called(span, {"low": 3, "high": 1})


class Reply(msgspec.Struct):
    at: datetime.date
    parts: set[int]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1.5, 1.5),
        (math.nan, None),
        ([math.inf, {"x": math.nan}], [None, {"x": None}]),
        ("text", "text"),
        ("\ud800x", "?x"),
        ({"\ud800": ["\ud800"], 1: math.nan}, {"?": ["?"], "1": None}),
        (Colour.RED, "red"),
        (ToolKind.READ, "read"),
        (Reply(datetime.date(2020, 1, 2), {1}), {"at": "2020-01-02", "parts": [1]}),
        (Point(1.0, 2.0), {"x": 1.0, "y": 2.0}),
        ([Address(street="s")], [{"street": "s", "since": None}]),
        (b"ab", "YWI="),
    ],
)
def test_whatever_has_a_json_form_becomes_the_data_of_a_success(value: Any, data: Any) -> None:
    output = called(returning(value), {})
    assert output.result.status is ToolStatus.SUCCESS
    assert output.result.tool_name == "probe"
    assert output.result.data == data
    assert type(output.result.data) is type(data)
    assert msgspec.json.decode(msgspec.json.encode(output.result.data)) == data


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("value", "name"), [(object(), "object"), ([print], "list"), (_cycle(), "list")]
)
def test_a_result_without_a_json_form_is_the_tools_fault_and_names_the_type(
    value: Any, name: str
) -> None:
    with pytest.raises(ToolInternalError, match=f"type '{name}'"):
        called(returning(value), {})


def test_text_is_also_the_message() -> None:
    result = called(returning("hello"), {}).result
    assert (result.data, result.message) == ("hello", "hello")


def test_results_outputs_and_tickets_are_kept_with_the_state_of_the_context() -> None:
    error = ToolResult.error("other", "no")
    own = StateCommand().update(COUNT, 5)

    async def probe(what: str, ctx: ToolContext) -> Any:
        if what != "untouched":
            ctx.state.set(COUNT, 1)
        return {
            "untouched": ToolOutput(result=error, command=own),
            "both": ToolOutput(result=error, command=own),
            "passed on": ToolOutput(result=error, command=ctx.command),
            "result": error,
            "ticket": ctx.suspend("sure?"),
        }[what]

    def ops(what: str) -> tuple[ToolResult, list[Any]]:
        output = called(tool(probe), {"what": what})
        return output.result, [op.update for op in output.command.patch.ops]  # type: ignore[union-attr]

    assert ops("untouched") == (error, [5])
    assert ops("both") == (error, [1, 5])
    assert ops("passed on") == (error, [1])
    assert ops("result") == (error, [1])
    result, updates = ops("ticket")
    assert (result.status, result.message, updates) == (ToolStatus.PENDING, "sure?", [1])
    assert isinstance(result.suspension, SuspendTicket)
    assert called(returning(error), {}).command is EMPTY_COMMAND


def test_plain_functions_run_in_a_thread_that_sees_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    def probe() -> list[Any]:
        return [variable.get(), threading.current_thread() is threading.main_thread()]

    async def lazily() -> str:
        return "awaited"

    async def call(subject: Tool) -> Any:
        variable.set("seen")
        return (await subject.execute(subject.validate({}), context())).result.data

    assert asyncio.run(call(tool(probe))) == ["seen", False]
    assert asyncio.run(call(tool(id="wrapped")(lambda: lazily()))) == "awaited"


def test_a_plain_function_that_raises_stop_iteration_does_not_hang() -> None:
    def probe() -> int:
        return next(iter([]))

    async def call() -> None:
        await asyncio.wait_for(tool(probe).execute({}, context()), timeout=5)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(call())


FUTURE = """
from __future__ import annotations
from typing import TYPE_CHECKING, Annotated
from dataclasses import dataclass
if TYPE_CHECKING:
    from awaken.contracts.tools.context import ToolContext

@dataclass
class Place:
    name: str

async def probe(place: Place, ctx: ToolContext, days: Annotated[int, "How many."] = 1) -> str:
    return f"{place.name} {days} {ctx.call_id}"
"""


def test_string_annotations_and_contexts_imported_only_for_typing_are_understood() -> None:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(FUTURE, namespace)
    subject = as_tool(namespace["probe"])
    parameters = subject.descriptor.parameters
    assert list(parameters["properties"]) == ["place", "days"]
    assert parameters["properties"]["days"]["description"] == "How many."
    assert called(subject, {"place": {"name": "Rome"}}).result.data == "Rome 1 c1"


class Greeter:
    """A greeter."""

    def greet(self, name: str) -> str:
        """Greet."""
        return f"hello {name}"

    async def __call__(self, name: str) -> str:
        """Call."""
        return f"called {name}"


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def greet(greeting: str, name: str, ctx: "ToolContext | None" = None) -> str:
    """Greet.

    Args:
        name: Whom.
    """
    assert ctx is not None
    return f"{greeting} {name}"


@pytest.mark.parametrize(
    ("subject", "answer"),
    [
        (as_tool(Greeter().greet), "hello Bo"),
        (tool(id="call")(Greeter()), "called Bo"),
        (as_tool(functools.partial(greet, greeting="hi")), "hi Bo"),
        (as_tool(traced(Greeter().greet)), "hello Bo"),
        (tool(id="again")(tool(Greeter().greet)), "hello Bo"),
    ],
)
def test_methods_partials_wrappers_and_callable_objects_are_functions_too(
    subject: Tool, answer: str
) -> None:
    arguments = {"name": "Bo"}
    assert called(subject, arguments).result.data == answer


def test_a_tool_is_described_by_its_options() -> None:
    @tool(
        effect="none", id="weather-now", description="Now.", timeout=1.5, output_limit=10,
        concurrency=2, kind="read", category="c", metadata={"k": 1},
    )  # fmt: skip
    async def get_weather(city: str) -> str:
        """Ignored."""
        return city

    assert get_weather.descriptor == ToolDescriptor(
        id="weather-now", name="weather-now", description="Now.", timeout_ms=1500,
        output_limit=10, concurrency=2, kind=ToolKind.READ, category="c", metadata={"k": 1},
        effect=ToolEffect.NONE, parameters={
            "type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"], "additionalProperties": False,
        },
    )  # fmt: skip
    assert isinstance(get_weather, Tool)
    assert not isinstance(get_weather, Reconcilable)
    assert as_tool(get_weather) is get_weather
    assert asyncio.run(get_weather("Rome")) == "Rome"
    assert tool(place_order).descriptor.effect is ToolEffect.ONCE


def test_a_once_tool_may_tell_what_a_lost_call_did() -> None:
    async def lookup(order: str, ctx: ToolContext) -> str | None:
        return f"{ctx.call_id}:{order}" if order == "known" else None

    @tool(reconcile=lookup)
    async def buy(order: str, count: int = 1) -> str:
        return "bought"

    assert isinstance(buy, Reconcilable)
    found = asyncio.run(buy.reconcile(buy.validate({"order": "known"}), context()))
    assert found is not None
    assert found.result.data == "c1:known"
    assert asyncio.run(buy.reconcile(buy.validate({"order": "new"}), context())) is None


def positional(a: int, /) -> None: ...
def variadic(*args: int) -> None: ...
def keywords(**kwargs: int) -> None: ...
def bare(a) -> None: ...  # type: ignore[no-untyped-def]
def unresolved(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def strange(a: threading.Thread) -> None: ...
def nested(a: list[ToolContext]) -> None: ...
def ambiguous(a: Point | Item) -> None: ...
def field(a: Annotated[int, pydantic.Field(gt=1)]) -> None: ...
def default(a: int = pydantic.Field(default=1)) -> None: ...
def größe(a: int) -> None: ...
def fine(a: int) -> None: ...
def generator(a: int) -> Any:
    yield a


class Shop:
    def buy(self, item: str) -> None: ...


LOCKS = [threading.Lock()]


def uncopied(a: Any = LOCKS) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (positional, {}, "'a' is positional-only"),
        (variadic, {}, "'args' collects positional"),
        (keywords, {}, "'kwargs' collects unknown"),
        (bare, {}, "'a' has no annotation"),
        (lambda ctx: ctx, {"id": "x"}, "'ctx' has no annotation; annotate it as ToolContext"),
        (Shop.buy, {}, "pass the bound method: tools=[shop.buy]"),
        (uncopied, {}, "the default of 'a' cannot be copied for each call"),
        (unresolved, {}, "name 'Nowhere' is not defined"),
        (strange, {}, "type 'Thread' has no JSON form"),
        (nested, {}, "type 'ToolContext' has no JSON form"),
        (ambiguous, {}, "Type unions may not contain more than one"),
        (field, {}, "'a' uses pydantic's Field"),
        (default, {}, "'a' uses pydantic's Field"),
        (größe, {}, "is not a valid tool id"),
        (generator, {}, "is a generator"),
        (lambda a: a, {"id": "x"}, "'a' has no annotation"),
        (lambda: 1, {}, "'<lambda>' is not a valid tool id"),
        (print, {}, "tool function 'builtins.print'"),
        (fine, {"effect": "read"}, "effect must be none, idempotent or once"),
        (fine, {"effect": None}, "effect must be none, idempotent or once"),
        (fine, {"kind": "looks"}, "kind must be None, execute, read, edit, search or other"),
        (fine, {"timeout": 0}, "timeout_ms must be positive"),
        (fine, {"timeout": math.inf}, "cannot convert"),
        (fine, {"timeout": "5"}, "timeout must be a number"),
        (fine, {"concurrency": 0}, "concurrency must be positive"),
        (fine, {"id": "with space"}, "is not a valid tool id"),
        (fine, {"nope": 1}, "there is no option nope; the options are: id, description, effect"),
        (fine, {"reconcile": positional, "effect": "none"}, "effect 'once'"),
        (fine, {"reconcile": place_order}, "'item' is not a parameter of the tool"),
        (fine, {"check": variadic}, "'args' is not a parameter of the tool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name(
    function: Any, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        tool(**options)(function)
    assert problem in str(caught.value)
    assert "tool function '" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "my tool"}, "'my tool' is not a valid tool id"),
        ({"id": ""}, "not a valid tool id"),
        ({"id": "x" * 65}, "not a valid tool id"),
        ({"parameters": {"type": "array"}}, "type 'object'"),
        ({"parameters": {"anyOf": [{"type": "object"}]}}, "type 'object'"),
        ({"parameters": {"type": "object", "oneOf": []}}, "oneOf"),
    ],
)
def test_a_tool_object_that_no_model_could_be_told_of_is_refused(
    fields: dict[str, Any], problem: str
) -> None:
    subject = as_tool(Greeter().greet)
    subject.descriptor = msgspec.structs.replace(subject.descriptor, **fields)
    with pytest.raises(InvalidSpec, match=problem):
        as_tool(subject)
    subject.descriptor = msgspec.structs.replace(subject.descriptor, id="fine", parameters={})
    assert as_tool(subject) is subject


@pytest.mark.parametrize("candidate", [5, "add", Greeter, None])
def test_what_is_neither_tool_nor_function_is_refused(candidate: Any) -> None:
    with pytest.raises(InvalidSpec, match="it is neither a tool nor a function"):
        as_tool(candidate)


class Handmade:
    descriptor = ToolDescriptor(id="handmade")

    def validate(self, arguments: Any) -> Any:
        return arguments

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        return ToolOutput(result=ToolResult.success("handmade", arguments))


def test_an_object_with_the_tool_protocol_is_used_as_it_is() -> None:
    handmade = Handmade()
    assert as_tool(handmade) is handmade
    assert called(handmade, {"anything": 1}).result.data == {"anything": 1}
    broken = Handmade()
    broken.descriptor = "no"  # type: ignore[assignment]
    with pytest.raises(InvalidSpec, match="not a ToolDescriptor"):
        as_tool(broken)


def schema_tool(parameters: Any) -> SchemaTool:
    async def handler(arguments: Any, ctx: ToolContext) -> Any:
        return arguments

    return SchemaTool(ToolDescriptor(id="raw", parameters=parameters), handler)


RAW = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string", "pattern": "^(?!x)[a-z]+$"},
        "c": {"type": "array", "items": {"enum": [1, 2]}},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("parameters", "arguments", "problem"),
    [
        (None, {"x": 1}, None),
        ({}, [1], None),
        ({"type": "object"}, 5, None),
        (RAW, {"a": 1}, None),
        (RAW, {"a": 1, "b": "ab", "c": [2]}, None),
        ({"properties": {}}, None, None),
        (RAW, None, '"a" is a required property'),
        (RAW, {"a": "SECRET"}, 'value is not of type "integer" - at `$.a`'),
        (
            RAW,
            {"a": "SECRET", "b": 5},
            'value is not of type "integer" - at `$.a`; value is not of type "string" - at `$.b`',
        ),
        (RAW, {"a": 1, "c": [1, 5]}, "value is not one of 1 or 2 - at `$.c[1]`"),
        (RAW, {"a": 1, "b": "xyz"}, "value does not match"),
        (RAW, {"a": math.nan}, "is not of type"),
        (RAW, {"a": 1, "b": "\ud800"}, "lone surrogate"),
        (RAW, {"a": 1, "k" * 10_000_000: 1}, "Additional properties are not allowed"),
    ],
)
def test_a_json_schema_decides_which_arguments_reach_the_handler(
    parameters: Any, arguments: Any, problem: str | None
) -> None:
    subject = schema_tool(parameters)
    if problem is None:
        expected = {} if arguments is None else arguments
        assert called(subject, arguments).result.data == expected
        return
    with pytest.raises(InvalidArguments) as caught:
        subject.validate(arguments)
    assert problem in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "nope"},
        {"properties": 5},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"properties": {"a": object()}},
        [1],
    ],
)
def test_a_broken_schema_is_refused_when_the_tool_is_made(parameters: Any) -> None:
    with pytest.raises(ToolInternalError, match="schema"):
        schema_tool(parameters)


def test_a_schema_cannot_make_the_server_read_a_file(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"type": "integer"}')
    with pytest.raises(ToolInternalError, match="must not refer to another document"):
        schema_tool({"properties": {"a": {"$ref": other.as_uri()}}})


def test_a_hostile_pattern_costs_a_bounded_time() -> None:
    hostile = {"properties": {"a": {"type": "string", "pattern": "^(?=a)(a|a|aa)*\\1$"}}}
    with pytest.raises(InvalidArguments, match="Max limit"):
        schema_tool(hostile).validate({"a": "a" * 200 + "!"})


def test_importing_and_using_the_package_does_not_import_pydantic() -> None:
    code = (
        "import sys\n"
        "from awaken.authoring import agents, frontend, functions, output, schema_tools\n"
        "def add(a: int, b: list[str]) -> dict[str, int]: return {}\n"
        "agents.Agent('x', model='m', tools=[add], output_type=dict[str, int])\n"
        "print([name for name in sys.modules if name.startswith('pydantic')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
