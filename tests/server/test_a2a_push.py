"""A2A push notifications: everything once at least, in order, whatever fails in between."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    TaskPushNotificationConfig,
)
from aiohttp import web
from google.protobuf.json_format import MessageToDict

from awaken import Agent, AgentRuntime
from awaken.outbound.guard import Outbound
from awaken.protocols.a2a.configs import PENDING, PushPolicy, find_config, scope
from awaken.protocols.a2a.delivery import Deliverer, _NotOurs
from awaken.server import ServerConfig
from awaken.stores import ProfileEntry
from awaken.testing import ScriptedModel, ToolCalls, Turn

from .a2a_world import (
    BINDINGS,
    Caller,
    agents,
    artifact,
    ask,
    held,
    official,
    reason,
    states,
    violations,
    world,
)

QUICK = PushPolicy(retry_base_ms=10, retry_cap_ms=20, attempts=4, lease_ms=300)
SECRETS = ("tok-canary", "cred-canary")


class Hook:
    """A target on this machine that notes what it is told."""

    def __init__(self, answer: Callable[[int], int] = lambda _: 200) -> None:
        self.heard: list[Any] = []
        self.headers: list[Any] = []
        self.tries = 0
        self.url = ""
        self._answer = answer
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "Hook":
        app = web.Application()
        app.router.add_post("/{rest:.*}", self._hear)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def until(self, is_reached: Callable[[], bool]) -> None:
        """Wait until a target has heard enough."""
        async with asyncio.timeout(15):
            while not is_reached():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self) -> None:
        """Wait until the target was told of the end."""
        await self.until(lambda: bool(self.heard) and states(self.heard)[-1:] == ["COMPLETED"])

    async def _hear(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text())
        self.tries += 1
        status = self._answer(self.tries)
        if status == 200:
            self.heard.append(body)
            self.headers.append(dict(request.headers))
        self._changed.set()
        return web.Response(status=status, headers={"Location": "/x"} if status == 302 else None)


def pushing(url: str, **more: Any) -> Any:
    return {"returnImmediately": True, "taskPushNotificationConfig": {"url": url, **more}}


async def over(caller: Caller, runtime: AgentRuntime, task_id: str, config_id: str) -> Any:
    """The stored config once nothing more is delivered to it."""
    async with asyncio.timeout(15):
        while True:
            profile = runtime._services.profile
            found = await find_config(profile, task_id, config_id)
            assert found is not None
            if found.is_over and not await profile.list_entries(PENDING):
                return found
            await asyncio.sleep(0.01)


def test_a_target_is_told_everything_in_order_with_its_credentials() -> None:
    async def scenario() -> None:
        async with Hook() as hook, world(agents(a=[Turn(text=["One ", "two."])])) as caller:
            secrets = {"scheme": "Bearer", "credentials": "cred-canary"}
            config = pushing(hook.url, token="tok-canary", authentication=secrets)
            task = await caller.send("hi", configuration=config)
            await hook.ended()
            assert states(hook.heard) == ["WORKING", "COMPLETED"]
            assert artifact(hook.heard) == "One two."
            for told in hook.heard:
                assert next(iter(told.values()))["taskId"] == task["id"]
            for headers in hook.headers:
                assert headers["X-A2A-Notification-Token"] == "tok-canary"
                assert headers["Authorization"] == "Bearer cred-canary"
                assert headers["Content-Type"] == "application/a2a+json"

    asyncio.run(scenario())


def test_what_fails_is_tried_again_and_nothing_is_lost_or_out_of_order() -> None:
    async def scenario() -> None:
        failures = {1: 500, 2: 302, 4: 404, 5: 503}
        runtime = agents(a=[Turn(text=["One ", "two."])])
        async with (
            Hook(lambda tries: failures.get(tries, 200)) as hook,
            world(runtime, push=QUICK) as caller,
        ):
            task = await caller.send("hi", configuration=pushing(hook.url, id="c"))
            await hook.ended()
            assert states(hook.heard) == ["WORKING", "COMPLETED"]
            assert artifact(hook.heard) == "One two."
            assert hook.tries == len(hook.heard) + len(failures)
            assert (await over(caller, runtime, task["id"], "c")).problem == ""

    asyncio.run(scenario())


def test_a_target_that_never_answers_is_given_up_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        runtime = agents(a=["x"])
        async with Hook(lambda _: 500) as hook, world(runtime, push=QUICK) as caller:
            secrets = {"scheme": "Basic", "credentials": "cred-canary"}
            config = pushing(hook.url, id="c", token="tok-canary", authentication=secrets)
            task = await caller.send("hi", configuration=config)
            target = await over(caller, runtime, task["id"], "c")
            assert hook.tries == QUICK.attempts
            assert "500" in target.problem
            assert (target.token, target.credentials) == ("", "")
            _, body = await caller.rest("GET", f"/tasks/{task['id']}/pushNotificationConfigs/c")
            assert body["url"] == hook.url

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())
    assert "abandoned" in caplog.text
    assert not any(secret in caplog.text for secret in SECRETS)


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_makes_reads_lists_and_deletes_configs(binding: str) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with (
            Hook() as hook,
            world(agents(a=[held(gate, "x")])) as caller,
            official(caller.url, binding) as client,
        ):
            task = await caller.send("hi", configuration={"returnImmediately": True})
            wanted = TaskPushNotificationConfig(
                task_id=task["id"],
                url=hook.url,
                token="tok-canary",
                authentication=AuthenticationInfo(scheme="Bearer", credentials="cred-canary"),
            )
            made = await client.create_task_push_notification_config(wanted)
            got = await client.get_task_push_notification_config(
                GetTaskPushNotificationConfigRequest(task_id=task["id"], id=made.id)
            )
            listed = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task["id"])
            )
            assert made.id
            assert made == got == listed.configs[0]
            assert (got.url, got.authentication.scheme) == (hook.url, "Bearer")
            said = str(MessageToDict(listed))
            assert not any(secret in said for secret in SECRETS)
            await client.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=task["id"], id=made.id)
            )
            path = f"/tasks/{task['id']}/pushNotificationConfigs"
            status, body = await caller.rest("GET", f"{path}/{made.id}")
            assert (status, reason(body)) == (404, "PUSH_NOTIFICATION_CONFIG_NOT_FOUND")
            status, body = await caller.rest("DELETE", f"{path}/{made.id}")
            assert (status, body) == (200, {})
            status, _ = await caller.rest("DELETE", "/tasks/none/pushNotificationConfigs/x")
            assert status == 404
            _, body = await caller.rest("GET", path)
            assert body["configs"] == []
            gate.set()
            await caller.subscribe(task["id"], 0)
            assert hook.tries == 0

    asyncio.run(scenario())


def test_a_config_that_comes_late_is_told_what_follows() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = agents(a=[ToolCalls([("ask", {"question": "q"})]), held(gate, "x")])
        async with Hook() as hook, world(runtime) as caller:
            task = await caller.send("hi")
            path = f"/tasks/{task['id']}/pushNotificationConfigs"
            status, _ = await caller.rest("POST", path, {"url": hook.url})
            assert status == 200
            now = {"returnImmediately": True}
            await caller.send("yes", taskId=task["id"], configuration=now)
            gate.set()
            await hook.ended()
            assert states(hook.heard) == ["WORKING", "COMPLETED"]

    asyncio.run(scenario())


def test_unsafe_targets_and_unprintable_secrets_are_refused() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"] * 3), ServerConfig()) as caller:
            task = await caller.send("hi")
            path = f"/tasks/{task['id']}/pushNotificationConfigs"
            for body, fields in (
                ({"url": "http://127.0.0.1/"}, {"url"}),
                ({"url": "http://localhost/"}, {"url"}),
                ({"url": "file:///etc/passwd"}, {"url"}),
                ({}, {"url"}),
                ({"url": "http://10.0.0.1/", "id": "a/b"}, {"url", "id"}),
                ({"url": "x", "token": "a\r\nb: c"}, {"url", "token"}),
                (
                    {"url": "x", "authentication": {"scheme": "", "credentials": "é"}},
                    {"url", "authentication.scheme", "authentication.credentials"},
                ),
            ):
                status, refused = await caller.rest("POST", path, body)
                assert (status, violations(refused).keys()) == (400, fields)
                assert not any(value in str(refused) for value in ("b: c", "é"))
            status, _ = await caller.rest("POST", "/tasks/none/pushNotificationConfigs", {})
            assert status == 400

    asyncio.run(scenario())


def test_a_task_has_a_bounded_number_of_configs() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with Hook() as hook, world(agents(a=[held(gate, "x")])) as caller:
            task = await caller.send("hi", configuration={"returnImmediately": True})
            path = f"/tasks/{task['id']}/pushNotificationConfigs"
            for index in range(17):
                body = {"url": hook.url, "id": f"c{index}"}
                status, refused = await caller.rest("POST", path, body)
                assert status == (200 if index < 16 else 400)
            assert violations(refused).keys() == {"id"}
            status, _ = await caller.rest("POST", path, {"url": hook.url, "id": "c3"})
            assert status == 200

    asyncio.run(scenario())


def test_deliveries_survive_a_restart_and_a_process_that_died(tmp_path: Any) -> None:
    def runtime(script: list[Any]) -> AgentRuntime:
        agent = Agent("a", model=ScriptedModel(script), tools=[ask])
        return AgentRuntime([agent], store=f"sqlite:///{tmp_path}/s.db")

    async def scenario() -> None:
        patient = PushPolicy(retry_base_ms=100, retry_cap_ms=100, attempts=1000, lease_ms=300)
        is_up = False
        async with Hook(lambda _: 200 if is_up else 503) as hook:
            first = runtime([Turn(text=["One ", "two."])])
            async with world(first, push=patient) as caller:
                config = {"taskPushNotificationConfig": {"url": hook.url, "id": "c"}}
                task = await caller.send("hi", configuration=config)
                assert task["status"]["state"] == "TASK_STATE_COMPLETED"
                await hook.until(lambda: hook.tries >= 2)
            # Whoever delivered died in the middle of it.
            second = runtime([])
            async with second:
                await _held_by_the_dead(second, task["id"])
            is_up = True
            async with world(runtime([]), push=patient):
                await hook.ended()
            assert states(hook.heard) == ["WORKING", "COMPLETED"]
            assert artifact(hook.heard) == "One two."

    asyncio.run(scenario())


async def _held_by_the_dead(runtime: AgentRuntime, task_id: str) -> None:
    desk = runtime._services
    target = await find_config(desk.profile, task_id, "c")
    assert target is not None
    now = desk.clock.now_ms()
    stored = {**_stored(target), "holder": "the dead", "held_until": now + 400}
    await desk.profile.save_entry(
        ProfileEntry(owner=scope(task_id), key="c", value=stored, updated_at=now)
    )


def _stored(target: Any) -> dict[str, Any]:
    names = target.__struct_fields__
    return {name: getattr(target, name) for name in names}


def test_several_processes_deliver_each_thing_once() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = agents(a=[held(gate, "Hello.")])
        async with (
            Hook() as hook,
            world(runtime) as caller,
            world(runtime),
            world(runtime),
        ):
            await caller.send("hi", configuration=pushing(hook.url))
            await hook.until(lambda: hook.tries >= 1)
            gate.set()
            await hook.ended()
            assert states(hook.heard) == ["WORKING", "COMPLETED"]
            assert hook.tries == len(hook.heard) == 4

    asyncio.run(scenario())


def test_only_one_process_has_a_target_and_a_deleted_one_stays_deleted() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = agents(a=[held(gate, "x")])
        async with Hook() as hook, world(runtime) as caller, aiohttp.ClientSession() as session:
            task = await caller.send("hi", configuration={"returnImmediately": True})
            path = f"/tasks/{task['id']}/pushNotificationConfigs"
            await caller.rest("POST", path, {"url": hook.url, "id": "c"})
            desk = runtime._services
            one, two = (Deliverer(desk, Outbound(), PushPolicy(), session) for _ in range(2))
            target = await find_config(desk.profile, task["id"], "c")
            assert target is not None
            await one._change(target, one._claim)
            with pytest.raises(_NotOurs):
                await two._change(target, two._claim)
            await one._change(target, one._claim)
            await caller.rest("DELETE", f"{path}/c")
            with pytest.raises(_NotOurs):
                await one._change(target, one._claim)
            assert await find_config(desk.profile, task["id"], "c") is None
            gate.set()

    asyncio.run(scenario())


def test_a_target_that_failed_is_left_alone_until_it_is_due() -> None:
    async def scenario() -> None:
        runtime = agents(a=["x"])
        patient = PushPolicy(retry_base_ms=300_000)
        async with (
            Hook(lambda _: 500) as hook,
            world(runtime, push=patient) as caller,
            aiohttp.ClientSession() as session,
        ):
            task = await caller.send("hi", configuration=pushing(hook.url, id="c"))
            await hook.until(lambda: hook.tries == 1)
            desk = runtime._services
            async with asyncio.timeout(15):
                while True:
                    target = await find_config(desk.profile, task["id"], "c")
                    assert target is not None
                    if target.attempts == 1:
                        break
                    await asyncio.sleep(0.01)
            assert target.due_at - desk.clock.now_ms() > 250_000
            await Deliverer(desk, Outbound(["127.0.0.1"]), patient, session)._deliver(
                task["id"], "c"
            )
            assert hook.tries == 1

    asyncio.run(scenario())


def test_one_target_that_hangs_keeps_nobody_else_waiting() -> None:
    async def scenario() -> None:
        hang = asyncio.Event()

        class Hanging(Hook):
            async def _hear(self, request: web.Request) -> web.Response:
                await hang.wait()
                return await super()._hear(request)

        async with Hanging() as stuck, Hook() as hook, world(agents(a=["x", "y"])) as caller:
            await caller.send("one", configuration=pushing(stuck.url))
            await caller.send("two", configuration=pushing(hook.url))
            await hook.ended()
            assert stuck.heard == []
            hang.set()
            await stuck.ended()

    asyncio.run(scenario())


def test_a_task_cancelled_while_it_was_queued_is_told_of() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with Hook() as hook, world(agents(a=[held(gate, "x")])) as caller:
            now = {"returnImmediately": True}
            first = await caller.send("one", configuration=now)
            second = await caller.send(
                "two", contextId=first["contextId"], configuration=pushing(hook.url)
            )
            await caller.rest("POST", f"/tasks/{second['id']}:cancel")
            await hook.until(lambda: bool(hook.heard))
            assert states(hook.heard) == ["CANCELED"]
            gate.set()

    asyncio.run(scenario())
