"""Push configurations cost next to nothing while nothing happens, and a tenant has not too many."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from aiohttp import ClientSession
from tests.scenarios.worlds import simulated

from awaken import Agent, AgentRuntime, RunFinish, RunStart, RunStatus, Suspended
from awaken.outbound.guard import Outbound
from awaken.protocols.a2a import configs
from awaken.protocols.a2a.configs import (
    PENDING,
    PushPolicy,
    Target,
    pointers,
    save_config,
    scope,
)
from awaken.protocols.a2a.delivery import LIST_MS, REST_MS, Deliverer
from awaken.protocols.a2a.wire import PushConfig
from awaken.stores import MemoryStore, ProfileEntry
from awaken.testing import LoopClock, ScriptedModel
from awaken.testing.store_conformance.writing import Writer, run

from .a2a_world import agents, world

COUNT = 3000
MINUTES = 2


class Counted(MemoryStore):
    """A store that counts how often it is asked for what."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def load_thread(self, thread_id: str) -> Any:
        self.asked["load_thread"] += 1
        return await super().load_thread(thread_id)

    async def load_run(self, run_id: str) -> Any:
        self.asked["load_run"] += 1
        return await super().load_run(run_id)

    async def list_events(self, *args: Any, **options: Any) -> Any:
        self.asked["list_events"] += 1
        return await super().list_events(*args, **options)


class Heard(Outbound):
    """Posts nothing, and notes what it would have posted."""

    def __init__(self) -> None:
        super().__init__(["127.0.0.1"])
        self.bodies: list[bytes] = []

    async def post(self, _session: Any, _url: str, body: bytes, _headers: Any) -> None:
        self.bodies.append(body)


async def waiting_tasks(runtime: AgentRuntime, count: int) -> list[Writer]:
    """Tasks that wait for somebody, each with a target that was told everything."""
    writers, profile = [], runtime._services.profile
    for number in range(count):
        writer = Writer(runtime.store, f"t-{number}")
        ids = {"run_id": f"r-{number}", "thread_id": f"t-{number}"}
        record = run(status=RunStatus.WAITING, started_at=1, **ids)
        receipt = await writer.commit(run=record, events=(RunStart(**ids),))
        target = Target(task_id=record.run_id, config_id="c", url="http://127.0.0.1/x", cursor=1)
        assert receipt.event_seq == target.cursor
        for owner, key, value in (
            (scope(record.run_id), "c", msgspec.to_builtins(target)),
            (PENDING, f"{record.run_id}/c", None),
        ):
            await profile.save_entry(ProfileEntry(owner=owner, key=key, value=value, updated_at=1))
        writers.append(writer)
    return writers


def test_thousands_of_targets_that_rest_are_looked_at_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        store = Counted()
        agent = Agent("a", model=ScriptedModel([]))
        runtime = AgentRuntime([agent], store=store, clock=LoopClock(), has_worker=False)
        profile, found = runtime._services.profile, Counter[str]()
        for name in ("list_entries", "find_entry", "change_entry"):
            counted(profile, name, found, monkeypatch)
        writers = await waiting_tasks(runtime, COUNT)
        heard = Heard()
        session = cast(ClientSession, None)
        deliverer = Deliverer(runtime._services, heard, PushPolicy(), session)
        await runtime._services.streams._bus.open()
        task = asyncio.create_task(deliverer.run())
        await asyncio.sleep(3 * REST_MS / 1000)  # Virtual time: until all have come to rest.
        store.asked.clear()
        found.clear()
        await asyncio.sleep(60 * MINUTES)
        assert store.asked.keys() == {"load_thread"}
        assert store.asked["load_thread"] <= COUNT * (MINUTES + 1)
        assert found.keys() == {"list_entries"}
        assert found["list_entries"] <= 60_000 / LIST_MS * MINUTES + 1
        # What happens on one of the threads is heard of at once, and asks only for that one.
        store.asked.clear()
        found.clear()
        again = run("r-7", RunStatus.WAITING, thread_id="t-7", started_at=1)
        asked = RunFinish(run_id="r-7", thread_id="t-7", termination=Suspended())
        await writers[7].commit(run=again, events=(asked,))
        await runtime._services.view(None).notify_changed("t-7")
        await asyncio.sleep(0.001)
        assert (found["find_entry"], store.asked["load_thread"]) == (1, 2)
        assert len(heard.bodies) == 1
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert not runtime._engine.active.watchers
        await runtime._services.streams._bus.close()

    simulated(scenario)


def counted(profile: Any, name: str, found: Counter[str], patch: pytest.MonkeyPatch) -> None:
    """Count the calls of one method."""
    method = getattr(profile, name)

    async def call(*args: Any, **options: Any) -> Any:
        found[name] += 1
        return await method(*args, **options)

    patch.setattr(profile, name, call)


def test_a_tenant_has_a_bounded_number_of_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "TENANT_CONFIGS_MAX", 3)

    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["x"], cycle=True))])
        async with world(runtime) as caller:
            configuration = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:1/x"}}
            (ann, bob) = (runtime._services.view(name) for name in ("ann", "bob"))
            for number in range(3):
                config = PushConfig(url="http://127.0.0.1:1/x")
                await save_config(ann, f"r-{number}", config, 0)
            with pytest.raises(Exception, match="is 4, the limit is 3"):
                await save_config(ann, "r-9", PushConfig(url="http://127.0.0.1:1/x"), 0)
            # The same config again takes no room, and another tenant has room of its own.
            await save_config(bob, "r-1", PushConfig(url="http://127.0.0.1:1/x"), 0)
            assert len(await runtime._services.profile.list_entries(pointers("@ann:")[1])) <= 3
            monkeypatch.setattr(configs, "TENANT_CONFIGS_MAX", 0)
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            body = {"message": message, "configuration": configuration}
            status, refused = await caller.rest("POST", "/message:send", body)
            assert (status, "the limit is 0" in str(refused)) == (413, True)
            # Nothing was begun.
            assert (await caller.rest("GET", "/tasks"))[1]["totalSize"] == 0

    asyncio.run(scenario())


def test_a_task_of_a_tenant_is_told_of_under_the_ids_that_the_tenant_knows() -> None:
    async def scenario() -> None:
        runtime = agents(a=["x"])
        heard = Heard()
        async with runtime:
            ann = runtime._services.view("ann")
            ran = await runtime.run("a", "hi", thread_id="c", run_id_hint="r", tenant_id="ann")
            await save_config(ann, "r", PushConfig(url="http://127.0.0.1/x"), 0)
            session = cast(ClientSession, None)
            deliverer = Deliverer(runtime._services, heard, PushPolicy(), session)
            config_id = (await runtime._services.profile.list_entries(PENDING))[0].key.split("/")[1]
            assert await deliverer._deliver(ran.run_id, config_id) is None
        told = b"".join(heard.bodies)
        assert b'"taskId":"r"' in told
        assert b"@ann" not in told

    asyncio.run(scenario())
