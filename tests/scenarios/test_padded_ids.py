"""Ids with blanks around them: a thread's id is taken as it is, all others are trimmed."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, RunRequest, UnknownAgent, user
from awaken.errors import InvalidInput
from awaken.runtime.resolution.registries import RegistrySet
from awaken.testing import ScriptedModel


def runtime(**options: Any) -> AgentRuntime:
    return AgentRuntime([Agent("a", model=ScriptedModel(["hello"], cycle=True))], **options)


def test_a_thread_is_the_one_that_was_named_and_other_ids_are_trimmed() -> None:
    async def scenario() -> None:
        async with runtime() as rt:
            result = await rt.run(" a ", "hi", thread_id=" t ", session_id=" s ", user_id=" ")
            assert result.thread_id == " t "
            assert len(await rt.messages(" t ")) == 2
            record = await rt.get_run(result.run_id)
            assert (record.agent_id, record.session_id, record.user_id) == ("a", "s", None)
            assert len((await rt.run("a", "again", thread_id=" t ")).text) == 5
            assert len(await rt.messages(" t ")) == 4

    asyncio.run(scenario())


def test_an_id_that_cannot_be_printed_is_refused_before_it_is_trimmed() -> None:
    async def scenario() -> None:
        async with runtime() as rt:
            for name in ("thread_id", "run_id_hint", "agent_id"):
                request = RunRequest(
                    **{"agent_id": "a", "messages": (user("hi"),), name: "x\u3000"}
                )
                with pytest.raises(InvalidInput, match="cannot be printed"):
                    await rt.view("ann").start(request)

    asyncio.run(scenario())


def test_blanks_around_an_agent_do_not_reach_one_that_was_discovered_elsewhere() -> None:
    async def scenario() -> None:
        async with runtime() as rt:

            def discover(registries: RegistrySet) -> RegistrySet:
                source = registries.agents["a"]
                spec = msgspec.structs.replace(source.spec, registry="elsewhere")
                return replace(
                    registries, agents={**registries.agents, "a": replace(source, spec=spec)}
                )

            rt.registry.update(discover)
            for name in ("a", " a", "a ", " a "):
                with pytest.raises(UnknownAgent):
                    await rt.view("ann").start(RunRequest(agent_id=name, messages=(user("hi"),)))

    asyncio.run(scenario())
