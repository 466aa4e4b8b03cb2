"""A run whose agent no process can use waits with the reason, and goes on when it is repinned."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken import AgentRuntime, AgentSpec, MailboxConfig, Plugin, SuspendTicket, ToolContext, tool
from awaken.contracts.runs.records import WaitingReason
from awaken.mailbox import held_runs
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.services import workers
from awaken.stores import PostgresStore, SqliteStore, Store
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Answer, ask, bearer, config, token

QUICK = MailboxConfig(lease_ms=20_000, renew_ms=100, sweep_ms=100, poll_ms=20, drain_ms=500)
CALL = ToolCalls([("ask_first", {})])


@tool
def ask_first(ctx: ToolContext) -> str | SuspendTicket:
    """Ask a person."""
    return ctx.suspend("May I?") if ctx.resume is None else "allowed"


STAYS: list[asyncio.Event] = []
"""Set when `stay` begins; without one it returns at once."""


@tool(effect="idempotent")
async def stay() -> str:
    """Stay."""
    if STAYS:
        STAYS[0].set()
        await asyncio.Event().wait()
    return "stayed"


class Extra(Plugin):
    """A plugin that only the old code has."""

    name = "extra"


class Process:
    """A process with managed configuration; old code has the plugin that the agent names."""

    def __init__(self, store: "Opener", script: list[Any], *, is_old: bool) -> None:
        self.runtime = AgentRuntime(
            [AgentSpec(id="coded", model_id="m")] if is_old else [],
            tools=[ask_first, stay],
            plugins=[Extra()] if is_old else [],
            providers={"m": ScriptedModel(script)},
            store=store(),
            mailbox=QUICK,
            managed=True,
        )

    async def put(self, *plugins: str) -> int:
        """Write the agent; returns the publication."""
        managed = self.runtime.managed
        assert managed is not None
        write = RecordWrite(namespace="agents", id="a", author=Author(id="ann"))
        body = {"model_id": "m", "plugin_ids": list(plugins)}
        return (await managed.records.put(write, body)).publication.no

    async def ask(self, operation: str, body: Any = None, who: str = "boss") -> Answer:
        method, path = operation.split()
        app = self.runtime.asgi(config(token("boss"), token("tenant", tenant_id="x")))
        await app.open()
        return await ask(app, method, path, body=body, headers=bearer(who))


async def wait_until_held(runtime: AgentRuntime, run_id: str) -> Any:
    async with asyncio.timeout(30):
        while not (record := await runtime.get_run(run_id)).is_held:
            await asyncio.sleep(0.02)
    return record


Opener = Callable[[], Store]


def sqlite(path: Path) -> Opener:
    return lambda: SqliteStore(path / "store.db")


def postgres(_: Path) -> Opener:
    schema = new_schema()
    return lambda: PostgresStore(server().url, schema=schema)


STORES = [sqlite, postgres]


def run(scenario: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


async def begin(store: Opener) -> tuple[int, int, str, str]:
    """Let a run of old code wait; returns its publication, a later one, its id and its ticket."""
    before = Process(store, [CALL], is_old=True)
    async with before.runtime as rt:
        pinned = await before.put("extra")
        waiting = await rt.run("a", "go", thread_id="t")
        later = await before.put()
    return pinned, later, waiting.run_id, waiting.tickets[0].ticket_id


@pytest.mark.parametrize("store", STORES)
def test_a_decided_run_is_held_when_both_processes_refuse_it_and_goes_on_after_a_repin(
    store: Callable[[Path], Opener], tmp_path: Path
) -> None:
    async def scenario() -> None:
        url = store(tmp_path)
        pinned, later, run_id, ticket = await begin(url)
        first = Process(url, ["done"], is_old=False)
        second = Process(url, ["done"], is_old=False)
        async with first.runtime as rt, second.runtime:
            await rt.decide(ticket)
            held = await wait_until_held(rt, run_id)
            assert held.waiting.reason is WaitingReason.PINNED_CONFIG_UNUSABLE
            assert held.waiting.before is WaitingReason.TOOL_PERMISSION
            assert held.waiting.ticket_ids == (ticket,)
            assert "extra" in held.waiting.problem
            assert held.publication == pinned
            # Waiting for it ends: only a person lets it go on.
            assert (await rt.wait(run_id, timeout_ms=5_000)).is_waiting
            shown = (await first.ask(f"GET /v1/runs/{run_id}")).json
            assert shown["waiting"]["reason"] == "pinned_config_unusable"
            assert "extra" in shown["waiting"]["problem"]
            same = await first.ask(f"POST /v1/runs/{run_id}/repin", {"publication": pinned})
            assert (same.status, same.json["code"]) == (400, "repin_refused")
            answer = await first.ask(f"POST /v1/runs/{run_id}/repin", {"publication": "live"})
            assert (answer.status, answer.json["publication"]) == (202, later)
            async with asyncio.timeout(20):
                while (done := await rt.get_run(run_id)).ended is None:
                    await asyncio.sleep(0.02)
            assert (done.ended, done.final_output) == ("natural_end", "done")
            assert done.publication == later
            log = (await first.ask("GET /v1/audit-log?action=repin")).json["items"]
            assert [it["details"] for it in log] == [{"before": pinned, "after": later}]
            again = await first.ask(f"POST /v1/runs/{run_id}/repin", {"publication": "live"})
            assert again.status == 409

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_held_run_can_be_cancelled(store: Callable[[Path], Opener], tmp_path: Path) -> None:
    async def scenario() -> None:
        url = store(tmp_path)
        _, _, run_id, ticket = await begin(url)
        process = Process(url, ["done"], is_old=False)
        async with process.runtime as rt:
            await rt.decide(ticket)
            await wait_until_held(rt, run_id)
            assert (await process.ask(f"POST /v1/runs/{run_id}/cancel")).status == 202
            assert (await rt.get_run(run_id)).ended == "cancelled"

    run(scenario)


def test_one_process_that_can_continue_the_run_does_so_although_another_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the one that refuses may be offered the run many times before the other is.
    monkeypatch.setattr(workers, "REFUSALS_MAX", 10_000)

    async def scenario() -> None:
        url = sqlite(tmp_path)
        pinned, _, run_id, ticket = await begin(url)
        new = Process(url, ["wrong"], is_old=False)
        old = Process(url, ["right"], is_old=True)
        async with new.runtime as rt, old.runtime:
            # Who opened is known: the run is not held because the old code had no time to report.
            store: Any = rt.store
            live = await workers.list_workers(store, await store.now_ms())
            assert [bool(it.slots) for it in live] == [True, True]
            await rt.decide(ticket)
            result = await rt.wait(run_id, timeout_ms=30_000)
            assert result.text == "right"
            assert (await rt.get_run(run_id)).publication == pinned

    run(scenario)


def test_a_held_run_goes_on_by_itself_when_old_code_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_runs, "HELD_MS", 200)

    async def scenario() -> None:
        url = sqlite(tmp_path)
        pinned, _, run_id, ticket = await begin(url)
        new = Process(url, ["wrong"], is_old=False)
        async with new.runtime as rt:
            await rt.decide(ticket)
            held = await wait_until_held(rt, run_id)
        old = Process(url, ["right"], is_old=True)
        async with old.runtime as rt, asyncio.timeout(20):
            while (done := await rt.get_run(run_id)).ended is None:
                await asyncio.sleep(0.02)
        assert (done.final_output, done.publication) == ("right", pinned)
        assert held.waiting is not None

    run(scenario)


def test_a_run_that_was_executing_is_held_and_recovered_after_the_repin(tmp_path: Path) -> None:
    async def scenario() -> None:
        url = sqlite(tmp_path)
        before = Process(url, [ToolCalls([("stay", {})])], is_old=True)
        async with before.runtime as rt:
            await before.put("extra")
            STAYS.append(asyncio.Event())
            handle = await rt.start("a", "go", thread_id="t")
            await STAYS[0].wait()
            later = await before.put()
        STAYS.clear()
        after = Process(url, ["recovered"], is_old=False)
        async with after.runtime as rt:
            held = await wait_until_held(rt, handle.run_id)
            assert held.waiting.before is None
            path = f"POST /v1/runs/{handle.run_id}/repin"
            assert (await after.ask(path, {"publication": later})).status == 202
            result = await rt.wait(handle.run_id, timeout_ms=20_000)
            assert result.text == "recovered"
            texts = [it.message.text for it in await rt.messages("t")]
            assert texts == ["go", "", "stayed", "recovered"]

    run(scenario)


def test_a_repin_is_refused_to_tenants_and_of_unknown_runs_and_publications(tmp_path: Path) -> None:
    async def scenario() -> None:
        url = sqlite(tmp_path)
        _, _, run_id, _ = await begin(url)
        process = Process(url, ["done"], is_old=False)
        async with process.runtime as rt:
            path = f"POST /v1/runs/{run_id}/repin"
            assert (await process.ask(path, {"publication": "live"}, "tenant")).status == 403
            unknown = await process.ask("POST /v1/runs/none/repin", {"publication": "live"})
            assert unknown.status == 404
            missing = await process.ask(path, {"publication": 999})
            assert (missing.status, missing.json["code"]) == (404, "unknown_publication")
            assert (await process.ask(path, {"publication": "dead"})).status == 422
            # A run that only waits takes the new publication, and goes on waiting.
            assert (await process.ask(path, {"publication": "live"})).status == 202
            assert (await rt.get_run(run_id)).waiting is not None

    run(scenario)
