"""Snapshots of publications: which one a run gets, how long it is kept, what is read again."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import AgentSpec, Plugin, PluginRegistrar, RunRequest, tool
from awaken.bootstrap.plugins import PluginLifecycle
from awaken.bootstrap.registries import registry_set
from awaken.contracts.config.errors import AgentUnusable, UnknownPublication
from awaken.contracts.config.heads import CanaryKey
from awaken.contracts.errors import PluginFailed, UnknownAgent
from awaken.contracts.plugins.plugin import PluginHost
from awaken.runtime.resolution.canary import CanaryChoice
from awaken.runtime.resolution.layers import ManagedLayer
from awaken.runtime.resolution.registries import AgentSource
from awaken.runtime.resolution.registry import KEPT_MAX, RegistryHandle
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.testing import ScriptedModel


@tool(effect="none")
async def late() -> str:
    """Come late."""
    return ""


class Growing(Plugin):
    name = "growing"

    def __init__(self) -> None:
        self.tools: list[Any] = []
        self.life: list[str] = []

    def register(self, registrar: PluginRegistrar) -> None:
        for it in self.tools:
            registrar.tool(it)

    async def open(self, host: PluginHost) -> None:
        self.life.append("open")

    async def close(self) -> None:
        self.life.append("close")


def spec(agent_id: str = "a", prompt: str = "", **fields: Any) -> AgentSpec:
    return AgentSpec(id=agent_id, model_id="scripted", system_prompt=prompt, **fields)


def numbered(no: int, **fields: Any) -> ManagedLayer:
    managed = AgentSource(spec=spec("m", f"Prompt {no}.", **fields))
    return ManagedLayer(publication=no, agents={"m": managed})


def handle_of(*agents: AgentSpec, plugins: tuple[Plugin, ...] = ()) -> RegistryHandle:
    models = {"scripted": ScriptedModel(["hi"])}
    return RegistryHandle(registry_set(agents or [spec()], [], plugins, models, {}))


async def publish(handle: RegistryHandle, layer: ManagedLayer) -> None:
    await handle.install(await handle.prepare(layer))


class Publications:
    """Numbered layers, and which of them were read."""

    def __init__(self, *layers: ManagedLayer) -> None:
        self._layers = {it.publication: it for it in layers}
        self.read: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def load_layer(self, no: int) -> ManagedLayer:
        self.read.append(no)
        await self.gate.wait()
        if no not in self._layers:
            raise UnknownPublication(no=no)
        return self._layers[no]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


def prompt_of(snapshot: RegistrySnapshot) -> str:
    return snapshot.resolve("m").spec.system_prompt


def test_a_pinned_publication_is_the_one_of_that_number_whatever_is_current() -> None:
    async def scenario() -> None:
        handle = handle_of()
        for no in (1, 2, 3):
            await publish(handle, numbered(no))
        for no in (1, 2, 3):
            pinned = await handle.pin("m", no)
            assert (pinned.publication, prompt_of(pinned)) == (no, f"Prompt {no}.")
            assert (await handle.resolve("m", no)).spec.system_prompt == f"Prompt {no}."
        assert await handle.pin("m") is await handle.pin("m", 3) is handle.snapshot()
        with pytest.raises(UnknownPublication):
            await handle.pin("m", 4)

    run(scenario)


def test_the_last_eight_are_kept_and_older_ones_while_a_run_holds_them() -> None:
    async def scenario() -> None:
        handle = handle_of()
        handle.publications = source = Publications(*map(numbered, range(1, 12)))
        await publish(handle, numbered(1))
        held = await handle.pin("m", 1)
        for no in range(2, 12):
            await publish(handle, numbered(no))
        gc.collect()
        assert {it.publication for it in handle.snapshots()} == {1, *range(4, 12)}
        assert len(range(4, 12)) == KEPT_MAX
        assert await handle.pin("m", 1) is held
        assert source.read == []
        assert prompt_of(await handle.pin("m", 3)) == "Prompt 3."
        assert source.read == [3]

    run(scenario)


def test_many_runs_that_need_one_publication_read_it_once_and_one_may_be_cancelled() -> None:
    async def scenario() -> None:
        handle = handle_of()
        await publish(handle, numbered(2))
        handle.publications = source = Publications(numbered(1))
        source.gate.clear()
        pins = [asyncio.create_task(handle.pin("m", 1)) for _ in range(10)]
        await asyncio.sleep(0)
        pins[0].cancel()
        await asyncio.sleep(0)
        source.gate.set()
        first, *found = await asyncio.gather(*pins, return_exceptions=True)
        assert isinstance(first, asyncio.CancelledError)
        assert {id(it) for it in found} == {id(await handle.pin("m", 1))}
        assert source.read == [1]
        for _ in range(2):
            with pytest.raises(UnknownPublication):
                await handle.pin("m", 7)
        assert source.read == [1, 7, 7]

    run(scenario)


def test_code_and_plugins_are_not_pinned_but_the_snapshot_of_a_run_never_changes() -> None:
    async def scenario() -> None:
        plugin = Growing()
        handle = handle_of(plugins=(plugin,))
        await publish(handle, numbered(1, plugin_ids=("growing",)))
        await publish(handle, numbered(2, plugin_ids=("growing",)))
        held = await handle.pin("m", 1)
        agent = held.resolve("m")
        plugin.tools.append(late)
        await handle.renew(plugin)
        handle.update(lambda it: it.with_agent(AgentSource(spec=spec("new"))))
        pinned = await handle.pin("m", 1)
        assert (prompt_of(pinned), {*pinned.resolve("m").tools}) == ("Prompt 1.", {"late"})
        assert pinned.resolve("new").spec.id == "new"
        assert held.resolve("m") is agent
        assert not agent.tools
        with pytest.raises(UnknownAgent):
            held.resolve("new")

    run(scenario)


def test_an_agent_that_does_not_resolve_in_an_old_publication_is_unusable_there_only() -> None:
    async def scenario() -> None:
        handle = handle_of()
        handle.publications = Publications(numbered(1, plugin_ids=("gone",)))
        await publish(handle, numbered(2))
        with pytest.raises(AgentUnusable, match="gone"):
            await handle.resolve("m", 1)
        assert (await handle.resolve("a", 1)).spec.id == "a"
        assert (await handle.resolve("m")).spec.system_prompt == "Prompt 2."

    run(scenario)


def test_a_candidate_gets_its_number_when_it_is_installed_or_kept() -> None:
    async def scenario() -> None:
        handle = handle_of()
        candidate = await handle.prepare(
            ManagedLayer(agents={"m": AgentSource(spec=spec("m", "New."))})
        )
        assert candidate.publication is None
        await handle.keep(candidate, 7)
        assert handle.snapshot().publication is None
        kept = await handle.pin("m", 7)
        await handle.install(candidate, 8)
        assert (kept.publication, handle.snapshot().publication) == (7, 8)
        assert kept.resolve("m") is handle.snapshot().resolve("m")

    run(scenario)


def test_a_worker_serves_the_usable_agents_of_all_kept_publications() -> None:
    async def scenario() -> None:
        handle = handle_of()
        old = ManagedLayer(publication=1, agents={"old": AgentSource(spec=spec("old"))})
        await publish(handle, old)
        assert handle.served_agents() == ("a", "old")
        await publish(handle, numbered(2, plugin_ids=("nowhere",)))
        assert handle.served_agents() == ("a", "old")

    run(scenario)


# ---- canary ----


def _choices(canary: CanaryChoice, count: int = 10_000) -> list[bool]:
    request = RunRequest()
    return [canary.choose(request, f"thread-{number}") == 2 for number in range(count)]


@pytest.mark.parametrize("basis_points", [100, 1_000, 5_000, 9_990])
def test_the_share_of_threads_on_a_canary_is_the_one_asked_for(basis_points: int) -> None:
    for salt in ("one", "two", "three"):
        canary = CanaryChoice(publication=2, salt=salt, basis_points=basis_points)
        chosen = _choices(canary)
        assert chosen == _choices(canary)
        share, count = basis_points / 10_000, len(chosen)
        expected = {True: count * share, False: count * (1 - share)}
        seen = Counter(chosen)
        chi_squared = sum((seen[side] - n) ** 2 / n for side, n in expected.items())
        # One degree of freedom: exceeded by chance once in 100,000.
        assert chi_squared < 19.5


def test_another_salt_chooses_other_threads_and_all_or_none_is_possible() -> None:
    first, second = (
        _choices(CanaryChoice(publication=2, salt=salt, basis_points=5_000)) for salt in "ab"
    )
    both = sum(map(lambda one, two: one and two, first, second))
    assert 2_200 < both < 2_800
    assert not any(_choices(CanaryChoice(publication=2, salt="", basis_points=0)))
    assert all(_choices(CanaryChoice(publication=2, salt="", basis_points=10_000)))


def test_a_user_or_a_tenant_stays_on_one_side_and_without_one_the_thread_decides() -> None:
    for by, name in ((CanaryKey.USER, "user_id"), (CanaryKey.TENANT, "tenant_id")):
        canary = CanaryChoice(publication=2, salt="s", basis_points=5_000, by=by)
        by_thread = CanaryChoice(publication=2, salt="s", basis_points=5_000)
        for number in range(50):
            request = RunRequest(**{name: f"n{number}"})
            sides = {canary.choose(request, f"thread-{thread}") for thread in range(20)}
            assert len(sides) == 1
        assert _choices(canary) == _choices(by_thread)


# ---- plugins that come and go ----


def test_plugins_are_opened_when_they_are_needed_and_closed_when_no_snapshot_uses_them() -> None:
    async def scenario() -> None:
        plugin, handle = Growing(), handle_of()
        lives = PluginLifecycle(handle)
        await lives.open()
        await lives.ensure([plugin, plugin])
        await lives.ensure([plugin])
        assert plugin.life == ["open"]
        managed = ManagedLayer(publication=1, plugins={"growing": plugin})
        await publish(handle, managed)
        await publish(handle, ManagedLayer(publication=2))
        held = await handle.pin("a", 1)
        for no in range(3, 3 + KEPT_MAX):
            await publish(handle, ManagedLayer(publication=no))
        await lives.release([plugin])
        assert plugin.life == ["open"], "a run on publication 1 still uses it"
        del held
        gc.collect()
        await lives.release([plugin])
        assert plugin.life == ["open", "close"]
        await lives.release([plugin])
        await lives.ensure([plugin])
        await lives.close()
        assert plugin.life == ["open", "close"] * 2

    run(scenario)


def test_a_plugin_that_cannot_be_opened_is_closed_and_named() -> None:
    class Failing(Growing):
        async def open(self, host: PluginHost) -> None:
            await super().open(host)
            message = "no network"
            raise OSError(message)

    async def scenario() -> None:
        good, failing, lives = Growing(), Failing(), PluginLifecycle(handle_of())
        with pytest.raises(PluginFailed, match="no network"):
            await lives.ensure([good, failing])
        assert (good.life, failing.life) == (["open"], ["open", "close"])
        await lives.release([good, failing])
        assert (good.life, failing.life) == (["open", "close"], ["open", "close"])

    run(scenario)


def test_a_plugin_that_takes_too_long_to_open_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Growing):
        async def open(self, host: PluginHost) -> None:
            await asyncio.Event().wait()

    async def scenario() -> None:
        monkeypatch.setattr("awaken.bootstrap.plugins.OPEN_S", 0.01)
        plugin = Hanging()
        with pytest.raises(PluginFailed, match="TimeoutError"):
            await PluginLifecycle(handle_of()).ensure([plugin])
        assert plugin.life == ["close"]

    run(scenario)
