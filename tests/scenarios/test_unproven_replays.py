"""What a verification cannot know it says: no difference is made up, and none is kept quiet."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.errors import RunFailed, StoreFull
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.models import ModelSpec
from awaken.stores import MemoryStore
from awaken.testing import ScriptedModel, ToolCalls, Turn

from .test_publish_gates import make_draft, publish

LOOK = ToolCalls([("look", {"what": "a"})])


@tool(effect="none")
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


def make_agent() -> Agent:
    return Agent("a", model=ScriptedModel([LOOK, "Done."], cycle=True), tools=[look])


async def record() -> Recording:
    async with AgentRuntime([make_agent()], history="full") as runtime:
        run = await runtime.run("a", "hi")
        made: Recording = await runtime.replays.record(run.run_id)
        return made


def verify(recording: Recording) -> Any:
    async def main() -> Any:
        async with AgentRuntime([make_agent()], history="full") as runtime:
            return await runtime.replays.verify(recording)

    return asyncio.run(main())


def test_a_run_from_before_the_first_publication_says_on_what_it_was_verified(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        runtime = AgentRuntime(
            [make_agent()],
            providers={"own": ScriptedModel([Turn("please")] * 9)},
            models=[ModelSpec(id="m", provider_id="own", upstream_model="m")],
            store=f"sqlite:///{tmp_path / 'a.db'}",
            managed=True,
        )
        async with runtime:
            run = await runtime.run("a", "hi")
            assert (await runtime.replays.verify(run.run_id)).incomplete == ()
            await publish(runtime, await make_draft(runtime, "Answer politely."))
            (said,) = (await runtime.replays.verify(run.run_id)).incomplete
            assert said.startswith("the configuration: the run began before the first publication")
            later = await runtime.run("a", "hi")
            assert (await runtime.replays.verify(later.run_id)).incomplete == ()

    asyncio.run(main())


def test_a_publication_that_a_process_does_not_have_is_named() -> None:
    recording = asyncio.run(record())
    config = msgspec.structs.replace(recording.config, publication=7)
    result = verify(msgspec.structs.replace(recording, config=config))
    assert result.is_same
    assert result.incomplete == (
        "publication 7: this process has no managed configuration, only its code",
    )


def test_requests_that_nothing_can_compare_are_named() -> None:
    recording = asyncio.run(record())
    steps = tuple(msgspec.structs.replace(it, digest=None) for it in recording.steps)
    result = verify(msgspec.structs.replace(recording, steps=steps))
    assert result.is_same
    assert result.incomplete == (
        "the requests of steps 1, 2: the recording has no digests of them",
    )


class FullStore(MemoryStore):
    """Refuses one write, as a store whose disk is full."""

    refuses = False

    async def commit(self, commit: Any) -> Any:
        if self.refuses:
            self.refuses = False
            raise StoreFull(store="here", problem="the disk is full")
        return await super().commit(commit)


def make_filling(store: FullStore) -> Agent:
    @tool(effect="none")
    async def fill() -> str:
        """Fill the disk."""
        store.refuses = True
        return "full"

    calls = ToolCalls([("fill", {})])
    return Agent("a", model=ScriptedModel([calls, "Done."], cycle=True), tools=[fill])


def test_a_run_whose_store_refused_a_write_is_not_called_diverged() -> None:
    async def main() -> None:
        store = FullStore()
        async with AgentRuntime([make_filling(store)], store=store, history="full") as runtime:
            with pytest.raises(RunFailed) as failed:
                await runtime.run("a", "hi")
            assert failed.value.cause_code == StoreFull.code
            recording = await runtime.replays.record(failed.value.run_id)
            with pytest.raises(CannotReplay, match=r"its store refused a write \(store_full\)"):
                await runtime.replays.verify(recording)
            # What differs before that write is a difference.
            said = msgspec.structs.replace(recording.steps[0], digest="00" * 16)
            other = msgspec.structs.replace(recording, steps=(said, *recording.steps[1:]))
            parted = await runtime.replays.verify(other)
            assert (parted.divergences[0].step, parted.divergences[0].kind) == (1, "request")

    asyncio.run(main())
