"""What people write into workflows by mistake, or rightly and rarely: the run says what is so."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta
from tests.server.in_process import ask

from awaken import AgentRuntime, WorkflowContext, workflow
from awaken.errors import InvalidSpec, InvalidWorkflowInput, RunFailed, RunStillQueued
from awaken.stores import SqliteStore


async def raise_it(ctx: WorkflowContext) -> None:
    raise asyncio.CancelledError


async def await_what_is_cancelled(ctx: WorkflowContext) -> None:
    await ctx.now()
    waited = asyncio.get_running_loop().create_future()
    waited.cancel()
    await waited


async def raise_it_in_a_branch(ctx: WorkflowContext) -> None:
    await ctx.gather(raise_it(ctx), ctx.now())


async def raise_it_in_a_race(ctx: WorkflowContext) -> None:
    await ctx.race(raise_it(ctx), ctx.wait_for("never"))


@pytest.mark.parametrize(
    "work", [raise_it, await_what_is_cancelled, raise_it_in_a_branch, raise_it_in_a_race]
)
def test_a_run_that_nobody_cancelled_is_not_cancelled(
    work: Callable[[WorkflowContext], Awaitable[None]],
) -> None:
    @workflow
    async def leaves(ctx: WorkflowContext) -> None:
        await work(ctx)

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with AgentRuntime([leaves], store=SqliteStore(Path(folder) / "a.db")) as runtime:
                with pytest.raises(RunFailed, match="nobody cancelled the run") as caught:
                    await asyncio.wait_for(runtime.run("leaves", {}), 10)
                assert caught.value.cause_code == "workflow_misuse"

    asyncio.run(main())


@workflow
async def inner(ctx: WorkflowContext, given: object) -> dict[str, object]:
    return {"given": given}


@workflow
async def outer(ctx: WorkflowContext, given: dict[str, object]) -> dict[str, object]:
    return await ctx.ask(inner, {"given": given}, dict[str, object])


def test_objects_of_any_values_are_taken_and_returned() -> None:
    async def main() -> None:
        async with AgentRuntime([inner, outer]) as runtime:
            given = {"a": [1, {"b": None}], "c": "d"}
            assert (await runtime.run("outer", {"given": given})).output == {"given": given}

    asyncio.run(main())


@workflow
async def maybe(ctx: WorkflowContext, order_id: str | None = None) -> str:
    return str(order_id)


@workflow
async def short(ctx: WorkflowContext, order_id: Annotated[str, Meta(max_length=3)]) -> str:
    return order_id


@workflow
async def count(ctx: WorkflowContext, first: int, second: int) -> int:
    return first + second


@pytest.mark.parametrize(
    ("flow", "text", "found"),
    [
        (maybe, "A-1", "A-1"),
        (maybe, "{}", None),
        (maybe, '{"order_id": null}', None),
        (maybe, "null", "null"),
        (short, "A-1", "A-1"),
    ],
)
def test_the_only_text_may_be_missing_or_bounded(flow: Any, text: str, found: str | None) -> None:
    assert flow.arguments.read(text) == {"order_id": found}


@pytest.mark.parametrize(
    ("flow", "text", "said"),
    [
        (short, "A-17", "length <= 3"),
        (count, "three and four", "one JSON object with the fields: first, second"),
        (count, '{"first": 3', "one JSON object with the fields: first, second"),
    ],
)
def test_input_that_does_not_fit_says_what_would(flow: Any, text: str, said: str) -> None:
    with pytest.raises(InvalidWorkflowInput, match=said):
        flow.arguments.read(text)


def test_a_workflow_is_not_called_a_tool() -> None:
    async def untyped(ctx: WorkflowContext, order) -> None:  # type: ignore[no-untyped-def]
        """Take something."""

    with pytest.raises(InvalidSpec, match=r"workflow '.*untyped' is invalid: parameter 'order'"):
        workflow(untyped)


@workflow
async def order(ctx: WorkflowContext) -> int:
    return int(await ctx.wait_for("payment", int))


def test_an_event_for_a_run_that_is_still_queued_may_be_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "a.db")
        async with AgentRuntime([order], store=store, has_worker=False) as runtime:
            receipt = await runtime.submit("order", {})
            with pytest.raises(RunStillQueued) as caught:
                await runtime.send_event(receipt.run_id, "payment", 3, event_id="p-1")
            assert caught.value.retryable
            path = f"/v1/runs/{receipt.run_id}/events/payment"
            refused = await ask(runtime.asgi(), "POST", path, body={"payload": 3})
            assert (refused.status, refused.json["code"]) == (409, "run_still_queued")
        async with AgentRuntime([order], store=SqliteStore(tmp_path / "a.db")) as runtime:
            async with asyncio.timeout(10):
                while True:
                    try:
                        await runtime.send_event(receipt.run_id, "payment", 3, event_id="p-1")
                        break
                    except RunStillQueued:
                        await asyncio.sleep(0.01)
                while not (run := await runtime.get_run(receipt.run_id)).status.is_terminal:
                    await asyncio.sleep(0.01)
            assert run.final_output == "3"

    asyncio.run(main())
