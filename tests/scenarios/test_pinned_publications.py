"""A run resumes on the publication it began with, in any process; new runs take the new one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    AgentRuntime,
    AgentSpec,
    MailboxConfig,
    Plugin,
    RunRequest,
    RunStatus,
    SuspendTicket,
    ToolContext,
    UnknownAgent,
    tool,
    user,
)
from awaken.contracts.config.errors import AgentUnusable, UnknownPublication
from awaken.contracts.storage.queries import RunQuery
from awaken.mailbox import failures
from awaken.runtime.resolution.canary import CanaryChoice
from awaken.runtime.resolution.layers import ManagedLayer
from awaken.runtime.resolution.registries import AgentSource
from awaken.testing import ScriptedModel, ToolCalls

QUICK = MailboxConfig(lease_ms=20_000, renew_ms=100, sweep_ms=100, poll_ms=20, drain_ms=500)
ASK = ToolCalls([("ask", {})])


@tool
async def ask(ctx: ToolContext) -> str | SuspendTicket:
    """Ask a person."""
    return ctx.suspend("may I?") if ctx.resume is None else "allowed"


@tool(effect="none")
async def look() -> str:
    """Look around."""
    return "nothing"


def agent(prompt: str, agent_id: str = "a", **fields: Any) -> AgentSource:
    spec = AgentSpec(id=agent_id, model_id="m", system_prompt=prompt, **fields)
    return AgentSource(spec=spec)


def layer(no: int, *agents: AgentSource, **fields: Any) -> ManagedLayer:
    return ManagedLayer(publication=no, agents={it.spec.id: it for it in agents}, **fields)


FIRST = layer(1, agent("One.", allowed_tools=("ask",)))
SECOND = layer(2, agent("Two.", allowed_tools=("ask", "look")))


class Publications:
    """What a store of configuration has."""

    def __init__(self, *layers: ManagedLayer) -> None:
        self._layers = {it.publication: it for it in layers}

    async def load_layer(self, no: int) -> ManagedLayer:
        if no not in self._layers:
            raise UnknownPublication(no=no)
        return self._layers[no]


class Process:
    """A runtime with managed configuration, and what its model was asked."""

    def __init__(self, store: Any, script: list[Any], **options: Any) -> None:
        self.model = ScriptedModel(script)
        agents, plugins = options.pop("agents", ()), options.pop("plugins", ())
        self.runtime = AgentRuntime(
            agents, tools=[ask, look], plugins=plugins, providers={"m": self.model}, store=store,
            mailbox=QUICK, **options,
        )  # fmt: skip
        self.registry = self.runtime.registry

    async def publish(self, published: ManagedLayer) -> None:
        await self.registry.install(await self.registry.prepare(published))

    def asked(self) -> list[tuple[str, list[str]]]:
        """The prompt and the tools of each request."""
        return [(it.system[0], [one.id for one in it.tools]) for it in self.model.requests]

    async def publications(self) -> list[int | None]:
        page = await self.runtime.store.list_runs(RunQuery(limit=100))
        return sorted((it.publication for it in page.items), key=lambda no: no or 0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


STORES: list[Callable[[Path], str | None]] = [sqlite, lambda _: None]
ON_ONE, ON_TWO = ("One.", ["ask"]), ("Two.", ["ask", "look"])


@pytest.mark.parametrize("store", STORES, ids=["sqlite", "memory"])
def test_a_run_that_waits_resumes_on_its_publication_and_new_runs_take_the_new_one(
    store: Callable[[Path], str | None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        process = Process(store(tmp_path), [ASK, "new", "old"])
        async with process.runtime as rt:
            await process.publish(FIRST)
            waiting = await rt.run("a", "go", thread_id="t")
            assert waiting.status is RunStatus.WAITING
            await process.publish(SECOND)
            assert (await rt.run("a", "go")).text == "new"
            await rt.decide(waiting.tickets[0].ticket_id)
            assert (await rt.wait(waiting.run_id, timeout_ms=20_000)).text == "old"
            assert process.asked() == [ON_ONE, ON_TWO, ON_ONE]
            assert await process.publications() == [1, 2]

    run(scenario)


@pytest.mark.parametrize("second", [SECOND, layer(2)], ids=["changed", "deleted"])
def test_a_process_that_starts_later_resumes_a_run_on_the_publication_it_began_with(
    second: ManagedLayer, tmp_path: Path
) -> None:
    async def scenario() -> None:
        before = Process(sqlite(tmp_path), [ASK])
        async with before.runtime as rt:
            await before.publish(FIRST)
            waiting = await rt.run("a", "go", thread_id="t")
        after = Process(sqlite(tmp_path), ["old"])
        after.registry.publications = Publications(FIRST, second)
        async with after.runtime as rt:
            await after.publish(second)
            await rt.decide(waiting.tickets[0].ticket_id)
            assert (await rt.wait(waiting.run_id, timeout_ms=20_000)).text == "old"
            assert after.asked() == [ON_ONE]
            assert await after.publications() == [1]
            if "a" not in second.agents:
                with pytest.raises(UnknownAgent):
                    await rt.run("a", "go")

    run(scenario)


def test_a_hidden_agent_is_not_listed_or_started_and_its_run_resumes() -> None:
    async def scenario() -> None:
        code = AgentSpec(id="coded", model_id="m")
        process = Process(None, [ASK, "done"], agents=[code])
        async with process.runtime as rt:
            await process.publish(layer(1))
            waiting = await rt.run("coded", "go", thread_id="t")
            caller = agent("Calls.", "caller", delegates=("coded",))
            await process.publish(layer(2, caller, hidden=frozenset({"coded"})))
            view = rt.view("ann")
            assert sorted(await view.agents()) == ["caller"]
            with pytest.raises(UnknownAgent):
                await view.agent("coded")
            for name in ("coded", "local/coded"):
                with pytest.raises(UnknownAgent, match="known agents: caller"):
                    await rt.run(name, "go")
            await rt.decide(waiting.tickets[0].ticket_id)
            assert (await rt.wait(waiting.run_id, timeout_ms=20_000)).text == "done"

    run(scenario)


def test_a_delegate_belongs_to_the_publication_of_its_caller() -> None:
    async def scenario() -> None:
        call = ToolCalls([("agent_run_helper", {"prompt": "help"})])
        process = Process(None, [ASK, call, "helped", "done"])

        def both(no: int, word: str) -> ManagedLayer:
            helper = agent(f"Helper {word}.", "helper", allowed_tools=())
            return layer(no, agent(f"{word}.", delegates=("helper",)), helper)

        async with process.runtime as rt:
            await process.publish(both(1, "One"))
            waiting = await rt.run("a", "go", thread_id="t")
            await process.publish(both(2, "Two"))
            # A canary chooses for runs that begin by themselves, not for children.
            process.registry.canary = CanaryChoice(publication=2, salt="", basis_points=10_000)
            await rt.decide(waiting.tickets[0].ticket_id)
            assert (await rt.wait(waiting.run_id, timeout_ms=20_000)).text == "done"
            prompts = [prompt for prompt, _ in process.asked()]
            assert prompts == ["One.", "One.", "Helper One.", "One."]
            assert await process.publications() == [1, 1]

    run(scenario)


def test_a_run_from_before_there_was_configuration_resumes_on_what_is_current() -> None:
    async def scenario() -> None:
        process = Process(None, [ASK, "done"], agents=[agent("Code.").spec])
        async with process.runtime as rt:
            waiting = await rt.run("a", "go", thread_id="t")
            await process.publish(SECOND)
            await rt.decide(waiting.tickets[0].ticket_id)
            assert (await rt.wait(waiting.run_id, timeout_ms=20_000)).text == "done"
            assert [prompt for prompt, _ in process.asked()] == ["Code.", "Two."]

    run(scenario)


def test_a_request_may_name_its_publication_and_a_canary_takes_the_others() -> None:
    async def scenario() -> None:
        process = Process(None, ["hi"] * 4)
        async with process.runtime as rt:
            await process.publish(FIRST)
            await process.registry.keep(await process.registry.prepare(SECOND))
            await rt.run("a", "live")
            await (await rt.start(_asking_for(2))).result()
            process.registry.canary = CanaryChoice(publication=2, salt="", basis_points=10_000)
            await rt.run("a", "canary")
            await (await rt.start(_asking_for(1))).result()
            assert process.asked() == [ON_ONE, ON_TWO, ON_TWO, ON_ONE]
            assert await process.publications() == [1, 1, 2, 2]

    run(scenario)


def _asking_for(publication: int) -> RunRequest:
    return RunRequest(agent_id="a", messages=(user("go"),), publication=publication)


class Needed(Plugin):
    name = "needed"


class LeftToOthers(logging.Handler):
    """Notices that a worker gave a dispatch back."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.noticed = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "left to others" in record.msg and "'needed'" in record.getMessage():
            self.noticed.set()


def test_a_dispatch_whose_agent_is_unusable_here_is_left_to_a_worker_that_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # By its method: a logger remembers what is enabled, from tests before, until a level is set.
    caplog.set_level(logging.INFO, failures.logger.name)

    async def scenario() -> None:
        left = LeftToOthers()
        monkeypatch.setattr(failures.logger, "handlers", [left])
        needs = layer(1, agent("One.", plugin_ids=("needed",)))
        without = Process(sqlite(tmp_path), [])
        capable = Process(sqlite(tmp_path), ["done"], plugins=[Needed()])
        async with without.runtime as rt:
            await without.publish(needs)
            with pytest.raises(AgentUnusable, match="needed"):
                await rt.run("a", "go")
            receipt = await rt.submit("a", "go")
            # It is claimed, and given back, when the worker looks at all agents.
            await left.noticed.wait()
            async with capable.runtime as other:
                await capable.publish(needs)
                assert (await other.wait(receipt.run_id, timeout_ms=20_000)).text == "done"
            assert (len(without.model.requests), len(capable.model.requests)) == (0, 1)

    run(scenario)
