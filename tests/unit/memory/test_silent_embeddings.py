"""An embedding model that is silent, or answers nonsense: words are searched, nobody waits."""

import asyncio
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from awaken import AgentRuntime
from awaken.contracts.memory.engine import KeptItem
from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import FactSource, Partition
from awaken.memory import hybrid
from awaken.memory.hybrid import HybridIndex

FOUND = KeptItem(id="f", group="", position=0, body=b"tea")


class Engine:
    """Finds one item by words."""

    async def search(self, *_: Any) -> Sequence[KeptItem]:
        return (FOUND,)


class Silent:
    """An embedding model that never answers."""

    model = "silent"

    def __init__(self) -> None:
        self.asked = 0

    async def embed(self, _texts: Sequence[str]) -> list[bytes]:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


def test_a_search_goes_on_with_words_and_the_next_ones_do_not_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hybrid, "SEARCH_S", 0.05)

    async def scenario() -> None:
        silent: Any = Silent()
        engine: Any = Engine()
        index = HybridIndex(engine, silent)
        partition = Partition(tenant_id="acme", name="ann")
        for _ in range(3):
            ((item, by_words, by_meaning),) = await index.search(partition, "tea", 5)
            assert (item, by_words, by_meaning) == (FOUND, True, False)
        assert silent.asked == 1
        assert await index.embed(["coffee"], patience_s=0.05) == [None]

    asyncio.run(asyncio.wait_for(scenario(), 60))


class Answering:
    """An embedding model that answers with whatever it is told to."""

    model = "answering"

    def __init__(self) -> None:
        self.answer: Any = None

    async def embed(self, texts: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer] * len(texts) if isinstance(self.answer, bytes) else self.answer

    async def close(self) -> None:
        return None


def floats(*given: float) -> bytes:
    return array("f", given).tobytes()


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("its host was not found"),
        None,
        [],
        b"abcde",
        b"",
        floats(0, 0),
        floats(float("nan"), 1),
        floats(float("inf"), 1),
        floats(1e-30, 0),
    ],
)
def test_nonsense_of_an_embedding_model_harms_no_write_and_no_search(answer: Any) -> None:
    async def scenario() -> None:
        model: Any = Answering()
        ann = Partition(tenant_id="acme", name="ann")
        async with AgentRuntime(embeddings=model) as runtime:
            model.answer = answer
            (fact,) = await runtime.memory.remember(ann, ["Drinks tea"], FactSource())
            (found,) = await runtime.memory.search(ann, "tea")
            assert (found.fact, found.is_lexical, found.is_similar) == (fact, True, False)
            with pytest.raises(EmbeddingFailed):
                await runtime._parts.memory.find().fill_vectors()
            model.answer = floats(1, 0)
            # Nothing of the nonsense was kept, which would be near to whatever is searched for.
            assert await runtime.memory.search(ann, "coffee") == ()

    asyncio.run(asyncio.wait_for(scenario(), 60))
