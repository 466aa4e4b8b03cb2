"""Replays in the background: bounded in number and time, cancelled, followed from elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.bootstrap.replays import build_run_replays
from awaken.contracts.evals.errors import (
    CannotReplay,
    ReplayTimedOut,
    TooManyReplays,
    UnknownReplay,
)
from awaken.contracts.evals.replays import ReplayMode, ReplayRecord, ReplaySpec, ReplayStatus
from awaken.contracts.evals.store import SourceQuery
from awaken.contracts.evals.worlds import Variant
from awaken.evals.replay_jobs import INDEX, LOST, FollowedReplay, ReplayLimits, owner_of
from awaken.evals.run_replays import RunReplays
from awaken.testing import ScriptedModel, ToolCalls

WAIT_MS = 60_000


class Gate:
    """A tool without effects that waits in replays until the test lets it go."""

    def __init__(self) -> None:
        self.is_held = False
        self.held = asyncio.Event()
        self.free = asyncio.Event()


def make_agent(gate: Gate) -> Agent:
    @tool(effect="none")
    async def look(what: str) -> str:
        """Look."""
        if gate.is_held:
            gate.held.set()
            await gate.free.wait()
        return f"saw {what}"

    model = ScriptedModel([ToolCalls([("look", {"what": "a"})]), "Done."], cycle=True)
    return Agent("a", model=model, tools=[look])


@asynccontextmanager
async def opened(store: str, gate: Gate) -> AsyncIterator[AgentRuntime]:
    async with (
        asyncio.timeout(120),
        AgentRuntime([make_agent(gate)], store=store, history="full") as runtime,
    ):
        yield runtime


def build(runtime: AgentRuntime, **limits: Any) -> RunReplays:
    return build_run_replays(runtime.view("t").engine, None, ReplayLimits(**limits))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


LIVE = ReplaySpec(mode=ReplayMode.MODEL_ONLY)


async def finish(replays: RunReplays, begun: FollowedReplay) -> FollowedReplay:
    return await replays.jobs.load(begun.replay.run_id, begun.replay.replay_id, WAIT_MS)


def test_a_replay_is_followed_and_its_result_stays(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi", thread_id="t")
            replays = runtime.replays
            begun = await replays.begin(run.run_id, ReplaySpec(), "ann")
            assert (begun.replay.status, begun.result) == (ReplayStatus.RUNNING, None)
            done = await finish(replays, begun)
            assert done.replay.status is ReplayStatus.DONE
            assert done.result is not None
            assert done.result.is_same
            assert (done.result.diff.before.steps, done.result.diff.after.steps) == (2, 2)
            assert done.replay.created_by == "ann"
            recorded = await replays.load_replayed(run.run_id, begun.replay.replay_id)
            assert recorded.run.final_output == "Done."
            # What it keeps is found and deleted with the conversation.
            evals = runtime.evals.parts.evals
            sources = await evals.list_eval_sources(SourceQuery(thread_id="t"))
            assert [it.hash for it in sources] == [done.replay.result]
            await evals.delete_eval_objects([it.hash for it in sources])
            gone = await finish(replays, begun)
            assert (gone.result, gone.missing) == (None, "its result was deleted")
            with pytest.raises(UnknownReplay):
                await replays.load_replayed(run.run_id, begun.replay.replay_id)

    asyncio.run(main())


def test_replays_are_bounded_in_number(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi")
            gate.is_held = True
            replays = build(runtime, at_once=2)
            asked = [replays.begin(run.run_id, LIVE) for _ in range(5)]
            made = await asyncio.gather(*asked, return_exceptions=True)
            begun = [it for it in made if isinstance(it, FollowedReplay)]
            refused = [it for it in made if isinstance(it, TooManyReplays)]
            assert (len(begun), len(refused)) == (2, 3), made
            gate.free.set()
            for it in begun:
                assert (await finish(replays, it)).replay.status is ReplayStatus.DONE
            again = await replays.begin(run.run_id, LIVE)
            assert (await finish(replays, again)).replay.status is ReplayStatus.DONE
            # Of those that were refused nothing is left.
            assert len(await replays.jobs.list_of(run.run_id)) == 3

    asyncio.run(main())


def test_a_replay_that_hangs_is_stopped_by_its_limit(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi")
            gate.is_held = True
            replays = build(runtime, time_ms=WAIT_MS)
            short = msgspec.structs.replace(LIVE, time_ms=300)
            done = await finish(replays, await replays.begin(run.run_id, short))
            assert (done.replay.status, done.replay.code) == (
                ReplayStatus.FAILED,
                "replay_timed_out",
            )
            assert done.result is None
            with pytest.raises(ReplayTimedOut):
                await replays.replay(run.run_id, short)
            # A caller cannot have more than the process allows.
            bounded = build(runtime, time_ms=300)
            long = msgspec.structs.replace(LIVE, time_ms=10**9)
            with pytest.raises(ReplayTimedOut, match="300 ms"):
                await bounded.replay(run.run_id, long)
            with pytest.raises(CannotReplay, match="time_ms"):
                await bounded.begin(run.run_id, msgspec.structs.replace(LIVE, time_ms=0))

    asyncio.run(main())


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_replay_is_cancelled_here_and_from_elsewhere(store: str, is_elsewhere: bool) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi")
            gate.is_held = True
            replays = build(runtime, alive_ms=600)
            begun = (await replays.begin(run.run_id, LIVE)).replay
            await gate.held.wait()
            other = build(runtime) if is_elsewhere else replays
            cancelled = await other.jobs.cancel(run.run_id, begun.replay_id)
            assert cancelled.replay.status is ReplayStatus.CANCELLED
            # Its process stops it when it next says that it is alive.
            while replays.jobs._tasks:
                await asyncio.wait(replays.jobs._tasks.values())
            gate.free.set()
            after = await replays.jobs.load(run.run_id, begun.replay_id)
            assert (after.replay.status, after.result) == (ReplayStatus.CANCELLED, None)
            again = await replays.jobs.cancel(run.run_id, begun.replay_id)
            assert again == after

    asyncio.run(main())


def test_a_replay_of_a_process_that_ended_is_lost(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi")
            gate.is_held = True
            replays = build(runtime)
            begun = await replays.begin(run.run_id, LIVE)
            await gate.held.wait()
            await replays.close()
            lost = await finish(build(runtime), begun)
            assert (lost.replay.status, lost.replay.problem) == (ReplayStatus.FAILED, LOST)
            # A process that was killed writes no end: its silence tells.
            silent = ReplayRecord(replay_id="r", run_id=run.run_id, spec=LIVE, alive_until=1)
            await replays.jobs._change(silent, lambda _: silent, 1)
            found = await replays.jobs.load(run.run_id, "r", WAIT_MS)
            assert (found.replay.status, found.replay.problem) == (ReplayStatus.FAILED, LOST)

    asyncio.run(main())


def test_only_so_many_replays_are_kept(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi", thread_id="t")
            replays = build(runtime, kept=2)
            for _ in range(4):
                await finish(replays, await replays.begin(run.run_id, ReplaySpec()))
            kept = await replays.jobs.list_of(run.run_id)
            assert len(kept) == 2
            for it in kept:
                # Equal replays do not share what is removed.
                found = await replays.jobs.load(run.run_id, it.replay_id)
                assert found.result is not None
            profile = runtime.view("t").engine.services.profile
            index = await profile.find_entry(INDEX, INDEX)
            assert index is not None
            assert [it[2] for it in index.value] == sorted(it.replay_id for it in kept)
            assert len(await profile.list_entries(owner_of(run.run_id))) == 2

    asyncio.run(main())


def test_a_publication_needs_managed_configuration(store: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with opened(store, gate) as runtime:
            run = await runtime.run("a", "hi")
            for named in ({"publication": 1}, {"draft_id": "d"}):
                variant = Variant(name="v", **named)  # type: ignore[arg-type]
                spec = ReplaySpec(mode=ReplayMode.WHAT_IF, variant=variant)
                with pytest.raises(CannotReplay, match="managed configuration"):
                    await runtime.replays.begin(run.run_id, spec)

    asyncio.run(main())
