"""A message of a user never takes the id of an answer, however and whenever it is sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, InvalidInput, Message, RunRequest, StepStart, tool, user
from awaken.messages import Role
from awaken.runtime.journal.known_messages import AlreadySaid
from awaken.testing import ScriptedModel, ToolCalls

both_stores = pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "sqlite"])


def store_in(folder: Path, is_durable: bool) -> str | None:
    return f"sqlite:///{folder}/s.db" if is_durable else None


def named(id_: str, text: str = "again") -> Message:
    return Message(role=Role.USER, id=id_, content=user(text).content)


async def ids_of(runtime: AgentRuntime) -> list[str]:
    return [it.message_id for it in await runtime.messages("t")]


@both_stores
def test_the_ids_of_answers_and_results_are_refused(is_durable: bool, tmp_path: Path) -> None:
    @tool(effect="none")
    def look() -> str:
        """Look."""
        return "seen"

    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("look", {})]), "Done."], cycle=True)
        agent = Agent("a", model=model, tools=[look])
        async with AgentRuntime([agent], store=store_in(tmp_path, is_durable)) as runtime:
            await runtime.run("a", "hi", thread_id="t")
            before = await ids_of(runtime)
            for id_ in before[1:]:
                with pytest.raises(InvalidInput, match="message id"):
                    await runtime.run("a", [named(id_)], thread_id="t")
                with pytest.raises(InvalidInput, match="an answer of the thread has it"):
                    await runtime.submit("a", [named(id_)], thread_id="t")
            assert await ids_of(runtime) == before
            # On another thread it is nobody's.
            assert (await runtime.run("a", [named(before[-1])], thread_id="u")).text == "Done."

    asyncio.run(scenario())


@both_stores
def test_the_id_that_a_run_made_for_a_question_is_not_used_for_another_one(
    is_durable: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["Hi."], cycle=True))
        async with AgentRuntime([agent], store=store_in(tmp_path, is_durable)) as runtime:
            await runtime.run("a", "hi", thread_id="t")
            before = await ids_of(runtime)
            with pytest.raises(InvalidInput, match="a message with other content"):
                await runtime.run("a", [named(before[0])], thread_id="t")
            with pytest.raises(AlreadySaid):
                await runtime.run("a", [named(before[0], "hi")], thread_id="t")
            queued = await runtime.submit("a", [named(before[0])], thread_id="t")
            ended = await runtime.wait(queued.run_id, timeout_ms=10_000)
            assert ended.text == ""
            assert await ids_of(runtime) == before

    asyncio.run(scenario())


@both_stores
def test_the_id_of_an_answer_that_is_being_given_is_refused(
    is_durable: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        entered, let_go = asyncio.Event(), asyncio.Event()

        async def wait(_: Any) -> str:
            entered.set()
            await let_go.wait()
            return "Done."

        agent = Agent("a", model=ScriptedModel([wait, "More."]))
        async with AgentRuntime([agent], store=store_in(tmp_path, is_durable)) as runtime:
            seen: list[Any] = []

            async def listen() -> None:
                async for event in runtime.stream("a", "hi", thread_id="t"):
                    seen.append(event)

            listening = asyncio.create_task(listen())
            await entered.wait()
            (step,) = [it for it in seen if isinstance(it, StepStart)]
            request = RunRequest(thread_id="t", agent_id="a", messages=(named(step.message_id),))
            with pytest.raises(InvalidInput, match="an answer of the thread has it"):
                await runtime._services.control.submit(request, "steer", {})
            let_go.set()
            await listening
            ids = await ids_of(runtime)
            assert len(set(ids)) == len(ids) == 2

    asyncio.run(scenario())


def test_what_has_the_form_of_such_an_id_and_is_none_is_taken() -> None:
    async def scenario() -> None:
        chosen = "01890a5d-ac96-774b-bcce-b302099a8057"
        agent = Agent("a", model=ScriptedModel(["Hi."], cycle=True))
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "hi", thread_id="t")
            await runtime.run("a", [named(chosen)], thread_id="t")
            assert chosen in await ids_of(runtime)

    asyncio.run(scenario())
