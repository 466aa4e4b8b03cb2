"""Agents of remote registries: found, kept, looked up by name, and never in anybody's way."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from awaken.bootstrap.registries import registry_set
from awaken.contracts.backends.backend import ExecutionBackend
from awaken.contracts.backends.errors import InvalidBackendConfig, RemoteRefused, RemoteUnreachable
from awaken.contracts.errors import DuplicateRegistration, InvalidSpec, UnknownAgent
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
from awaken.contracts.specs.remote_registries import AgentNotDiscovered, RemoteRegistry
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.discovery import Discovery, with_remotes
from awaken.testing.fakes import LoopClock
from awaken.testing.simulation import Fifo, SimulatedLoop, run

START_MS = 1_700_000_000_000


def card(name: str = "Reviewer", origin: str = "https://p.example") -> bytes:
    interface = {"url": f"{origin}/a2a", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    return json.dumps({"name": name, "supportedInterfaces": [interface]}).encode()


class Cards:
    """Answers with what a test says; the last answer for a registry is repeated."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int]] = []

    async def fetch_card(self, registry: RemoteRegistry) -> bytes:
        answers = self.answers[registry.name]
        self.asked.append((registry.name, LoopClock().monotonic_ms()))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer = await answer()
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    def times(self, name: str = "partner") -> list[int]:
        return [at for who, at in self.asked if who == name]


class Idle(ExecutionBackend):
    """Executes nothing."""


class Factory:
    """Makes one backend for all endpoints, and refuses what a test says."""

    def __init__(self, refused: str = "-") -> None:
        self.refused = refused
        self.backend = Idle()
        self.built: list[RemoteEndpoint] = []

    def validate(self, endpoint: RemoteEndpoint) -> None:
        if self.refused in endpoint.base_url:
            raise InvalidBackendConfig(backend="a2a", problem="it is refused")

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        self.built.append(endpoint)
        return self.backend

    async def close(self) -> None: ...


def remote(name: str = "partner", **fields: Any) -> RemoteRegistry:
    return RemoteRegistry(name=name, **{"base_url": "https://p.example/x", **fields})


def local(agent_id: str, *delegates: str) -> AgentSpec:
    return AgentSpec(id=agent_id, model_id="scripted", delegates=delegates)


def registries(*agents: AgentSpec, factory: Any = None, **named: Any) -> RegistrySet:
    backends = {"a2a": factory or Factory()}
    made = registry_set(agents, [], [], {}, {})
    return type(made)(**{**_fields(made), "backends": {**made.backends, **backends}, **named})


def _fields(made: RegistrySet) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}


def world(
    cards: Cards, *remotes: RemoteRegistry, base: RegistrySet | None = None, chance: float = 0.5
) -> tuple[RegistryHandle, Discovery]:
    remotes = remotes or (remote(),)
    handle = RegistryHandle(with_remotes(base or registries(local("mine")), remotes))
    return handle, Discovery(handle, remotes, cards, LoopClock(START_MS), lambda: chance)


def simulated(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(SimulatedLoop(Fifo()), scenario)


def origin_of(handle: RegistryHandle, agent_id: str) -> str:
    spec = handle.snapshot().resolve(agent_id).spec
    return "local" if spec.endpoint is None else spec.endpoint.base_url


def test_plain_ids_are_local_first_and_namespaced_ids_are_of_one_registry() -> None:
    async def scenario() -> None:
        cards = Cards(
            cloud=[card("Reviewer", "https://c.example")],
            partner=[card("reviewer")],
            third=[card("Mine", "https://t.example")],
        )
        cloud = remote("cloud", base_url="https://c.example")
        third = remote("third", base_url="https://t.example")
        handle, discovery = world(cards, cloud, remote(), third)
        await discovery.refresh()
        snapshot = handle.snapshot()
        assert origin_of(handle, "mine") == "local"
        assert origin_of(handle, "local/mine") == "local"
        assert origin_of(handle, "third/mine") == "https://t.example/a2a"
        # Both are kept; the plain id is that of the registry that was configured first.
        assert origin_of(handle, "cloud/reviewer") == "https://c.example/a2a"
        assert origin_of(handle, "partner/reviewer") == "https://p.example/a2a"
        assert origin_of(handle, "reviewer") == "https://c.example/a2a"
        assert snapshot.resolve("reviewer") is snapshot.resolve("cloud/reviewer")
        assert snapshot.resolve("reviewer").spec.id == "cloud/reviewer"
        assert snapshot.resolve("local/mine").spec.id == "mine"
        assert snapshot.registries.agent_ids() == (
            "cloud/reviewer",
            "local/mine",
            "partner/reviewer",
            "third/mine",
        )
        for wrong in ("local/reviewer", "local/partner/reviewer", "nobody/mine", "local/", "/mine"):
            with pytest.raises(UnknownAgent, match="known agents: cloud/reviewer, mine"):
                snapshot.resolve(wrong)

    simulated(scenario)


def test_the_local_registry_may_have_another_name() -> None:
    async def scenario() -> None:
        remotes = (remote("local"),)
        named = with_remotes(registries(local("mine")), remotes, local_name="home")
        handle = RegistryHandle(named)
        await Discovery(handle, remotes, Cards(local=[card()]), LoopClock()).refresh()
        assert handle.snapshot().registries.agent_ids() == ("home/mine", "local/reviewer")
        assert origin_of(handle, "home/mine") == "local"
        assert origin_of(handle, "local/reviewer") == "https://p.example/a2a"
        with pytest.raises(AgentNotDiscovered):
            handle.snapshot().resolve("local/mine")

    simulated(scenario)


def test_names_of_registries_cannot_be_confused() -> None:
    base = registries(local("mine"))
    with pytest.raises(DuplicateRegistration, match="'partner'"):
        with_remotes(base, [remote(), remote()])
    with pytest.raises(DuplicateRegistration, match="'local'"):
        with_remotes(base, [remote("local")])
    with pytest.raises(InvalidSpec, match="'A/B'"):
        with_remotes(base, [], local_name="A/B")
    for taken in ("partner/x", "local/x"):
        with pytest.raises(InvalidSpec, match=f"'{taken}'.*choose another id"):
            with_remotes(registries(local(taken)), [remote()])
    assert with_remotes(registries(local("other/x")), [remote()]).name_of("other/x") == "other/x"


def test_an_agent_may_be_named_before_it_is_found() -> None:
    async def scenario() -> None:
        answers = [RemoteUnreachable(problem="refused"), card()]
        base = registries(local("mine", "partner/reviewer"))
        handle, discovery = world(Cards(partner=answers), base=base)
        await discovery.refresh()
        with pytest.raises(AgentNotDiscovered) as missing:
            handle.snapshot().resolve("partner/reviewer")
        assert missing.value.retryable
        assert "remote registry 'partner' (https://p.example)" in str(missing.value)
        pinned = handle.snapshot()
        await discovery.refresh()
        assert origin_of(handle, "partner/reviewer") == "https://p.example/a2a"
        with pytest.raises(UnknownAgent):
            pinned.resolve("partner/reviewer")

    simulated(scenario)
    for unknown in ("stranger/reviewer", "reviewer"):
        with pytest.raises(InvalidSpec, match=unknown):
            RegistryHandle(with_remotes(registries(local("mine", unknown)), [remote()]))


def test_cards_are_read_on_entering_and_again_with_jitter() -> None:
    async def scenario() -> None:
        cards = Cards(partner=[card()])
        handle, discovery = world(cards, remote(refresh_ms=60_000), chance=1.0)
        await discovery.open()
        await discovery.open()
        assert cards.times() == [0]
        assert origin_of(handle, "partner/reviewer") == "https://p.example/a2a"
        await asyncio.sleep(140)
        assert cards.times() == [0, 66_000, 132_000]
        await discovery.close()
        await discovery.close()
        await asyncio.sleep(600)
        assert len(cards.asked) == 3
        assert handle.version == 2  # What has not changed is no new version.

    simulated(scenario)


def test_the_usual_pause_is_five_minutes_give_or_take_a_tenth() -> None:
    async def scenario() -> None:
        for chance, expected in ((0.0, 270_000), (0.5, 300_000)):
            cards, start = Cards(partner=[card()]), LoopClock().monotonic_ms()
            _, discovery = world(cards, chance=chance)
            await discovery.open()
            await asyncio.sleep(301)
            await discovery.close()
            assert [at - start for at in cards.times()] == [0, expected]

    simulated(scenario)


def test_a_new_card_replaces_the_registrys_agent_and_no_other() -> None:
    async def scenario() -> None:
        cards = Cards(partner=[card("One"), card("Two")], cloud=[card("One", "https://c.example")])
        cloud = remote("cloud", base_url="https://c.example")
        handle, discovery = world(cards, remote(), cloud)
        await discovery.refresh()
        await discovery.refresh()
        assert handle.snapshot().registries.agent_ids() == (
            "cloud/one",
            "local/mine",
            "partner/two",
        )
        assert origin_of(handle, "one") == "https://c.example/a2a"

    simulated(scenario)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (RemoteUnreachable(problem="connection refused"), "connection refused; check base_url"),
        (RemoteRefused(problem="status 401"), "status 401; check auth"),
        (b"<html>", "its card is malformed"),
        (card("New", "https://evil.example"), "https://evil.example; list the origin"),
        (card("New", "https://bad.example"), "cannot be registered: Agent 'partner/new'"),
        (KeyError("secret"), "KeyError was raised"),
    ],
)
def test_the_last_good_agent_stays_whatever_goes_wrong(
    bad: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        cards = Cards(partner=[card(), bad, bad, bad, card()])
        base = registries(local("mine"), factory=Factory(refused="bad.example"))
        handle, discovery = world(cards, remote(origins=("https://bad.example",)), base=base)
        (good,) = await discovery.refresh()
        assert (good.agent_id, good.problem, good.failures) == ("partner/reviewer", None, 0)
        for _ in range(3):
            await asyncio.sleep(1)
            await discovery.refresh()
        (now,) = discovery.status()
        assert (now.agent_id, now.failures) == ("partner/reviewer", 3)
        assert (now.fresh_at_ms, now.checked_at_ms) == (START_MS, START_MS + 3_000)
        assert now.problem is not None
        assert text in now.problem
        assert "secret" not in now.problem
        assert origin_of(handle, "partner/reviewer") == "https://p.example/a2a"
        assert handle.version == 2
        (again,) = await discovery.refresh()
        assert (again.problem, again.failures) == (None, 0)

    with caplog.at_level(logging.INFO, "awaken.services.discovery"):
        simulated(scenario)
    levels = [it.levelname for it in caplog.records]
    assert levels == ["INFO", "WARNING", "INFO"]
    assert text in caplog.text


def test_trouble_is_logged_again_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        one, two = RemoteUnreachable(problem="one"), RemoteUnreachable(problem="two")
        _, discovery = world(Cards(partner=[one, one, two, two, one]))
        for _ in range(5):
            await discovery.refresh()

    simulated(scenario)
    assert [it.getMessage().partition("error: ")[2][:3] for it in caplog.records] == [
        "one",
        "two",
        "one",
    ]


def test_after_a_failure_it_is_tried_again_sooner_and_then_less_often() -> None:
    async def scenario() -> None:
        down = RemoteUnreachable(problem="down")
        cards = Cards(partner=[down])
        _, discovery = world(cards, remote(refresh_ms=30_000))
        await discovery.open()
        await asyncio.sleep(100)
        await discovery.close()
        assert cards.times() == [0, 5_000, 15_000, 35_000, 65_000, 95_000]

    simulated(scenario)


def test_a_registry_that_hangs_delays_the_others_by_nothing_and_the_start_by_its_limit() -> None:
    async def scenario() -> None:
        async def never() -> bytes:
            await asyncio.Event().wait()
            return b""

        cards = Cards(partner=[never], cloud=[card("Fast", "https://c.example")])
        cloud = remote("cloud", base_url="https://c.example")
        handle, discovery = world(cards, remote(timeout_ms=2_000), cloud)
        opening = asyncio.create_task(discovery.open())
        await asyncio.sleep(0.5)
        assert origin_of(handle, "cloud/fast") == "https://c.example/a2a"
        assert not opening.done()
        await opening
        assert LoopClock().monotonic_ms() == 2_000
        hung, fast = discovery.status()
        assert hung.problem is not None
        assert "no answer within 2000 ms" in hung.problem
        assert fast.problem is None
        await discovery.close()

    simulated(scenario)


def test_leaving_while_a_card_is_read_stops_the_reading() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def never() -> bytes:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return b""

        cards = Cards(partner=[card(), never])
        _, discovery = world(cards, remote(refresh_ms=1_000))
        await discovery.open()
        await asyncio.sleep(2)
        assert len(cards.asked) == 2
        await discovery.close()
        assert ended.is_set()

    simulated(scenario)


def test_a_slow_card_never_replaces_a_newer_one() -> None:
    async def scenario() -> None:
        async def slow() -> bytes:
            await asyncio.sleep(1)
            return card("Old")

        handle, discovery = world(Cards(partner=[slow, card("New")]))
        first = asyncio.create_task(discovery.refresh())
        await asyncio.sleep(0.1)
        await discovery.refresh()
        await first
        assert handle.snapshot().registries.agent_ids() == ("local/mine", "partner/new")

    simulated(scenario)


def test_what_others_change_in_the_registry_is_kept_and_what_they_drop_is_found_again() -> None:
    async def scenario() -> None:
        handle, discovery = world(Cards(partner=[card()]))
        await discovery.refresh()
        handle.update(lambda it: replace(it, agents={"mine": it.agents["mine"]}))
        handle.update(lambda it: it.with_agent(AgentSource(spec=local("more"))))
        await discovery.refresh()
        assert handle.snapshot().registries.agent_ids() == (
            "local/mine",
            "local/more",
            "partner/reviewer",
        )
        handle.replace(registries(local("fresh")))
        await discovery.refresh()
        assert handle.snapshot().registries.agent_ids() == ("local/fresh", "partner/reviewer")

    simulated(scenario)


def test_the_factory_that_is_registered_makes_the_backend_and_an_unknown_one_is_refused() -> None:
    async def scenario() -> None:
        factory = Factory()
        secret = {"type": "bearer", "token": "tok-1234567890"}
        base = registries(local("mine"), factory=factory)
        handle, discovery = world(Cards(partner=[card()]), remote(auth=secret), base=base)
        await discovery.refresh()
        agent = handle.snapshot().resolve("partner/reviewer")
        assert agent.backend is factory.backend
        assert [it.base_url for it in factory.built] == ["https://p.example/a2a"]
        assert factory.built[0].auth is not None
        assert factory.built[0].auth["token"].reveal() == "tok-1234567890"

        bare = registry_set([local("mine")], [], [], {}, {})
        bare = type(bare)(**{**_fields(bare), "backends": {"local": bare.backends["local"]}})
        handle, discovery = world(Cards(partner=[card()]), base=bare)
        (status,) = await discovery.refresh()
        assert status.agent_id is None
        assert "names backend 'a2a', which is not registered" in (status.problem or "")
        assert handle.version == 1

    simulated(scenario)


def test_registries_come_go_and_change_while_it_runs() -> None:
    async def scenario() -> None:
        cards = Cards(
            partner=[card("Reviewer")],
            cloud=[card("Writer", "https://c.example")],
        )
        handle, discovery = world(cards, remote())
        cloud = remote("cloud", base_url="https://c.example")
        await discovery.open()
        await discovery.apply([remote(), cloud])
        await asyncio.sleep(0.1)
        assert origin_of(handle, "cloud/writer") == "https://c.example/a2a"
        assert cards.times() == [0], "a registry that stays is not read again"
        await discovery.apply([cloud])
        assert [it.name for it in discovery.status()] == ["cloud"]
        with pytest.raises(UnknownAgent):
            handle.snapshot().resolve("partner/reviewer")
        await discovery.apply([remote("cloud", base_url="https://c.example", refresh_ms=1000)])
        await asyncio.sleep(1.5)
        assert len(cards.times("cloud")) == 3, "one that changed is read at once, then as it says"
        assert origin_of(handle, "cloud/writer") == "https://c.example/a2a"
        await discovery.close()
        await asyncio.sleep(10)
        assert len(cards.times("cloud")) == 3

    simulated(scenario)


def test_registries_that_are_applied_before_the_start_are_read_at_the_start() -> None:
    async def scenario() -> None:
        cards = Cards(cloud=[card("Writer", "https://c.example")])
        handle, discovery = world(cards, remote("cloud", base_url="https://other.example"))
        await discovery.apply([remote("cloud", base_url="https://c.example")])
        assert cards.times("cloud") == []
        await discovery.open()
        assert origin_of(handle, "cloud/writer") == "https://c.example/a2a"
        await discovery.close()

    simulated(scenario)
