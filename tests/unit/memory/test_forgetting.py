"""Forgetting leaves no byte in the memory tables, and lists transcripts that hold it."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest
from tests.postgres.server import server
from tests.postgres.stores import opened

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.store import (
    EvalObjectSource,
    ObjectKind,
    encode_eval_object,
    open_eval_store,
)
from awaken.errors import InvalidInput, UnknownFact
from awaken.extensions.memory import (
    DocumentDraft,
    DocumentFormat,
    FactSource,
    MemoryLimits,
    MemoryPlugin,
    knowledge_collection,
    user_memory,
)
from awaken.stores import SqliteStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.connection import connect_direct
from awaken.stores.postgres.rewriting import TRIES, rewrite_tables
from awaken.testing import ScriptedModel, ToolCalls

ANN = user_memory("acme", "ann")
SOURCE = FactSource()


def words(chance: random.Random) -> str:
    """A word that no other has, however an index shortens words that begin alike."""
    return "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(12))


def count_in_files(folder: Path, text: str) -> int:
    return sum(it.read_bytes().count(text.encode()) for it in folder.glob("*.db*"))


def test_a_forgotten_fact_is_in_no_byte_of_the_sqlite_file_and_its_log(tmp_path: Path) -> None:
    chance = random.Random(7)
    marks = [words(chance) for _ in range(150)]

    async def run() -> None:
        async with AgentRuntime(store=f"sqlite:///{tmp_path}/a.db") as runtime:
            facts = []
            for mark in marks:
                text = f"{mark} " + " ".join(words(chance) for _ in range(chance.randrange(30)))
                facts += await runtime.memory.remember(ANN, [text], SOURCE)
            gone, kept = facts[::15], [it for it in facts if it not in facts[::15]]
            assert all(count_in_files(tmp_path, it.text.split()[0]) for it in facts)
            edited = kept[0]
            await runtime.memory.edit(ANN, edited.id, "something else", by="ann")
            for fact in gone:
                forgotten = await runtime.memory.forget(ANN, fact.id)
                assert forgotten.is_erased
            left = [
                word
                for it in (*gone, edited)
                for word in it.text.split()
                if count_in_files(tmp_path, word)
            ]
            assert left == []
            assert all(count_in_files(tmp_path, it.text.split()[0]) for it in kept[1:])

    asyncio.run(run())


def test_a_forgotten_user_is_in_no_byte_of_the_sqlite_file(tmp_path: Path) -> None:
    async def run() -> None:
        async with AgentRuntime(store=f"sqlite:///{tmp_path}/a.db") as runtime:
            owner = user_memory("acme", "zvoltrixenberg")
            await runtime.memory.remember(owner, ["drinks quervolantine", "keeps bees"], SOURCE)
            assert count_in_files(tmp_path, "zvoltrixenberg")
            assert len((await runtime.memory.forget_all(owner)).facts) == 2
            assert not count_in_files(tmp_path, "zvoltrixenberg")
            assert not count_in_files(tmp_path, "quervolantine")

    asyncio.run(run())


def test_a_replaced_document_is_in_no_byte_of_the_sqlite_file(tmp_path: Path) -> None:
    docs = knowledge_collection(None, "docs")

    def draft(text: str) -> DocumentDraft:
        return DocumentDraft(data=text, format=DocumentFormat.MARKDOWN, id="one")

    async def run() -> None:
        async with AgentRuntime(store=f"sqlite:///{tmp_path}/a.db") as runtime:
            await runtime.knowledge.ingest(docs, draft("# Title\n\nthe quervolantine clause"))
            assert count_in_files(tmp_path, "quervolantine")
            await runtime.knowledge.ingest(docs, draft("# Title\n\nthe other clause"))
            assert not count_in_files(tmp_path, "quervolantine")
            assert await runtime.knowledge.search(docs, "quervolantine") == ()
            assert len(await runtime.knowledge.search(docs, "clauses")) == 1

    asyncio.run(run())


async def read_tables(store: PostgresStore) -> bytes:
    """The files of the memory tables and of their indexes."""
    folder = Path((await server().sql("SHOW data_directory"))[0][0])
    while True:
        paths = await _list_files(store)
        await server().sql("CHECKPOINT")
        with suppress(FileNotFoundError):
            found = b"\0".join((folder / path).read_bytes() for path in paths)
            # The sweeper may write a table anew meanwhile, which empties or removes its old file.
            if await _list_files(store) == paths:
                return found


async def _list_files(store: PostgresStore) -> list[str]:
    rows = await server().sql(
        "SELECT pg_relation_filepath(c.oid) FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname LIKE 'memory%'"
        " AND c.relkind IN ('r', 'i') ORDER BY c.oid",
        store.database._server.schema,
    )
    return [row[0] for row in rows]


def test_what_a_killed_process_deleted_is_erased_by_another(tmp_path: Path) -> None:
    async def run() -> None:
        url = f"sqlite:///{tmp_path}/a.db"
        async with AgentRuntime(store=url) as runtime:
            (fact,) = await runtime.memory.remember(ANN, ["drinks quervolantine"], SOURCE)
        # It is killed before it erases what it has deleted; nothing else erases meanwhile.
        store = SqliteStore(tmp_path / "a.db")
        await store.open()
        await store.open_memory().delete(ANN, [fact.id])
        await store.close()
        assert count_in_files(tmp_path, "quervolantine")
        async with AgentRuntime(store=url) as runtime:
            service = runtime._parts.memory.find()
            assert await service.engine.needs_erasure()
            await service.delete_expired()
            assert not await service.engine.needs_erasure()
        assert not count_in_files(tmp_path, "quervolantine")

    asyncio.run(run())


def test_postgres_says_so_if_an_open_transaction_keeps_the_bytes() -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store, AgentRuntime(store=store) as runtime:
            (fact,) = await runtime.memory.remember(ANN, ["drinks quervolantine"], SOURCE)
            # A backup, say: it reads other tables, and could still read this one as it was.
            backup = await connect_direct(store.database._server)
            await backup.execute("SET idle_in_transaction_session_timeout = 0")
            await backup.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await backup.execute("SELECT 1 FROM threads")
            assert not (await runtime.memory.forget(ANN, fact.id)).is_erased
            service = runtime._parts.memory.find()
            assert await service.engine.needs_erasure()
            await backup.execute("COMMIT")
            backup.terminate()
            await service.delete_expired()
            assert not await service.engine.needs_erasure()
            assert b"quervolantine" not in await read_tables(store)

    asyncio.run(run())


def test_others_search_and_write_while_postgres_waits_for_a_table() -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store, AgentRuntime(store=store) as runtime:
            bob = user_memory("acme", "bob")
            (fact,) = await runtime.memory.remember(ANN, ["drinks quervolantine"], SOURCE)
            await runtime.memory.remember(bob, ["drinks tea"], SOURCE)
            reader = await connect_direct(store.database._server)
            await reader.execute("SET idle_in_transaction_session_timeout = 0")
            await reader.execute("BEGIN; LOCK TABLE memory_items IN ACCESS SHARE MODE")
            forgetting = asyncio.create_task(runtime.memory.forget(ANN, fact.id))
            served = 0
            while not forgetting.done():
                await runtime.memory.remember(bob, [f"likes number {served}"], SOURCE)
                assert await runtime.memory.search(bob, "tea")
                served += not forgetting.done()
                await asyncio.sleep(0)
            # Between two tries of the rewrite others get the table; they wait for one try only.
            assert served >= TRIES
            assert not (await forgetting).is_erased
            await reader.execute("COMMIT")
            reader.terminate()
            await runtime._parts.memory.find().delete_expired()
            assert b"quervolantine" not in await read_tables(store)

    asyncio.run(run())


def test_the_rewrite_of_a_large_table_is_given_up() -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store, AgentRuntime(store=store) as runtime:
            await runtime.memory.remember(ANN, ["drinks tea"], SOURCE)
            server_of = store.database._server
            assert not await rewrite_tables(server_of, ["memory_items"], rewrite_ms=1)
            assert await rewrite_tables(server_of, ["memory_items"])
            assert await runtime.memory.search(ANN, "tea")

    asyncio.run(run())


def test_a_forgotten_fact_is_in_no_byte_of_the_postgres_tables() -> None:
    async def run() -> None:
        async with opened(connect_timeout_ms=30_000) as store, AgentRuntime(store=store) as runtime:
            gone, kept = await runtime.memory.remember(
                ANN, ["drinks quervolantine", "keeps bromeliads"], SOURCE
            )
            assert b"quervolantine" in await read_tables(store)
            assert (await runtime.memory.forget(ANN, gone.id)).is_erased
            found = await read_tables(store)
            assert b"quervolantine" not in found
            assert b"bromeliads" in found
            assert await runtime.memory.get(ANN, kept.id) == kept

    asyncio.run(run())


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/a.db"])
def test_forgetting_lists_the_transcripts_that_still_hold_the_text(
    url: str, tmp_path: Path
) -> None:
    model = ScriptedModel(
        [
            ToolCalls([("remember", {"fact": "Ann drinks quervolantine"})]),
            "Noted.",
            "You said: Ann drinks quervolantine.",
            "Hello.",
            "Someone else's Ann drinks quervolantine.",
        ]
    )

    async def run() -> None:
        agent = Agent("a", model=model, plugins=[MemoryPlugin()])
        async with AgentRuntime([agent], store=url.format(tmp_path)) as runtime:
            whose = {"tenant_id": "acme", "user_id": "ann"}
            first = await runtime.run("a", "Note this.", thread_id="first", **whose)
            await runtime.run("a", "What did I say?", thread_id="second", **whose)
            await runtime.run("a", "Hi.", thread_id="third", **whose)
            await runtime.run("a", "Hi.", thread_id="fourth", tenant_id="other", user_id="ann")
            await keep_cases(runtime, "@acme:first", "first", "@other:second")
            (fact,) = (await runtime.memory.list_facts(ANN)).items
            gone = await runtime.memory.forget(ANN, fact.id)
            held = {it.thread_id: it for it in gone.transcripts}
            assert sorted(held) == ["first", "second"]
            # Cases that were made from a conversation are counted with it, and no one else's.
            assert [held[it].eval_objects for it in ("first", "second")] == [1, 0]
            assert held["first"].run_id == first.run_id
            assert all(it.message_ids for it in held.values())
            assert gone.is_search_complete
            with pytest.raises(UnknownFact):
                await runtime.memory.forget(ANN, fact.id)

    asyncio.run(run())


async def keep_cases(runtime: AgentRuntime, *thread_ids: str) -> None:
    """Keep an object of evals for each thread."""
    evals = open_eval_store(runtime.store)
    for thread_id in thread_ids:
        name, body = encode_eval_object({"of": thread_id})
        source = EvalObjectSource(hash=name, kind=ObjectKind.CASE, thread_id=thread_id)
        await evals.put_eval_objects({name: body}, [source])


def test_cases_of_deleted_conversations_are_counted_and_no_more_than_a_search_looks_at() -> None:
    async def run() -> None:
        async with AgentRuntime(memory_limits=MemoryLimits(searched_threads=1)) as runtime:
            await keep_cases(runtime, "@acme:first", "@acme:second")
            for name in ("first", "second"):
                source = FactSource(thread_id=f"@acme:{name}")
                await runtime.memory.remember(ANN, [f"Said in {name}"], source)
            held = (await runtime.memory.forget_all(ANN)).transcripts
            found = [(it.thread_id, it.eval_objects) for it in held]
            assert found == [("first", 1), ("second", None)]

    asyncio.run(run())


def test_a_user_who_forgets_learns_nothing_of_transcripts_of_others() -> None:
    told_bob: list[str] = []

    async def run() -> None:
        model = ScriptedModel(
            [
                "Your code word is quervolantine.",
                ToolCalls([("remember", {"fact": "quervolantine"})]),
                "Noted.",
                lambda _: ToolCalls([("forget", {"fact_id": told_bob[0]})]),
                "Forgotten.",
            ]
        )
        agent = Agent("a", model=model, plugins=[MemoryPlugin()])
        async with AgentRuntime([agent]) as runtime:
            bob = user_memory("acme", "bob")
            ask = {"tenant_id": "acme"}
            await runtime.run("a", "My code word?", thread_id="of-ann", user_id="ann", **ask)
            await runtime.run("a", "Note it.", thread_id="of-bob", user_id="bob", **ask)
            told_bob.append((await runtime.memory.list_facts(bob)).items[0].id)
            await runtime.run("a", "Forget it.", thread_id="of-bob", user_id="bob", **ask)
            answered = model.requests[-1].messages[-1].text
            assert "of-bob" in answered
            assert "of-ann" not in answered
            # The host of the application, who may read all of them, is told of both.
            (fact,) = await runtime.memory.remember(bob, ["quervolantine"], SOURCE)
            held = (await runtime.memory.forget(bob, fact.id)).transcripts
            assert sorted(it.thread_id for it in held) == ["of-ann", "of-bob"]

    asyncio.run(run())


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/a.db"])
def test_facts_that_are_forgotten_meanwhile_end_no_export(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with AgentRuntime(store=url.format(tmp_path)) as runtime:
            facts = await runtime.memory.remember(ANN, [f"fact {n}" for n in range(6)], SOURCE)
            exported = []
            async for fact in runtime.memory.export(ANN):
                exported.append(fact)
                if len(exported) == 2:
                    await runtime.memory.forget(ANN, fact.id)
            assert exported == list(facts)
            page = await runtime.memory.list_facts(ANN, limit=2)
            await runtime.memory.forget(ANN, page.items[-1].id)
            with pytest.raises(InvalidInput, match="list again"):
                await runtime.memory.list_facts(ANN, cursor=page.next_cursor, limit=2)

    asyncio.run(run())
