"""The entries by which processes of one store show themselves to each other."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from awaken import Agent, AgentRuntime
from awaken.contracts.plugins.statistics import AgentFigures, CallFigures, StatisticsSummary
from awaken.contracts.state.profile import ProfileEntry
from awaken.services.workers import (
    FIGURES_BYTES,
    OWNER,
    SILENT_MS,
    WorkerConfig,
    WorkerEntry,
    WorkerIdentity,
    WorkerLoad,
    WorkerReport,
    fit_summary,
    list_workers,
    remove_silent_workers,
)
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.testing import FakeClock, ScriptedModel

LOAD = WorkerLoad(agents=("a",), agent_count=1, running=2, slots=8)


def report_of(
    profile: MemoryProfileStore, clock: FakeClock, id_: str = "host:1:abc"
) -> WorkerReport:
    async def now() -> int:
        return clock.now_ms()

    identity = WorkerIdentity(id=id_, version="0", host="host", pid=1)
    return WorkerReport(identity, profile, now, lambda: LOAD)


def test_a_process_is_listed_with_what_it_does_and_what_it_has_applied() -> None:
    async def scenario() -> tuple[WorkerEntry, ...]:
        clock, profile = FakeClock(), MemoryProfileStore()
        report = report_of(profile, clock)
        report.set_config(
            WorkerConfig(publication=7, config_revision=9, applied_at=5, unusable={"b": "no tool"})
        )
        await report.write()
        return await list_workers(profile, clock.now_ms())

    (entry,) = asyncio.run(scenario())
    assert (entry.id, entry.agents, entry.running, entry.slots) == ("host:1:abc", ("a",), 2, 8)
    assert (entry.publication, entry.config_revision, entry.unusable) == (7, 9, {"b": "no tool"})


def test_a_silent_process_is_ignored_and_then_removed() -> None:
    async def scenario() -> None:
        clock, profile = FakeClock(), MemoryProfileStore()
        await report_of(profile, clock, "one").write()
        clock.advance(SILENT_MS - 1)
        await report_of(profile, clock, "two").write()
        await profile.save_entry(ProfileEntry(owner=OWNER, key="odd", value={"id": 3}))
        assert [it.id for it in await list_workers(profile, clock.now_ms())] == ["one", "two"]
        clock.advance(1)
        assert [it.id for it in await list_workers(profile, clock.now_ms())] == ["two"]
        assert await remove_silent_workers(profile, clock.now_ms()) == 2
        assert [it.key for it in await profile.list_entries(OWNER)] == ["two"]

    asyncio.run(scenario())


def test_a_report_keeps_the_busiest_agents_and_stays_small() -> None:
    bins = tuple((place, 1) for place in range(100))
    agents = {
        f"agent-{number}": AgentFigures(inferences=CallFigures(count=number, bins=bins))
        for number in range(1, 501)
    }
    fitted = fit_summary(StatisticsSummary(window_ms=1, agents=agents))
    assert len(msgspec.json.encode(fitted)) <= FIGURES_BYTES * 1.1
    assert "agent-500" in fitted.agents
    assert "agent-1" not in fitted.agents


def test_two_processes_of_a_store_see_each_other_until_they_close(tmp_path: Path) -> None:
    def runtime() -> AgentRuntime:
        agent = Agent("a", model=ScriptedModel(["Hi."]))
        return AgentRuntime([agent], store=f"sqlite:///{tmp_path}/a.db")

    async def listed(opened: AgentRuntime, count: int) -> tuple[WorkerEntry, ...]:
        store: Any = opened.store
        async with asyncio.timeout(10):
            while len(found := await list_workers(store, await store.now_ms())) != count:
                await asyncio.sleep(0.01)
        return found

    async def scenario() -> None:
        async with runtime() as one:
            async with runtime() as two:
                found = await listed(one, 2)
                assert len({it.id for it in found}) == 2
                assert {it.agents for it in found} == {("a",)}
                assert await listed(two, 2)
            (left,) = await listed(one, 1)
            assert left.id == one._node.worker_id

    asyncio.run(scenario())


def test_a_report_that_changes_is_written_at_once() -> None:
    async def scenario() -> None:
        clock, profile = FakeClock(), MemoryProfileStore()
        report = report_of(profile, clock)
        await report.open()
        await report.open()
        # Known to the others before this process goes on.
        assert await list_workers(profile, clock.now_ms())
        async with asyncio.timeout(10):
            report.set_config(WorkerConfig(publication=3))
            while (await list_workers(profile, clock.now_ms()))[0].publication != 3:
                await asyncio.sleep(0)
        await report.close()
        assert await profile.list_entries(OWNER) == ()

    asyncio.run(scenario())


class BrokenProfile(MemoryProfileStore):
    """Fails a few times."""

    failures = 2

    async def save_entry(self, entry: ProfileEntry) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("gone")
        await super().save_entry(entry)


def test_a_store_that_fails_delays_the_report_and_stops_nothing() -> None:
    async def scenario() -> None:
        clock, profile = FakeClock(), BrokenProfile()
        report = report_of(profile, clock)
        await report.open()
        async with asyncio.timeout(10):
            while not await list_workers(profile, clock.now_ms()):
                await asyncio.sleep(0)
                report.set_config(WorkerConfig())
        await report.close()

    asyncio.run(scenario())
