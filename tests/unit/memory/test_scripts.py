"""Words of every script are found in every engine, whatever ends the line before them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.stores import opened

from awaken import AgentRuntime
from awaken.extensions.memory import FactSource, user_memory

ANN = user_memory("acme", "ann")
KEPT_AND_ASKED = [
    ("私は猫が好き", "猫"),
    ("我喜欢茶", "茶"),
    ("차를 좋아한다", "차"),
    ("東京都に住む", "京都"),
    ("हिन्दी बोलता है", "हिन्दी"),
    ("🎉 on the day of the launch", "🎉"),
    ("مرحبا بالعالم", "مرحبا"),
    ("چای می\u200cخواهم", "می\u200cخواهم"),  # noqa: RUF001
    ("Donau\u00addampf\u00adschiff", "Donaudampf\u00adschiff"),
    ("the first page\x0cespresso", "espresso"),
    ("one line\u2028espresso", "espresso"),
    ("one line\x85espresso", "espresso"),
]


async def find_each(**options: Any) -> None:
    async with AgentRuntime(**options) as runtime:
        texts = [kept for kept, _ in KEPT_AND_ASKED]
        facts = await runtime.memory.remember(ANN, texts, FactSource())
        for fact, (_, asked) in zip(facts, KEPT_AND_ASKED, strict=True):
            found = await runtime.memory.search(ANN, asked)
            assert fact.id in [it.fact.id for it in found], asked
        assert await runtime.memory.search(ANN, "鳥 हाथ 🌱") == ()


async def in_sqlite(folder: Path) -> None:
    await find_each(store=f"sqlite:///{folder}/a.db")


async def in_memory(_: Path) -> None:
    await find_each()


async def in_postgres(_: Path) -> None:
    async with opened(connect_timeout_ms=30_000) as store:
        await find_each(store=store)


@pytest.mark.parametrize("find", [in_memory, in_sqlite, in_postgres])
def test_a_word_of_any_script_is_found(find: Callable[[Path], Any], tmp_path: Path) -> None:
    asyncio.run(find(tmp_path))
