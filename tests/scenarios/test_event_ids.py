"""An event is sent once under its id, however long ago its dispatch was deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from awaken import WorkflowContext, workflow
from awaken.contracts.storage.queries import DispatchQuery
from awaken.errors import DedupeConflict
from awaken.mailbox.config import MailboxConfig

from .each_store import NewStore, each_store
from .test_workflow_races import parked
from .test_workflows import World, awaited, ended, until


@each_store
@awaited
async def test_an_id_stays_used_when_the_dispatch_of_its_event_is_deleted(
    new_store: NewStore, tmp_path: Path
) -> None:
    @workflow
    async def listen(ctx: WorkflowContext) -> list[Any]:
        first = await ctx.wait_for("n")
        await ctx.wait_for("go")
        return [first, await ctx.wait_for("n")]

    world = World(new_store, tmp_path)
    soon = MailboxConfig(retention_ms=1, purge_ms=60_000)
    async with world.process(listen, mailbox=soon) as runtime:
        run = await runtime.run("listen", {})
        await runtime.send_event(run.run_id, "n", {"x": 1}, event_id="one")
        await parked(runtime, run.run_id, "go")

        async def is_purged() -> bool:
            await runtime.store.purge(await runtime.store.now_ms())
            found = await runtime.store.list_dispatches(DispatchQuery(thread_id=run.thread_id))
            return not found.items

        await until(runtime, is_purged)
        again = await runtime.send_event(run.run_id, "n", {"x": 1}, event_id="one")
        assert again.is_duplicate
        with pytest.raises(DedupeConflict):
            await runtime.send_event(run.run_id, "n", {"x": 2}, event_id="one")
        await runtime.send_event(run.run_id, "n", 3, event_id="three")
        await runtime.send_event(run.run_id, "go")
        result = await ended(runtime, run.run_id)
        assert json.loads(result.text) == [{"x": 1}, 3]
        # Also after the end of the run.
        await until(runtime, is_purged)
        again = await runtime.send_event(run.run_id, "n", 3, event_id="three")
        assert again.is_duplicate
