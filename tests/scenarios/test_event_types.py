"""Events of a type: what only the type can say is checked before an event can harm a run."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from awaken import RunStatus, WorkflowContext, workflow
from awaken.errors import EventRefused

from .each_store import memory, sqlite
from .test_workflows import World, awaited, ended


class Payment(msgspec.Struct):
    """A payment."""

    amount: Decimal = Decimal(0)
    at: datetime | None = None
    payer: UUID | None = None
    proof: bytes = b""


class Even(pydantic.BaseModel):
    """An even number."""

    number: int

    @pydantic.field_validator("number")
    @classmethod
    def check_number(cls, number: int) -> int:
        """Refuse an odd number."""
        if number % 2:
            message = "it is odd"
            raise ValueError(message)
        return number


WRONG: dict[str, tuple[Any, Any]] = {
    "a date": (Payment, {"at": "yesterday"}),
    "a decimal": (Payment, {"amount": "much"}),
    "an id": (Payment, {"payer": "ann"}),
    "bytes": (Payment, {"proof": "***"}),
    "a validator": (Even, {"number": 3}),
    "a date alone": (datetime, "soon"),
}
RIGHT: dict[Any, Any] = {
    Payment: {"amount": "1.10"},
    Even: {"number": 4},
    datetime: "2026-01-02T00:00:00Z",
}


@pytest.mark.parametrize("kind", WRONG)
@awaited
async def test_an_event_that_is_no_value_of_its_declared_type_is_refused(
    kind: str, tmp_path: Path
) -> None:
    wanted, wrong = WRONG[kind]

    @workflow(events={"paid": wanted})
    async def flow(ctx: WorkflowContext) -> bool:
        return isinstance(await ctx.wait_for("paid", wanted), wanted)

    async with World(memory, tmp_path).process(flow) as runtime:
        run = await runtime.run("flow", {})
        with pytest.raises(EventRefused, match="'paid' does not fit"):
            await runtime.send_event(run.run_id, "paid", wrong)
        assert (await runtime.get_run(run.run_id)).status is RunStatus.WAITING
        await runtime.send_event(run.run_id, "paid", RIGHT[wanted])
        assert (await ended(runtime, run.run_id)).output is True


@pytest.mark.parametrize("kind", WRONG)
@awaited
async def test_a_step_passes_over_an_event_that_is_no_value_of_its_type(
    kind: str, tmp_path: Path
) -> None:
    wanted, wrong = WRONG[kind]

    @workflow
    async def flow(ctx: WorkflowContext) -> list[Any]:
        right = await ctx.wait_for("paid", wanted)
        return [isinstance(right, wanted), await ctx.wait_for("paid")]

    async with World(sqlite, tmp_path).process(flow) as runtime:
        run = await runtime.run("flow", {})
        await runtime.send_event(run.run_id, "paid", wrong)
        await runtime.send_event(run.run_id, "paid", RIGHT[wanted])
        # It stays for the step that takes anything.
        assert (await ended(runtime, run.run_id)).output == [True, wrong]
