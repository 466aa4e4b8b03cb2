"""Who may change and fire what starts runs in the name of another caller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.contracts.storage.store import Store
from awaken.errors import NotTheCreator
from awaken.server import ServerConfig
from awaken.stores import MemoryStore, SqliteStore
from awaken.testing import FakeClock, ScriptedModel
from awaken.transport.routes import Access as RouteAccess

from .in_process import Answer, ask, bearer, config, token

TIMING = {"type": "interval", "every_ms": 60_000}
SCHEDULE = {"timing": TIMING, "target": {"agent_id": "writer", "input": "x", "thread_id": "t"}}
TRIGGER = {
    "scheme": "github",
    "secrets": ["env:HOOK_GITHUB"],
    "target": {"agent_id": "writer", "input": "x"},
}
OF_SCHEDULES = {
    "PUT": SCHEDULE, "DELETE": None, "POST /pause": None, "POST /resume": None, "POST /fire": None,
}  # fmt: skip
OF_TRIGGERS = {"PUT": TRIGGER, "DELETE": None, "POST /pause": None, "POST /resume": None}
CHANGES = [("schedules", it) for it in OF_SCHEDULES] + [("triggers", it) for it in OF_TRIGGERS]
BODIES = {"schedules": OF_SCHEDULES, "triggers": OF_TRIGGERS}
NEW = {"schedules": SCHEDULE, "triggers": TRIGGER}
USER = frozenset({Access.READ, Access.INVOKE})


def settings() -> ServerConfig:
    return config(
        token("boss"),
        token("carl", USER),
        token("dora", USER),
        token("ann", USER, tenant_id="acme"),
        token("bob", USER, tenant_id="acme"),
        # The scope says more than a caller with a tenant may use.
        token("tenant-boss", tenant_id="acme"),
    )


class World:
    """A server with callers of one tenant and without one."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self.runtime = runtime
        self.app = runtime.asgi(settings())

    async def ask(self, operation: str, body: Any = None, who: str = "boss") -> Answer:
        method, path = operation.split(" ", 1)
        headers = {**bearer(who), "if-match": "*"}
        return await ask(self.app, method, path, body=body, headers=headers)

    async def change(self, kind: str, change: str, id_: str, who: str) -> Answer:
        method, _, verb = change.partition(" ")
        return await self.ask(f"{method} /v1/{kind}/{id_}{verb}", BODIES[kind][change], who)


def served(test: Callable[[World], Awaitable[None]], store: Store | None = None) -> None:
    async def main() -> None:
        agent = Agent("writer", model=ScriptedModel(["Written."], cycle=True))
        used = store or MemoryStore(clock=FakeClock())
        async with AgentRuntime(agents=[agent], store=used) as runtime:
            await test(World(runtime))

    asyncio.run(main())


@pytest.mark.parametrize(("kind", "change"), CHANGES)
@pytest.mark.parametrize(
    ("owner", "other", "expected"),
    [
        ("ann", "bob", False),
        ("ann", "tenant-boss", False),
        ("carl", "dora", False),
        ("ann", "ann", True),
        ("carl", "carl", True),
        ("carl", "boss", True),
    ],
)
def test_only_its_creator_or_an_operator_changes_what_runs_as_a_user(
    kind: str, change: str, owner: str, other: str, expected: bool
) -> None:
    async def test(world: World) -> None:
        made = await world.ask(f"POST /v1/{kind}", {**NEW[kind], "id": "it"}, owner)
        assert made.status == 201
        before = (await world.ask(f"GET /v1/{kind}/it", who=owner)).json
        answer = await world.change(kind, change, "it", other)
        if expected:
            assert answer.status in (200, 202, 204)
            return
        assert (answer.status, answer.json["code"]) == (403, "not_the_creator")
        assert f"'{owner}'" in answer.error
        assert (await world.ask(f"GET /v1/{kind}/it", who=owner)).json == before

    served(test)


@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_an_operator_controls_what_a_tenant_created_and_says_nothing_in_its_name(
    kind: str, change: str
) -> None:
    async def test(world: World) -> None:
        await world.ask(f"POST /v1/{kind}", {**NEW[kind], "id": "it"}, "ann")
        answer = await world.change(kind, change, "@acme:it", "boss")
        assert (answer.status == 403) == (change == "PUT")
        if change != "DELETE":
            assert (await world.ask(f"GET /v1/{kind}/it", who="ann")).json["created_by"] == "ann"

    served(test)


@pytest.mark.parametrize("kind", ["schedules", "triggers"])
@pytest.mark.parametrize("make_store", [MemoryStore, SqliteStore])
def test_what_an_operator_changes_runs_as_the_operator_from_then_on(
    kind: str, make_store: Any, tmp_path: Any
) -> None:
    store = MemoryStore() if make_store is MemoryStore else SqliteStore(tmp_path / "a.db")

    async def test(world: World) -> None:
        await world.ask(f"POST /v1/{kind}", {**NEW[kind], "id": "it"}, "carl")
        changed = (await world.change(kind, "PUT", "it", "boss")).json
        assert (changed["created_by"], changed["user_id"]) == ("boss", "boss")
        refused = await world.change(kind, "PUT", "it", "carl")
        assert refused.json["code"] == "not_the_creator"
        if kind == "schedules":
            fired = (await world.change(kind, "POST /fire", "it", "boss")).json
            assert (await world.runtime.wait(fired["run_id"])).run_id
            assert (await world.runtime.get_run(fired["run_id"])).user_id == "boss"

    served(test, store)


def test_what_the_host_created_is_changed_by_operators_only() -> None:
    async def test(world: World) -> None:
        await world.runtime.schedules.create("writer", "x", schedule_id="it", every_ms=60_000)
        refused = await world.change("schedules", "POST /fire", "it", "carl")
        assert refused.json["code"] == "not_the_creator"
        assert (await world.change("schedules", "PUT", "it", "boss")).json["created_by"] == "boss"
        # The host's own code acts for anyone: what it changes stays the creator's.
        changed = await world.runtime.schedules.pause("it")
        assert changed.creator.principal_id == "boss"

    served(test)


def test_every_route_that_changes_a_schedule_or_a_trigger_is_in_this_table() -> None:
    async def test(world: World) -> None:
        changing = {
            (route.path.split("/")[2], f"{route.method} {route.path.partition('}')[2]}".strip())
            for route in world.app.routes
            if route.access not in (RouteAccess.READ, RouteAccess.OPEN)
            and route.path.startswith(("/v1/schedules/{", "/v1/triggers/{"))
        }
        assert changing == set(CHANGES)

    served(test)


def test_a_firing_by_hand_is_audited_before_it_starts(tmp_path: Any) -> None:
    async def main() -> None:
        agent = Agent("writer", model=ScriptedModel(["Written."], cycle=True))
        async with AgentRuntime(
            agents=[agent], store=SqliteStore(tmp_path / "a.db"), managed=True
        ) as runtime:
            world = World(runtime)
            await world.ask("POST /v1/schedules", {**SCHEDULE, "id": "it"}, "carl")
            await world.change("schedules", "POST /fire", "it", "dora")
            await world.change("schedules", "POST /fire", "it", "carl")
            listed = (await world.ask("GET /v1/audit-log")).json["items"]
            acts = [(it["action"], it["resource"], it["actor"]) for it in listed]
            assert acts.count(("fire", "schedules/it", "carl")) == 1
            assert not [it for it in acts if it[2] == "dora"]

    asyncio.run(main())


def test_the_error_names_the_way_out() -> None:
    text = str(NotTheCreator(record_id="daily", owner="'ann'"))
    assert "'daily' starts runs in the name of 'ann'" in text
    assert "Create one of your own" in text
