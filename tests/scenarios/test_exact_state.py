"""State comes back after a restart as what was set, or is refused where it was set."""

import dataclasses
import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from awaken import StateKey, ToolContext, WorkflowContext, tool, workflow
from awaken.contracts.errors import KeyCodecError
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import ToolInternalError
from awaken.errors import StepFailed
from awaken.runtime.tools.execution import list_journal_entries

from .each_store import NewStore, each_store
from .test_workflow_races import parked
from .test_workflows import World, awaited, ended


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Place(msgspec.Struct):
    name: str
    tags: set[str]


class Model(pydantic.BaseModel):
    x: int


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.Enum):
    BIG = "big"


VALUES: list[Any] = [
    Point(1, 2),
    Place("a", {"b"}),
    dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    dt.date(2026, 1, 2),
    dt.timedelta(seconds=3),
    Decimal("1.10"),
    uuid.UUID(int=7),
    {1, 2},
    frozenset({"a"}),
    b"bytes",
    Size.BIG,
    Colour.RED,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_a_declared_type_comes_back_as_it_was(value: Any) -> None:
    key: StateKey[Any, Any] = StateKey("typed", default=None, type=type(value))
    for kind, given in ((type(value), value), (list[type(value)], [value])):  # type: ignore[misc]
        key = StateKey("typed", default=None, type=kind)
        found = key.decode(key.encode(given))
        assert (found, type(found)) == (given, type(given))
        data = msgspec.json.decode(msgspec.json.encode(key.encode_update(given)))
        assert key.decode_update(data) == given


@pytest.mark.parametrize("value", [*VALUES[:-1], Model(x=1), float("nan")], ids=repr)
def test_a_value_that_would_come_back_as_another_is_refused(value: Any) -> None:
    plain: StateKey[Any, Any] = StateKey("plain", default=None)
    for given in (value, [value], {"a": value}):
        with pytest.raises(KeyCodecError):
            plain.encode(given)
        with pytest.raises(ToolInternalError, match=plain.name):
            list_journal_entries(StateCommand().update(plain, given))


@pytest.mark.parametrize(
    ("declared", "value"),
    [(dict, Point(1, 2)), (Point, {"x": 1, "y": 2}), (list[str], {"a"}), (str, Decimal(1))],
)
def test_a_value_of_another_type_than_the_declared_one_is_refused(
    declared: Any, value: Any
) -> None:
    key: StateKey[Any, Any] = StateKey("typed", default=None, type=declared)
    with pytest.raises(KeyCodecError, match="is read back as"):
        key.encode(value)


def test_json_and_what_is_not_equal_to_itself_pass() -> None:
    class Odd(msgspec.Struct, eq=False):
        x: Any

    plain: StateKey[Any, Any] = StateKey("plain", default=None)
    for value in (None, 1, 1.5, "a", True, [1, {"a": [None]}], {"a": {"b": 2}}, (1, (2, "b"))):
        plain.encode(value)
        plain.encode_update(value)
    odd: StateKey[Any, Any] = StateKey("odd", default=None, type=Odd)
    odd.encode(Odd(x=(1, 2)))
    with pytest.raises(KeyCodecError):
        odd.encode(Odd(x={1}))


POINT: StateKey[Point, Point] = StateKey("exact.point", default=Point(0, 0))
LOOSE: StateKey[Any, Any] = StateKey("exact.loose", default=None)


@tool(effect="idempotent")
async def put(ctx: ToolContext) -> str:
    """Keep a point."""
    ctx.state.set(POINT, Point(3, 4))
    return "kept"


@tool(effect="none")
async def get(ctx: ToolContext) -> int:
    """Read it."""
    return ctx.state.get(POINT).y


@tool(effect="once")
async def lose(ctx: ToolContext) -> str:
    """Keep what cannot be kept."""
    ctx.state.set(LOOSE, Point(1, 2))
    return "kept"


@each_store
@awaited
async def test_a_workflow_sees_the_same_state_after_a_restart(
    new_store: NewStore, tmp_path: Path
) -> None:
    @workflow(tools=[put, get, lose])
    async def keep(ctx: WorkflowContext) -> Any:
        await ctx.call(put)
        code = ""
        try:
            await ctx.call(lose)
        except StepFailed as error:
            code = error.cause_code
        await ctx.wait_for("go")
        return [await ctx.call(get), code]

    world = World(new_store, tmp_path)
    async with world.process(keep) as runtime:
        run_id = (await runtime.run("keep", {})).run_id
        await parked(runtime, run_id, "go")
    async with world.process(keep) as runtime:
        await runtime.send_event(run_id, "go")
        found, code = json.loads((await ended(runtime, run_id)).text)
        assert found == 4
        assert code == "key_codec_error"
