"""Facts that were written without vectors get them later, in batches that can be stopped."""

import asyncio
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.each_store import NewStore, each_store
from typer.testing import CliRunner

from awaken.bootstrap.memory import engine_of
from awaken.cli.doctor_store import _describe_vectors
from awaken.cli.main import app
from awaken.contracts.memory.access import DocumentDraft
from awaken.contracts.memory.engine import VectorCounts
from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import (
    FactOrigin,
    FactSource,
    FilledVectors,
    knowledge_collection,
    user_memory,
)
from awaken.memory.hybrid import EMBEDDED_AT_ONCE
from awaken.memory.service import MemoryService
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores import MemoryStore

SOURCE = FactSource(origin=FactOrigin.PERSON, by="ann")
ANN, EVE = user_memory("acme", "ann"), user_memory("other", "eve")
DOCS = knowledge_collection(None, "docs")


class Model:
    """An embedding model that can be away, and refuses some texts."""

    model = "toy-2"

    def __init__(self, *, answers: int | None = None, refuses: str = "\0") -> None:
        self.answers, self.refuses = answers, refuses
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        if self.answers == 0 or any(self.refuses in it for it in texts):
            raise EmbeddingFailed(problem="it is away")
        if self.answers is not None:
            self.answers -= 1
        self.texts += texts
        return [array("f", (len(it), 1)).tobytes() for it in texts]

    async def close(self) -> None:
        """It has nothing to close."""


def memory(store: Any, model: Model | None = None) -> MemoryService:
    embedder: Any = model
    return MemoryService(engine_of(store), store, SystemClock(), Uuid7Source(), embedder=embedder)


async def write(store: Any, count: int) -> None:
    plain = memory(store)
    for owner in (ANN, EVE):
        texts = [f"{owner.name} likes number {number}" for number in range(count)]
        await plain.facts.remember(owner, texts, SOURCE)
    await plain.knowledge.ingest(DOCS, DocumentDraft(data="The handbook.", source="h.txt"))


@each_store
def test_what_has_no_vector_gets_one_and_a_second_time_nothing_is_asked(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = new_store(tmp_path)()
        await store.open()
        try:
            await write(store, 3)
            model = Model()
            done = await memory(store, model).fill_vectors()
            assert done == FilledVectors(model="toy-2", filled=7)
            assert len(model.texts) == 7
            assert await memory(store, model).fill_vectors() == FilledVectors(model="toy-2")
            assert len(model.texts) == 7
            counts = await engine_of(store).count_vectors()
            assert (counts.items, dict(counts.vectors)) == (7, {"toy-2": 7})
            found = await memory(store, model).facts.search(ANN, "likes number 1")
            assert all(it.fact.text.startswith("ann") for it in found), "nothing of another tenant"
        finally:
            await store.close()

    asyncio.run(scenario())


@each_store
def test_a_model_that_goes_away_stops_it_and_the_next_call_goes_on(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = new_store(tmp_path)()
        await store.open()
        try:
            await write(store, EMBEDDED_AT_ONCE)
            with pytest.raises(EmbeddingFailed, match="away"):
                await memory(store, Model(answers=1)).fill_vectors()
            counts = await engine_of(store).count_vectors()
            assert dict(counts.vectors) == {"toy-2": EMBEDDED_AT_ONCE}, "the first batch is kept"
            model = Model()
            done = await memory(store, model).fill_vectors(limit=10)
            assert (done.filled, done.skipped) == (10, 0)
            done = await memory(store, model).fill_vectors()
            assert done.filled == EMBEDDED_AT_ONCE + 1 - 10
        finally:
            await store.close()

    asyncio.run(scenario())


def test_a_text_that_the_model_refuses_holds_up_no_other() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await write(store, 3)
        done = await memory(store, Model(refuses="number 1")).fill_vectors()
        assert (done.filled, done.skipped) == (5, 2)

    asyncio.run(scenario())


def test_without_a_model_nothing_can_be_filled() -> None:
    async def scenario() -> None:
        with pytest.raises(EmbeddingFailed, match="embeddings"):
            await memory(MemoryStore()).fill_vectors()

    asyncio.run(scenario())


APP = """
from array import array
from awaken import Agent, AgentRuntime
from awaken.testing import ScriptedModel

class Model:
    model = "toy-2"
    async def embed(self, texts):
        return [array("f", (len(it), 1)).tobytes() for it in texts]
    async def close(self):
        pass

runtime = AgentRuntime([Agent("a", model=ScriptedModel(["hi"]))], embeddings=Model())
"""


def test_the_command_fills_the_store_that_it_is_given(tmp_path: Path) -> None:
    file, url = tmp_path / "app.py", f"sqlite:///{tmp_path / 'm.db'}"
    file.write_text(APP, encoding="utf-8")
    runner = CliRunner()
    for text in ("likes tea", "likes milk"):
        added = runner.invoke(app, ["memory", "add", text, "--user", "ann", "--store", url])
        assert added.exit_code == 0, added.output
    command = ["memory", "reindex", "--app", str(file), "--store", url]
    first, again = runner.invoke(app, command), runner.invoke(app, [*command, "--json"])
    assert (first.exit_code, again.exit_code) == (0, 0), f"{first.output} {first.exception!r}"
    assert "Filled: 2 vectors of toy-2" in first.output
    assert '"filled": 0' in again.output or '"filled":0' in again.output


def test_the_doctor_says_how_many_have_no_vector() -> None:
    assert _describe_vectors(VectorCounts(items=9)).remedy == "", "no model was ever used"
    assert _describe_vectors(VectorCounts(items=9, vectors={"m": 9})).remedy == ""
    some = _describe_vectors(VectorCounts(items=9, vectors={"m": 4}))
    assert "5 of 9" in some.detail
    assert "reindex" in str(some.remedy)
    two = _describe_vectors(VectorCounts(items=9, vectors={"m": 4, "old": 5}))
    assert "m (4), old (5)" in two.detail
