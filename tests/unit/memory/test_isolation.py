"""Nothing of one user or tenant is ever found, listed, exported, edited or forgotten by another."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.postgres.stores import opened
from tests.sampling import choose_size, sampled
from tests.server.in_process import ask, bearer, config, token

from awaken import Access, Agent, AgentRuntime
from awaken.errors import InvalidInput, UnknownDocument, UnknownFact
from awaken.extensions.memory import (
    DocumentDraft,
    Fact,
    FactSource,
    MemoryConfig,
    MemoryPlugin,
    Partition,
    PartitionKind,
    knowledge_collection,
    project_memory,
    user_memory,
)
from awaken.memory.terms import split_terms
from awaken.stores import MemoryStore, SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

TENANTS = [None, "acme", "acm", "a", "%"]
NAMES = ["ann", "Ann", "bob", "*", "an", "1", "11", "p1x", "ann' OR 1=1 --", '"', "ünï"]
TEXTS = ["likes tea", "tea time", 'tea" OR p1x*', "x p2xtea p1xtea", "東京 tea", "x' || 'tea"]

owners = st.builds(
    Partition,
    kind=st.sampled_from(PartitionKind),
    name=st.sampled_from(NAMES),
    tenant_id=st.sampled_from(TENANTS),
)
acts = st.tuples(
    st.sampled_from(["remember", "search", "list", "export", "edit", "forget", "forget_all"]),
    owners,
    st.sampled_from(TEXTS),
    st.integers(0, 40),
)


@asynccontextmanager
async def opened_store(kind: str) -> AsyncIterator[Any]:
    if kind == "postgres":
        async with opened(connect_timeout_ms=30_000) as store:
            yield store
    elif kind == "memory":
        yield MemoryStore()
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield SqliteStore(Path(folder) / "a.db")


class Model:
    """What each owner has, by id: all that it may ever see."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self.runtime = runtime
        self.kept: dict[Partition, dict[str, str]] = {}
        self.ids: list[str] = []

    async def act(self, what: str, owner: Partition, text: str, number: int) -> None:
        memory, mine = self.runtime.memory, self.kept.setdefault(owner, {})
        some_id = self.ids[number % len(self.ids)] if self.ids else "none"
        match what:
            case "remember":
                said = f"{text} {number}"
                (fact,) = await memory.remember(owner, [said], FactSource())
                assert fact.id in mine or fact.id not in self.ids
                mine[fact.id] = fact.text
                self.ids.append(fact.id)
            case "search":
                found = await memory.search(owner, f"{text} tea", limit=100)
                assert {it.fact.id for it in found} <= mine.keys()
                assert all(mine[it.fact.id] == it.fact.text for it in found)
                assert {it.fact.id for it in found} >= {
                    key for key, said in mine.items() if "tea" in split_terms(said)
                }
            case "list":
                page = await memory.list_facts(owner, cursor=None, limit=100)
                assert {it.id: it.text for it in page.items} == mine
                if some_id in mine:
                    rest = await memory.list_facts(owner, cursor=some_id, limit=100)
                    assert {it.id for it in rest.items} < mine.keys()
                else:
                    with pytest.raises(InvalidInput):
                        await memory.list_facts(owner, cursor=some_id, limit=100)
            case "export":
                assert {it.id: it.text async for it in memory.export(owner)} == mine
            case "edit":
                said = f"edited {number} tea {some_id}"
                if some_id in mine:
                    mine[some_id] = (await memory.edit(owner, some_id, said, by=None)).text
                else:
                    with pytest.raises(UnknownFact):
                        await memory.edit(owner, some_id, said, by=None)
            case "forget":
                if some_id in mine:
                    del mine[some_id]
                    await memory.forget(owner, some_id)
                else:
                    with pytest.raises(UnknownFact):
                        await memory.forget(owner, some_id)
                    with pytest.raises(UnknownFact):
                        await memory.get(owner, some_id)
            case "forget_all":
                gone = await memory.forget_all(owner)
                assert {it.id for it in gone.facts} == mine.keys()
                mine.clear()


@sampled
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_an_owner_sees_and_changes_its_own_facts_only(kind: str) -> None:
    size = choose_size({"memory": 60, "sqlite": 4, "postgres": 2}[kind], 100)

    # Without shrinking: an example has at most forty acts, and each may wait for a disk.
    @settings(max_examples=size, deadline=None, phases=[Phase.generate])
    @given(st.lists(acts, min_size=5, max_size=40))
    def check(script: list[tuple[str, Partition, str, int]]) -> None:
        async def run() -> None:
            async with opened_store(kind) as store, AgentRuntime(store=store) as runtime:
                model = Model(runtime)
                for act in script:
                    await model.act(*act)
                for owner in model.kept:
                    await model.act("list", owner, "", 0)
                    await model.act("search", owner, "tea", 0)

        asyncio.run(run())

    check()


def told(model: ScriptedModel) -> list[str]:
    """Everything that requests contained."""
    return [it.text for request in model.requests for it in request.messages]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_the_tools_and_the_injection_of_a_run_are_those_of_its_principal(kind: str) -> None:
    """Whatever a model writes into its arguments, and a client into the context of its run."""

    theirs = [
        user_memory("acme", "bob"),
        user_memory("other", "ann"),
        user_memory(None, "ann"),
        project_memory("other", "p"),
        project_memory("acme", "q"),
    ]
    plugin = MemoryPlugin(MemoryConfig(project="p", collections=("docs",)))

    async def fill(runtime: AgentRuntime) -> list[Fact]:
        found: list[Fact] = []
        for owner in theirs:
            found += await runtime.memory.remember(owner, ["secret tea"], FactSource())
        for tenant, name in (("other", "docs"), ("acme", "more"), (None, "docs")):
            place = knowledge_collection(tenant, name)
            await runtime.knowledge.ingest(place, DocumentDraft(data="secret tea", id="d"))
        return found

    async def run() -> None:
        async with opened_store(kind) as store:
            async with AgentRuntime(store=store) as runtime:
                facts = await fill(runtime)
            calls = [
                ("recall", {"query": "secret tea"}),
                ("recall", {"query": "secret", "user_id": "bob", "tenant_id": "acme"}),
                ("search_knowledge", {"query": "secret tea"}),
                ("search_knowledge", {"query": "secret tea", "collection": "more"}),
                ("search_knowledge", {"query": "tea", "collection": "docs", "tenant": "other"}),
                *(("forget", {"fact_id": it.id}) for it in facts),
            ]
            model = ScriptedModel([*(ToolCalls([call]) for call in calls), "Done."])
            agent = Agent("a", model=model, plugins=[plugin])
            async with AgentRuntime([agent], store=store) as runtime:
                claimed = {"tenant_id": "other", "user_id": "bob", "user": {"id": "bob"}}
                whose = {"tenant_id": "acme", "user_id": "ann"}
                await runtime.run("a", "secret tea?", context=claimed, **whose)
                assert not any("secret tea" in it for it in told(model) if it != "secret tea?")
                for owner, fact in zip(theirs, facts, strict=True):
                    assert await runtime.memory.get(owner, fact.id) == fact

    asyncio.run(run())


FACTS = "/v1/memory/facts"


def test_a_blank_owner_is_never_taken_for_the_caller() -> None:
    async def run() -> None:
        async with AgentRuntime() as runtime:
            app = runtime.asgi(
                config(token("ann", frozenset({Access.READ, Access.INVOKE}), tenant_id="acme"))
            )
            await runtime.memory.remember(user_memory("acme", "ann"), ["tea"], FactSource())
            for query in ("project=", "user_id=", "projectId=&project=", "tenant_id="):
                refused = await ask(app, "DELETE", f"{FACTS}?{query}", headers=bearer("ann"))
                assert refused.status == 400, (query, refused.body)
            found = await ask(app, "GET", FACTS, headers=bearer("ann"))
            assert [it["text"] for it in found.json["items"]] == ["tea"]

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_caller_reaches_its_own_facts_only_over_every_route(kind: str) -> None:
    usual = frozenset({Access.READ, Access.INVOKE, Access.DECIDE})
    settings_ = config(
        token("ann", usual, tenant_id="acme"),
        token("bob", usual, tenant_id="acme"),
        token("eve", usual, tenant_id="other"),
        token("free", usual),
        token("op", frozenset({Access.OPERATE, Access.READ, Access.INVOKE})),
    )

    async def run() -> None:
        async with opened_store(kind) as store, AgentRuntime(store=store) as runtime:
            app = runtime.asgi(settings_)

            async def send(who: str, method: str, path: str, body: Any = None) -> Any:
                return await ask(app, method, path, headers=bearer(who), body=body)

            made = await send("ann", "POST", FACTS, {"text": "secret tea"})
            assert made.status == 201, made.body
            one = f"{FACTS}/{made.json['id']}"
            await send("ann", "POST", f"{FACTS}?project=p", {"text": "shared coffee"})
            for who in ("bob", "eve", "free"):
                for path in (FACTS, f"{FACTS}?query=secret", "/v1/memory/export"):
                    answer = await send(who, "GET", path)
                    assert answer.status == 200
                    assert b"secret" not in answer.body
                assert (await send(who, "GET", one)).status == 404
                assert (await send(who, "PUT", one, {"text": "stolen"})).status == 404
                assert (await send(who, "DELETE", one)).status == 404
                assert (await send(who, "DELETE", FACTS)).json["facts"] == []
                for query in (
                    "user_id=ann",
                    "tenant_id=acme&user_id=ann",
                    "tenantId=acme&userId=ann",
                ):
                    for method, path in (
                        ("GET", FACTS),
                        ("GET", "/v1/memory/export"),
                        ("GET", one),
                        ("DELETE", one),
                        ("DELETE", FACTS),
                    ):
                        refused = await send(who, method, f"{path}?{query}")
                        assert refused.status == 403, (who, method, path, query)
                assert (await send(who, "GET", "/v1/memory/owners")).status == 403
            assert (await send("eve", "GET", f"{FACTS}?project=p")).json["items"] == []
            (seen,) = (await send("bob", "GET", f"{FACTS}?project=p")).json["items"]
            assert seen["text"] == "shared coffee"
            assert (await send("ann", "GET", one)).json["text"] == "secret tea"
            whose = "tenant_id=acme&user_id=ann"
            (found,) = (await send("op", "GET", f"{FACTS}?{whose}")).json["items"]
            assert (found["text"], found["origin"], found["by"]) == ("secret tea", "person", "ann")
            owners = (await send("op", "GET", "/v1/memory/owners?tenant_id=acme")).json["items"]
            assert [(it["name"], it["items"]) for it in owners] == [("ann", 1)]
            exported = await send("ann", "GET", "/v1/memory/export")
            assert [json.loads(it)["text"] for it in exported.body.splitlines()] == ["secret tea"]
            assert (await send("op", "DELETE", f"{one}?{whose}")).json["is_erased"]
            assert (await send("ann", "GET", one)).status == 404

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_documents_of_one_tenant_are_not_there_for_another(kind: str) -> None:
    usual = frozenset({Access.READ, Access.INVOKE, Access.DECIDE})
    settings_ = config(
        token("ann", usual, tenant_id="acme"),
        token("reader", frozenset({Access.READ}), tenant_id="acme"),
        token("eve", usual, tenant_id="other"),
        token("free", usual),
    )

    async def run() -> None:
        async with opened_store(kind) as store, AgentRuntime(store=store) as runtime:
            app = runtime.asgi(settings_)

            async def send(who: str, method: str, path: str, body: Any = None) -> Any:
                return await ask(
                    app, method, f"/v1/knowledge{path}", headers=bearer(who), body=body
                )

            text = {"text": "# Tea\n\nsecret tea", "format": "markdown", "id": "d", "title": "Tea"}
            assert (await send("reader", "POST", "/docs/documents", text)).status == 403
            assert (await send("ann", "POST", "/docs/documents", text)).status == 201
            for who in ("eve", "free"):
                for path in ("", "/docs/documents", "/docs/search?query=secret"):
                    assert (await send(who, "GET", path)).json["items"] == []
                    mark = "&" if "?" in path else "?"
                    assert (await send(who, "GET", f"{path}{mark}tenant_id=acme")).status == 403
                for method in ("GET", "DELETE"):
                    assert (await send(who, method, "/docs/documents/d")).status == 404
            (found,) = (await send("reader", "GET", "/docs/search?query=secrets")).json["items"]
            assert (found["document_id"], found["heading"]) == ("d", "Tea")
            assert (await send("ann", "DELETE", "/docs/documents/d")).json["title"] == "Tea"
            assert (await send("ann", "GET", "/docs/search?query=secret")).json["items"] == []

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("odd", ["\0", "a\0b", "\ud800", "x" * 5_000])
def test_an_id_that_no_store_can_keep_is_that_of_nothing(kind: str, odd: str) -> None:
    async def run() -> None:
        async with opened_store(kind) as store, AgentRuntime(store=store) as runtime:
            ann, docs = user_memory("acme", "ann"), knowledge_collection("acme", "docs")
            memory, knowledge = runtime.memory, runtime.knowledge
            await memory.remember(ann, ["tea"], FactSource())
            for use in (
                memory.get(ann, odd),
                memory.forget(ann, odd),
                memory.edit(ann, odd, "x", by=None),
            ):
                with pytest.raises(UnknownFact):
                    await use
            for use in (knowledge.get(docs, odd), knowledge.delete(docs, odd)):
                with pytest.raises(UnknownDocument):
                    await use
            for use in (
                memory.list_facts(ann, cursor=odd),
                knowledge.list_documents(docs, cursor=odd),
                knowledge.ingest(docs, DocumentDraft(data="tea", id=odd)),
            ):
                with pytest.raises(InvalidInput):
                    await use
            made = await knowledge.ingest(docs, DocumentDraft(data="tea", source=odd))
            assert await knowledge.get(docs, made.id) == made
            for make in (user_memory, project_memory, knowledge_collection):
                for tenant, name in (("acme", odd), (odd, "ann")):
                    if len(odd) < 100:
                        with pytest.raises(InvalidInput):
                            make(tenant, name)

    asyncio.run(run())
