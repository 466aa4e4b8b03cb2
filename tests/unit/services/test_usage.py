"""Reports of usage, and the summary of unfinished runs."""

import asyncio
from typing import Any

import pytest

from awaken.contracts.errors import InvalidInput
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunKind
from awaken.contracts.storage.usage import DAY_MS, UsageSums
from awaken.services.run_summary import RunSummary, summarize_runs
from awaken.services.usage import UsageField, UsageQuery, report_usage
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock
from awaken.testing.store_conformance.writing import DONE, RUNNING, WAITING, Writer, run

DAY, AGENT, TENANT = UsageField.DAY, UsageField.AGENT, UsageField.TENANT
START = 20_000 * DAY_MS


async def end_run(store: MemoryStore, number: int, **fields: Any) -> None:
    spent = TokenUsage(prompt_tokens=10, completion_tokens=number, cost_nanos=number)
    given = {"finished_at": START + number * DAY_MS, "usage": spent} | fields
    thread_id = f"t-{number}"
    record = run(f"r-{number}", DONE, thread_id=thread_id, **given)
    await Writer(store, thread_id).commit(run=record)


def test_usage_is_grouped_by_what_is_asked() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        clock.advance(START + 9 * DAY_MS - clock.now_ms())
        store = MemoryStore(clock=clock)
        for number in range(4):
            await end_run(store, number, agent_id="ab"[number % 2])
        assert await store.count_usage() == 4
        query = UsageQuery(since=START, until=START + 3 * DAY_MS - 1, by=(AGENT,))
        report = await report_usage(store, query)
        assert [(it.agent_id, it.day, it.sums.runs) for it in report.rows] == [
            ("a", None, 2),
            ("b", None, 1),
        ]
        assert report.total == UsageSums(runs=3, input_tokens=30, output_tokens=3, cost_nanos=3)
        by_day = await report_usage(store, UsageQuery(since=START, until=START + 9 * DAY_MS))
        assert [it.day for it in by_day.rows] == [START + n * DAY_MS for n in range(4)]
        whole = UsageQuery(since=START, until=START + 9 * DAY_MS, by=(), tenant_id=None)
        (row,) = (await report_usage(store, whole)).rows
        assert row.sums == by_day.total
        for since, until in ((START, START - 1), (0, 366 * DAY_MS)):
            with pytest.raises(InvalidInput):
                await report_usage(store, UsageQuery(since=since, until=until, by=(TENANT, DAY)))

    asyncio.run(scenario())


def test_the_summary_counts_what_has_not_ended() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        assert await summarize_runs(store) == RunSummary()
        for number, (status, kind) in enumerate(
            (
                (RUNNING, RunKind.CHAT),
                (WAITING, RunKind.CHAT),
                (WAITING, RunKind.CHAT),
                (WAITING, RunKind.EVAL),
                (DONE, RunKind.CHAT),
            )
        ):
            thread_id = f"t-{number}"
            record = run(f"r-{number}", status, thread_id=thread_id, purpose=kind)
            await Writer(store, thread_id).commit(run=record)
        assert await summarize_runs(store) == RunSummary(running=1, waiting=2)

    asyncio.run(scenario())
