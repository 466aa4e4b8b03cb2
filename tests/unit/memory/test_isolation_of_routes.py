"""Over HTTP nothing of one user's memory is reached by another: not by a route, not by an event.

A fact that a run is told is in no transcript; so whoever reads the run of another, forks it or
replays it, learns nothing of it.
"""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled
from tests.server.in_process import EVERYTHING, Request, ask, bearer, config, token

from awaken import Access, Agent, AgentRuntime
from awaken.extensions.memory import FactSource, MemoryPlugin, user_memory
from awaken.memory.terms import split_terms
from awaken.models import InferenceRequest
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel

from .test_isolation import TEXTS, opened_store

USUAL = frozenset({Access.READ, Access.INVOKE, Access.DECIDE})
ALMOST_ALL = EVERYTHING - {Access.OPERATE, Access.ADMIN}
"""What a caller can have who may not read the memory of others."""
CALLERS = {"ann": "acme", "bob": "acme", "eve": "other", "free": None}
"""The callers and their tenants."""
FACTS = "/v1/memory/facts"
SECRET = "platypus"

callers = st.sampled_from(sorted(CALLERS))
calls = st.tuples(
    st.sampled_from(
        ["add", "add", "list", "search", "export", "get", "edit", "forget", "forget_all", "claim"]
    ),
    callers,
    callers,
    st.sampled_from(TEXTS),
    st.integers(0, 40),
)


class RouteModel:
    """What each caller has: all that its own token may ever get."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.kept: dict[str, dict[str, str]] = {who: {} for who in CALLERS}
        self.ids: list[str] = []

    async def send(self, who: str, method: str, path: str, body: Any = None) -> Any:
        return await ask(self.app, method, path, headers=bearer(who), body=body)

    async def act(self, what: str, who: str, claimed: str, text: str, number: int) -> None:
        mine = self.kept[who]
        some_id = self.ids[number % len(self.ids)] if self.ids else "none"
        match what:
            case "add":
                made = await self.send(who, "POST", FACTS, {"text": f"{text} {number}"})
                assert made.status == 201, made.body
                fact = made.json
                assert fact["id"] in mine or fact["id"] not in self.ids
                mine[fact["id"]] = fact["text"]
                self.ids.append(fact["id"])
            case "list":
                assert await self.list_items(who, FACTS) == mine
                if some_id not in mine:
                    refused = await self.send(who, "GET", f"{FACTS}?cursor={some_id}")
                    assert refused.status == 400, refused.body
            case "search":
                found = await self.list_items(who, f"{FACTS}?query=tea")
                assert found.items() <= mine.items()
                assert found or not any("tea" in split_terms(it) for it in mine.values())
            case "export":
                lines = (await self.send(who, "GET", "/v1/memory/export")).body.splitlines()
                assert {it["id"]: it["text"] for it in map(json.loads, lines)} == mine
            case "get":
                answer = await self.send(who, "GET", f"{FACTS}/{some_id}")
                assert answer.status == (200 if some_id in mine else 404)
            case "edit":
                said = {"text": f"edited {number} tea {some_id}"}
                answer = await self.send(who, "PUT", f"{FACTS}/{some_id}", said)
                assert answer.status == (200 if some_id in mine else 404)
                if some_id in mine:
                    mine[some_id] = answer.json["text"]
            case "forget":
                answer = await self.send(who, "DELETE", f"{FACTS}/{some_id}")
                is_mine = mine.pop(some_id, None) is not None
                assert answer.status == (200 if is_mine else 404)
            case "forget_all":
                answer = await self.send(who, "DELETE", FACTS)
                assert {it["id"] for it in answer.json["facts"]} == mine.keys()
                mine.clear()
            case "claim":
                await self.claim(who, claimed, some_id)

    async def list_items(self, who: str, path: str) -> dict[str, str]:
        answer = await self.send(who, "GET", path)
        assert answer.status == 200, answer.body
        return {it["id"]: it["text"] for it in answer.json["items"]}

    async def claim(self, who: str, claimed: str, some_id: str) -> None:
        """Whoever names another user or tenant is refused, whatever the method."""
        tenant = CALLERS[claimed]
        query = f"user_id={claimed}" + ("" if tenant is None else f"&tenant_id={tenant}")
        for method, path in (
            ("GET", FACTS),
            ("DELETE", FACTS),
            ("GET", f"{FACTS}/{some_id}"),
            ("DELETE", f"{FACTS}/{some_id}"),
            ("GET", "/v1/memory/export"),
        ):
            if claimed != who:
                assert (await self.send(who, method, f"{path}?{query}")).status == 403


@sampled
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_over_http_a_caller_reaches_its_own_facts_only(kind: str) -> None:
    size = choose_size({"memory": 12, "sqlite": 2, "postgres": 1}[kind], 50)
    accepted = config(*(token(who, USUAL, tenant_id=it) for who, it in CALLERS.items()))

    @settings(max_examples=size, deadline=None, phases=[Phase.generate])
    @given(st.lists(calls, min_size=10, max_size=40))
    def check(script: list[tuple[str, str, str, str, int]]) -> None:
        async def run() -> None:
            async with opened_store(kind) as store, AgentRuntime(store=store) as runtime:
                model = RouteModel(runtime.asgi(accepted))
                # Whatever is drawn: each has something that the others ask for and would remove.
                for number, who in enumerate(CALLERS):
                    await model.act("add", who, "bob", "likes tea", number)
                for number, who in enumerate(CALLERS):
                    for what in ("get", "edit", "forget", "claim"):
                        await model.act(what, who, "ann", "", number + 1)
                for act in script:
                    await model.act(*act)
                for who in CALLERS:
                    for what in ("list", "search", "export"):
                        await model.act(what, who, "ann", "", 0)

        asyncio.run(run())

    check()


class Told:
    """An agent whose runs are told facts, and what each request told."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        model = ScriptedModel([self._answer], cycle=True)
        self.agent = Agent("a", model=model, plugins=[MemoryPlugin()])

    def _answer(self, request: InferenceRequest) -> str:
        self.requests.append(request)
        return "Fine."

    def take(self) -> bool:
        """Whether one of the requests until now had the secret."""
        found = [it.text for request in self.requests for it in request.messages]
        assert self.requests
        self.requests.clear()
        return any(SECRET in it for it in found)


class House:
    """A server at which Ann's run was told a fact that only Ann's memory has."""

    def __init__(self, runtime: AgentRuntime, told: Told, tenant_id: str | None) -> None:
        tokens = (token(who, ALMOST_ALL, tenant_id=tenant_id) for who in ("ann", "bob"))
        operator, eve = token("op", EVERYTHING), token("eve", EVERYTHING, tenant_id="other")
        self.runtime, self.told, self.tenant_id = runtime, told, tenant_id
        self.app = runtime.asgi(config(*tokens, operator, eve))
        self.run_id = ""

    async def fill(self) -> None:
        ann = user_memory(self.tenant_id, "ann")
        await self.runtime.memory.remember(ann, [f"Ann owns a {SECRET}."], FactSource())
        self.run_id = await self.talk("ann", "t")
        assert self.told.take()

    async def talk(self, who: str, thread_id: str) -> str:
        said = {"role": "user", "content": "Hello."}
        body = {"agent_id": "a", "thread_id": thread_id, "messages": [said]}
        request = Request(self.app, "POST", "/v1/runs", headers=bearer(who), body=body)
        await asyncio.wait_for(request.task, 10)
        assert SECRET.encode() not in request.answer.body
        listed = await self.get(who, f"/v1/threads/{thread_id}/runs/latest")
        return str(listed.json["run_id"])

    async def get(self, who: str, path: str) -> Any:
        return await ask(self.app, "GET", path, headers=bearer(who))

    async def list_places(self) -> list[str]:
        """Every path of the server that is read, with the ids of Ann's run in its places."""
        document = (await self.get("op", "/openapi.json")).json
        ids = dict.fromkeys(("run_id", "response_id", "id", "task_id", "other_id"), self.run_id)
        ids |= {"thread_id": "t", "chat_id": "t", "agent_id": "a", "n": "1", "tenant": "acme"}
        return [
            re.sub(r"\{(\w+)\}", lambda it: ids.get(it[1], "x"), path)
            for path, methods in document["paths"].items()
            if "get" in methods and not path.startswith("/console")
        ]


def in_house(story: Any, tenant_id: str | None) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            told, store = Told(), SqliteStore(Path(folder) / "a.db")
            async with AgentRuntime([told.agent], store=store) as runtime:
                house = House(runtime, told, tenant_id)
                await house.fill()
                await story(house)

    asyncio.run(run())


@pytest.mark.parametrize("tenant_id", ["acme", None])
def test_no_route_tells_another_what_a_run_was_told(tenant_id: str | None) -> None:
    """Whatever is read of Ann's run: its events, state, requests, recording, timeline, traces."""

    async def story(house: House) -> None:
        found = set()
        for path in await house.list_places():
            for who in ("bob", "eve", "ann"):
                mark = "&" if "?" in path else "?"
                for wanted in (path, f"{path}{mark}query=Ann+owns", f"{path}{mark}limit=100"):
                    if SECRET.encode() in (await house.get(who, wanted)).body:
                        found.add((who, path))
        assert found == {("ann", FACTS), ("ann", "/v1/memory/export")}

    in_house(story, tenant_id)


@pytest.mark.parametrize("tenant_id", ["acme", None])
def test_whoever_goes_on_with_the_run_of_another_is_not_told_its_facts(
    tenant_id: str | None,
) -> None:
    async def story(house: House) -> None:
        await house.talk("bob", "t")
        assert not house.told.take()
        for path, body in (
            (f"/v1/runs/{house.run_id}/fork", {"at": {"step": 1}}),
            (f"/v1/runs/{house.run_id}/fork", {}),
            ("/v1/threads/t/fork", {}),
        ):
            for who in ("bob", "ann"):
                made = await ask(house.app, "POST", path, headers=bearer(who), body=body)
                assert made.status in (201, 202), made.body
                if made.json.get("run_id"):
                    fork = f"/v1/runs/{made.json['run_id']}"
                    async with asyncio.timeout(10):
                        while (await house.get(who, fork)).json["status"] != "done":
                            await asyncio.sleep(0.01)
                else:
                    thread = made.json.get("thread", made.json)
                    await house.talk(who, thread["id"])
                assert house.told.take() is (who == "ann"), (path, body, who)

    in_house(story, tenant_id)


@pytest.mark.parametrize("mode", ["what_if", "simulate"])
def test_a_live_replay_of_the_run_of_another_needs_a_right_to_that_users_memory(mode: str) -> None:
    async def story(house: House) -> None:
        for who in ("bob", "ann", "op"):
            path, body = f"/v1/runs/{house.run_id}/replay", {"mode": mode}
            begun = await ask(house.app, "POST", path, headers=bearer(who), body=body)
            assert begun.status == 202, begun.body
            place = f"/v1/runs/{house.run_id}/replays/{begun.json['replay']['replay_id']}"
            ended = await house.get(who, f"{place}?wait_ms=10000")
            assert ended.json["replay"]["status"] == "done", ended.body
            assert house.told.take() is (who != "bob")
            # It says that the model was asked something else.
            assert ended.json["result"]["is_same"] is (who != "bob")
        verified = await ask(
            house.app,
            "POST",
            f"/v1/runs/{house.run_id}/replay",
            headers=bearer("bob"),
            body={"mode": "verify"},
        )
        place = f"/v1/runs/{house.run_id}/replays/{verified.json['replay']['replay_id']}"
        assert (await house.get("bob", f"{place}?wait_ms=10000")).json["result"]["is_same"]
        assert SECRET.encode() not in (await house.get("bob", f"{place}/recording")).body

    in_house(story, None)
