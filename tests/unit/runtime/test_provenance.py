"""Where a run comes from: what its request says is in its record and in its identity."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, user
from awaken.contracts.events import RunStart
from awaken.contracts.identity import PROVENANCE, Adapter, RunMode, RunOrigin
from awaken.contracts.runs.records import RunRequest

SAMPLES: dict[str, Any] = {
    "origin": RunOrigin.INTERNAL,
    "run_mode": RunMode.SCHEDULED,
    "adapter": Adapter.AG_UI,
    "parent_thread_id": "parent",
}


@pytest.mark.parametrize("name", PROVENANCE)
def test_a_new_run_keeps_each_field_of_its_requests_provenance(name: str) -> None:
    async def main() -> None:
        async with AgentRuntime([Agent("a", model="scripted")]) as runtime:
            await runtime.run("a", "hi", thread_id="parent")
            given = {name: SAMPLES.get(name, f"some-{name}")}
            request = RunRequest(agent_id="a", messages=(user("hi"),), **given)
            handle = await runtime.start(request)
            result = await handle.result()
            record = await runtime.store.load_run(result.run_id)
            (begun, *_) = await runtime.store.list_events(result.thread_id)
            assert record is not None
            assert isinstance(begun.event, RunStart)
            assert begun.event.identity is not None
            assert getattr(record, name) == given[name]
            assert getattr(begun.event.identity, name) == given[name]

    asyncio.run(main())
