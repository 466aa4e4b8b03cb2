"""Golden journals: what earlier code has written still answers, or says where it differs.

`tests/golden/0.1.0/workflow_journal.json` has the records of a run of the first version of `order`
below, parked at its event, and the same run after a reset to step 2.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import AgentRuntime, WorkflowContext, tool, user, workflow
from awaken.contracts.messages.message import MessageMetadata
from awaken.contracts.runs.records import RunInput, RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Checkout, ToolRecord
from awaken.mailbox.workflow_runs import plan_reset, reset_run
from awaken.runtime.workflows.journal_check import find_journal_problem
from awaken.runtime.workflows.step_journal import StepJournal

GOLDEN = Path(__file__).parents[2] / "golden" / "0.1.0" / "workflow_journal.json"
RAN: list[str] = []


class Journals(msgspec.Struct):
    parked: list[ToolRecord]
    reset: list[ToolRecord]


@tool(effect="idempotent")
async def save(text: str) -> str:
    """Save a text."""
    RAN.append(text)
    return text.upper()


@tool(effect="once")
async def pay(amount: int) -> int:
    """Pay an amount."""
    RAN.append(f"pay {amount}")
    return amount


def make(version: str) -> Any:
    @workflow(id="order", tools=[save, pay])
    async def order(ctx: WorkflowContext, amount: int) -> str:
        ctx.set_status("begins")
        if version == "patched" and ctx.patched("check first"):
            await ctx.call(save, "check")
        await ctx.call(save, "reserve" if version != "renamed" else "book")
        if version == "inserted":
            await ctx.call(save, "check")
        await ctx.gather(ctx.call(save, "a"), ctx.call(save, "b"))
        if version != "shortened":
            await ctx.call(pay, amount)
            await ctx.wait_for("parcel")
        return "done"

    return order


def find_problem(version: str, records: list[ToolRecord]) -> str | None:
    mark = MessageMetadata(run_id="golden")
    message = msgspec.structs.replace(user('{"amount": 7}'), id="m", metadata=mark)
    record = RunRecord(
        run_id="golden",
        thread_id="t",
        agent_id="order",
        is_workflow=True,
        input=RunInput(from_seq=1, to_seq=1),
    )
    checkout = Checkout(thread=Thread(id="t"), messages=(message,))
    RAN.clear()
    found = asyncio.run(find_journal_problem(make(version), record, checkout, tuple(records)))
    assert RAN == []
    return found


@pytest.fixture(scope="module")
def journals() -> Journals:
    return msgspec.json.decode(GOLDEN.read_bytes(), type=Journals)


@pytest.mark.parametrize("version", ["first", "patched"])
def test_the_code_that_wrote_a_journal_and_a_patched_one_fit_it(
    version: str, journals: Journals
) -> None:
    assert find_problem(version, journals.parked) is None


@pytest.mark.parametrize(
    ("version", "step", "recorded", "found"),
    [
        ("renamed", "2", "call save with other arguments", 'call save with {"text":"book"}'),
        ("inserted", "3", "gather 2 branches", "call save"),
        ("shortened", "4", "call pay", "the end"),
    ],
)
def test_code_that_differs_is_named_with_its_step(
    version: str, step: str, recorded: str, found: str, journals: Journals
) -> None:
    problem = find_problem(version, journals.parked)
    assert problem is not None
    assert problem.startswith(f"step {step}: the journal has {recorded}")
    assert f"the code does {found}" in problem


@pytest.mark.parametrize("version", ["first", "patched", "renamed", "inserted", "shortened"])
def test_after_a_reset_every_version_goes_on(version: str, journals: Journals) -> None:
    assert [*StepJournal(journals.reset).steps] == ["1"]
    assert find_problem(version, journals.reset) is None


def write() -> None:
    """Write the golden journals anew: only for a new version of the format."""

    async def story(folder: str) -> Journals:
        url = f"sqlite:///{folder}/g.db"
        async with AgentRuntime([make("first")], store=url, has_worker=False) as runtime:
            run = await runtime.run("order", {"amount": 7})
            store, services = runtime.store, runtime._control.mailbox.services
            parked = await store.list_tool_records(run.run_id)
            record = await store.load_run(run.run_id)
            assert record is not None
            await reset_run(services, record, await plan_reset(services, record, "2"))
            return Journals(list(parked), list(await store.list_tool_records(run.run_id)))

    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(story(folder))
    data = msgspec.json.format(msgspec.json.encode(made), indent=1)
    GOLDEN.write_bytes(data + b"\n")


if __name__ == "__main__":
    write()
