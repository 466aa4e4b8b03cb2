"""Usage by day: each ended run is counted once, however many processes count."""

import asyncio
from typing import Any

from awaken.contracts.events import InferenceComplete
from awaken.contracts.lifecycle import Failed
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunKind
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Store
from awaken.contracts.storage.usage import DAY_MS, SETTLE_MS, UsageDay, UsageKey, UsageSums

from .writing import DONE, RUNNING, Writer, run


async def ended_runs_are_summed_by_day_agent_model_and_tenant(store: Store) -> None:
    """By the models that their calls name; what no call reported has no model."""
    ended_at = await store.now_ms() - 2 * SETTLE_MS
    day = ended_at // DAY_MS
    await store.save_thread(Thread(id="@ann:t", tenant_id="ann"))
    await _end(store, "t-1", "r-1", ended_at, usage=_usage(10, 4, cost_nanos=7), calls=2)
    await _end(store, "t-1", "r-2", ended_at, usage=_usage(1, 1), termination=Failed(message="no"))
    await _end(store, "@ann:t", "@ann:r-3", ended_at, usage=_usage(2, 2), calls=1)
    await _end(store, "t-3", "r-4", ended_at - DAY_MS, usage=_usage(3, 3), calls=1)
    await _end(store, "t-4", "r-5", ended_at, usage=_usage(9, 9), purpose=RunKind.PREVIEW)
    await _end(store, "t-5", "r-6", ended_at + 2 * SETTLE_MS, usage=_usage(8, 8))
    await Writer(store, "t-6").commit(run=run("r-7", RUNNING, thread_id="t-6"))
    assert await store.count_usage() == 5
    expected = (
        _day(day - 1, "m-0", runs=1, input_tokens=3, output_tokens=3),
        _day(day, "", runs=1, errors=1, input_tokens=1, output_tokens=1),
        _day(day, "m-0", input_tokens=5, output_tokens=2, cost_nanos=3),
        _day(day, "m-0", "ann", runs=1, input_tokens=2, output_tokens=2),
        _day(day, "m-1", runs=1, input_tokens=5, output_tokens=2, cost_nanos=3),
    )
    # The rest of the price is in no call.
    rest = _day(day, "", runs=1, errors=1, input_tokens=1, output_tokens=1, cost_nanos=1)
    found = await store.list_usage(day - 1, day)
    assert found == (expected[0], rest, *expected[2:]), found
    assert await store.list_usage(day, day, "ann") == (expected[3],)
    assert await store.list_usage(day + 1, day + 9) == ()


async def a_run_is_counted_once(store: Store) -> None:
    """In slices, again, and by several at the same time."""
    ended_at = await store.now_ms() - 2 * SETTLE_MS
    for n in range(25):
        # Ties: ten runs end in one millisecond.
        await _end(store, f"t-{n}", f"r-{n}", ended_at - n // 10, usage=_usage(1, 1), calls=1)
    counted = 0
    while found := sum(await asyncio.gather(*(store.count_usage(4) for _ in range(3)))):
        counted += found
    assert counted == 25
    assert await store.count_usage() == 0
    days = await store.list_usage(0, 1 << 40)
    assert sum(it.sums.runs for it in days) == 25
    assert sum(it.sums.input_tokens for it in days) == 25


async def _end(
    store: Store, thread_id: str, run_id: str, ended_at: int, *, calls: int = 0, **fields: Any
) -> None:
    """Write a run that has ended, whose calls share its usage."""
    usage: TokenUsage = fields["usage"]
    known = await store.load_thread(thread_id)
    writer = Writer(store, thread_id)
    writer.version = 0 if known is None else known.version
    parts = {
        name: value // calls
        for name in ("prompt_tokens", "completion_tokens", "cost_nanos")
        if calls and (value := getattr(usage, name)) is not None
    }
    events = tuple(
        InferenceComplete(model=f"m-{n}", usage=TokenUsage(**parts)) for n in range(calls)
    )
    await writer.commit(run=run(run_id, RUNNING, thread_id=thread_id), events=events)
    ended = run(run_id, DONE, thread_id=thread_id, finished_at=ended_at, **fields)
    await writer.commit(run=ended)


def _usage(prompt: int, completion: int, **fields: Any) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, completion_tokens=completion, **fields)


def _day(day: int, model: str, tenant_id: str | None = None, **sums: Any) -> UsageDay:
    key = UsageKey(day=day, agent_id="agent", model=model, tenant_id=tenant_id)
    return UsageDay(key=key, sums=UsageSums(**sums))


CHECKS = (ended_runs_are_summed_by_day_agent_model_and_tenant, a_run_is_counted_once)
