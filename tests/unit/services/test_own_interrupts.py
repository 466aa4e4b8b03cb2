"""An interrupt ends what its thread did before, never the run that it begins itself."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode
from awaken.testing import ScriptedModel


def test_a_slot_that_is_still_being_filled_is_left_alone_by_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["x"]))
        async with AgentRuntime([agent], has_worker=False) as runtime:
            engine, cancelled = runtime._engine, []

            async def cancel(active: Any, *_: Any) -> bool:
                cancelled.append(active)
                return True

            monkeypatch.setattr(engine, "cancel_active", cancel)
            # A worker has just taken the input, and loads what the run needs.
            slot = await engine.active.reserve("t")
            request = RunRequest(thread_id="t", agent_id="a", messages=(user("hi"),))
            await runtime._control.submit(request, InputMode.INTERRUPT, {})
            engine.active.release(slot)
            assert cancelled == []

    asyncio.run(scenario())
