"""The most expensive runs are chosen from a bounded number of the latest ones."""

from typing import Any

import msgspec
import pytest

from awaken.contracts.messages.message import TokenUsage
from awaken.services import costly_runs

from .managed_world import World, world


async def _spend(at: World, thread_id: str, nanos: int | None, tokens: int = 1) -> str:
    """Run an agent, and let its record say what it has used."""
    run = await at.run("helper", thread_id)
    store: Any = at.runtime.store
    record = await store.load_run(run["run_id"])
    usage = TokenUsage(prompt_tokens=tokens, total_tokens=tokens, cost_nanos=nanos)
    store._tables.runs[record.run_id] = msgspec.structs.replace(record, usage=usage)
    return str(run["run_id"])


def test_runs_are_listed_by_cost_then_by_tokens() -> None:
    async def scenario(at: World) -> None:
        spent = [(5, 1), (None, 9), (7, 1), (None, 3)]
        ids = [await _spend(at, f"t{index}", *it) for index, it in enumerate(spent)]
        found = await at.get("/v1/usage/runs?limit=3")
        assert [it["run_id"] for it in found["items"]] == [ids[2], ids[0], ids[1]]
        assert [it["cost_nanos"] for it in found["items"]] == [7, 5, None]
        assert (found["looked_at"], found["is_complete"]) == (4, True)
        ended = found["items"][0]["created_at"]
        early = await at.get(f"/v1/usage/runs?from=0&to={ended - 60_000}")
        assert (early["items"], early["looked_at"]) == ([], 0)
        assert (await at.get("/v1/usage/runs", who="tenant"))["looked_at"] == 0

    world(scenario)


def test_only_the_latest_runs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costly_runs, "LOOKED_AT_MAX", 2)
    monkeypatch.setattr(costly_runs, "LIMIT_MAX", 2)

    async def scenario(at: World) -> None:
        ids = [await _spend(at, f"t{index}", nanos) for index, nanos in enumerate((9, 2, 3))]
        found = await at.get("/v1/usage/runs")
        assert [it["run_id"] for it in found["items"]] == [ids[2], ids[1]]
        assert (found["looked_at"], found["is_complete"]) == (2, False)

    world(scenario)
