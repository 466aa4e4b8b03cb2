"""An embedding model that does not answer: words are searched, and nobody waits for long."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from awaken.contracts.memory.engine import KeptItem
from awaken.contracts.memory.records import Partition
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
