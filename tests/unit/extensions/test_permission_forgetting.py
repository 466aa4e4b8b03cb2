"""Answers for always are seen and taken back: for the next call, for good, and nobody else's."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.errors import InvalidInput, UnknownAnswer, UnknownThread
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.state.profile import GLOBAL_SCOPE, ProfileAccess, thread_scope
from awaken.contracts.suspension.remembered_answers import FORGOTTEN, SHARED_ANSWERS
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission.answer_memory import share_answer
from awaken.services.remembered_answers import RememberedAnswers
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, ScriptedModel, ToolCalls

SCOPES = ["run", "thread", "user", "project"]
WHOSE = {"thread_id": "t", "user_id": "ann"}
Deed = Callable[[], Awaitable[Any]]


class Shop:
    """An agent that does what it is told, line by line; something may happen during a call."""

    def __init__(self, *, rule: str = "bash(ls *)") -> None:
        self.ran: list[str] = []
        self.meanwhile: dict[str, Deed] = {}
        self.model = ScriptedModel([_obey], cycle=True)
        asking = {"tool": rule, "behavior": "ask", "scope": "project"}
        self.agent = Agent(
            "worker",
            model=self.model,
            tools=[self._tool("bash"), self._tool("note")],
            plugins=[PermissionPlugin()],
            config={"permission": {"rules": [asking], "default_behavior": "allow"}},
        )

    def _tool(self, name: str) -> Any:
        @tool(id=name, description=name, effect="none")
        async def run(command: str) -> str:
            self.ran.append(command)
            if command in self.meanwhile:
                await self.meanwhile[command]()
            return "ran"

        return run

    @property
    def offered(self) -> list[bool]:
        return ["bash" in [it.id for it in request.tools] for request in self.model.requests]


def _obey(request: InferenceRequest) -> Any:
    said = [it for it in request.messages if it.role in (Role.USER, Role.ASSISTANT)]
    asked = max(at for at, it in enumerate(said) if it.role is Role.USER)
    lines = said[asked].text.splitlines()
    step = len(said) - asked - 1
    if step >= len(lines):
        return "done"
    name = "note" if lines[step].startswith("note") else "bash"
    return ToolCalls([(name, {"command": lines[step]})])


async def told(runtime: AgentRuntime, text: str, thread_id: str = "t", **options: Any) -> Any:
    return await runtime.run("worker", text, thread_id=thread_id, **{"user_id": "ann", **options})


async def always(runtime: AgentRuntime, run: Any, scope: str, action: str = "resume") -> Any:
    (ticket,) = run.tickets
    await runtime.decide(ticket.ticket_id, action, remember=scope, decided_by="eve")
    return await runtime.wait(run.run_id, timeout_ms=10_000)


@pytest.mark.parametrize("is_one", [True, False], ids=["one", "all"])
@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_taken_back_while_a_run_executes_decides_none_of_its_later_calls(
    scope: str, is_one: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        shop = Shop()
        store = f"sqlite:///{tmp_path}/a.db"
        async with AgentRuntime([shop.agent], store=store) as runtime:

            async def forget() -> None:
                # From another process: the run that executes is told nothing.
                other = SqliteStore(tmp_path / "a.db")
                await other.open()
                answers = RememberedAnswers(other, other, FakeClock())
                (answer,) = await answers.list(**WHOSE)
                assert (answer.scope, answer.tool, answer.pattern) == (scope, "bash", "bash(ls *)")
                assert (answer.behavior, answer.decided_by) == ("allow", "eve")
                if is_one:
                    assert await answers.forget(answer.id, **WHOSE) == answer
                else:
                    assert await answers.forget_all(scope, **WHOSE) == (answer,)
                assert await answers.list(**WHOSE) == ()
                await other.close()

            shop.meanwhile["ls c"] = forget
            asked = await told(runtime, "ls a\nls b\nls c\nls d")
            again = await always(runtime, asked, scope)
            assert again.is_waiting
            assert again.tickets[0].arguments == {"command": "ls d"}
            assert shop.ran == ["ls a", "ls b", "ls c"]
        async with AgentRuntime([shop.agent], store=store) as runtime:
            # Another process, and another run.
            assert await runtime.remembered.list(**WHOSE) == ()
            await runtime.cancel(again.run_id)
            assert (await told(runtime, "ls e")).is_waiting

    asyncio.run(scenario())


def test_what_is_decided_again_holds_again_and_the_rest_was_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        shop = Shop()
        store = f"sqlite:///{tmp_path}/a.db"
        # The clock stands still: nothing tells the two decisions apart but the calls.
        profiles = MemoryProfileStore()
        options: Any = {"clock": FakeClock(), "profile": profiles}
        async with AgentRuntime([shop.agent], store=store, **options) as runtime:
            for scope in ("thread", "thread", "project"):
                await always(runtime, await told(runtime, "ls a"), scope)
                (answer,) = await runtime.remembered.list(thread_id="t")
                await runtime.remembered.forget(answer.id, thread_id="t")
            await always(runtime, await told(runtime, "ls a"), "thread")
            assert not (await told(runtime, "ls a")).is_waiting
            (kept,) = await runtime.remembered.list(thread_id="t")
            with pytest.raises(UnknownAnswer):
                await runtime.remembered.forget(answer.id, thread_id="t")
            assert await runtime.remembered.list(thread_id="t") == (kept,)
            await runtime.remembered.forget_all("thread", thread_id="t")
            entry = await profiles.find_entry(thread_scope("t"), FORGOTTEN.name)
            assert entry is not None
            assert [*entry.value] == [kept.id], "what the thread has no more needs no note"

    asyncio.run(scenario())


def test_a_denial_that_is_taken_back_shows_the_tool_again_in_the_same_run() -> None:
    async def scenario() -> None:
        shop = Shop(rule="bash")
        async with AgentRuntime([shop.agent]) as runtime:
            await always(runtime, await told(runtime, "ls a"), "project", "cancel")
            shop.meanwhile["note"] = lambda: runtime.remembered.forget_all("project")
            assert (await told(runtime, "note\nls b", "another")).is_waiting
            assert shop.offered == [True, False, False, True]
            assert shop.ran == ["note"]

    asyncio.run(scenario())


def test_answers_of_other_threads_people_and_tenants_are_not_touched() -> None:
    async def scenario() -> None:
        profiles = MemoryProfileStore()
        async with AgentRuntime([Shop().agent], profile=profiles) as runtime:
            for tenant_id in ("ours", "theirs"):
                for scope in ("thread", "user", "project"):
                    options = {"tenant_id": tenant_id, "user_id": "bob"}
                    if scope == "user":
                        options["user_id"] = "ann"
                    run = await told(runtime, "ls a", f"{tenant_id}-{scope}", **options)
                    await always(runtime, run, scope)
            ours = RememberedAnswers(runtime.store, profiles, FakeClock(), "ours")
            for scope in ("user", "project"):
                gone = await ours.forget_all(scope, user_id="ann", tenant_id="theirs")
                assert len(gone) == 1
            with pytest.raises(UnknownThread):
                await ours.forget_all("thread", thread_id="theirs-thread")
            with pytest.raises(UnknownThread):
                await ours.list(thread_id="theirs-thread")
            left = await runtime.remembered.list(
                thread_id="theirs-thread", user_id="ann", tenant_id="theirs"
            )
            assert {str(it.scope) for it in left} == {"thread", "user", "project"}
            assert [it.scope for it in await ours.list(thread_id="ours-thread")] == ["thread"]

    asyncio.run(scenario())


@pytest.mark.parametrize("scope", ["once", "ever", "thread", "run", "user"])
def test_a_scope_that_keeps_nothing_or_whose_owner_is_not_named_is_refused(scope: str) -> None:
    async def scenario() -> None:
        async with AgentRuntime([Shop().agent]) as runtime:
            with pytest.raises(InvalidInput, match="scope"):
                await runtime.remembered.forget_all(scope)

    asyncio.run(scenario())


def test_a_step_that_is_repeated_after_a_crash_brings_no_forgotten_answer_back() -> None:
    async def scenario() -> None:
        shop = Shop()
        profiles, clock = MemoryProfileStore(), FakeClock()
        async with AgentRuntime([shop.agent], profile=profiles) as runtime:
            await always(runtime, await told(runtime, "ls a"), "project")
            (answer,) = await runtime.remembered.forget_all("project")
        keys: Any = {it.name: it for it in (SHARED_ANSWERS, FORGOTTEN)}
        run = SimpleNamespace(tenant_id=None, user_id="ann")
        own = SimpleNamespace(read_again=lambda: None)
        access = ProfileAccess(profiles, keys, clock)
        context: Any = SimpleNamespace(run=run, own=own, profile=access)
        await share_answer(context, answer)
        entry = await profiles.find_entry(GLOBAL_SCOPE, SHARED_ANSWERS.name)
        assert entry is not None
        assert entry.value == {}

    asyncio.run(scenario())
