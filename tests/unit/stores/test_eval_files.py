"""Evals in a SQLite file: they outlive the process, damage is found, and many cases stay quick."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.evals.cases import Case, Expectation
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, EvalSpec, ItemStatus
from awaken.contracts.evals.scores import Score, ScoreSource, StoredScore
from awaken.contracts.evals.store import encode_eval_object
from awaken.evals.dataset_writes import DatasetChange, DatasetDocument
from awaken.evals.datasets import Datasets
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock

MANY = 10_000


def on_file(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SqliteStore(path / "store.db")
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


def make_case(no: int) -> Case:
    return Case(id=f"c{no:05}", user_input=f"Input {no}", expect=Expectation())


async def fill(store: SqliteStore) -> None:
    evals = store.open_evals()
    await Datasets(evals, FakeClock()).create("set", DatasetDocument(cases=(make_case(1),)))
    await evals.create_eval(EvalRecord(eval_id="e", spec=EvalSpec(dataset_id="set"), revision=1))
    item = EvalItem(number=0, case_id="c", variant="v", sample=0, status=ItemStatus.SCORED)
    await evals.put_eval_item("e", item)
    score = Score(name="exact", value=0.5)
    await evals.add_scores(
        [StoredScore(run_id="r", scorer="exact", source=ScoreSource.HUMAN, at=1, score=score)]
    )


def test_a_check_reads_every_record_of_evals_and_names_damage(tmp_path: Path) -> None:
    on_file(tmp_path, fill)
    found = asyncio.run(SqliteStore(tmp_path / "store.db").check())
    assert found.problems == ()
    kinds = ("eval_objects", "dataset_revisions", "evals", "eval_items", "scores")
    assert [found.records[it] for it in kinds] == [1] * len(kinds)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as file:
        for table in ("eval_datasets", "eval_runs", "eval_items", "scores"):
            file.execute(f"UPDATE {table} SET record = zeroblob(40)")
        other, _ = encode_eval_object("other")
        file.execute("UPDATE eval_objects SET hash = ?", (bytes.fromhex(other),))
    problems = asyncio.run(SqliteStore(tmp_path / "store.db").check()).problems
    assert len(problems) == len(kinds), problems

    async def load(store: SqliteStore) -> None:
        with pytest.raises(CorruptRecord, match="its hash is not that of its bytes"):
            await store.open_evals().load_eval_objects([other])

    on_file(tmp_path, load)


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    on_file(tmp_path, fill)

    async def read(store: SqliteStore) -> None:
        loaded = await Datasets(store.open_evals(), FakeClock()).load("set")
        assert loaded.cases == (make_case(1),)
        assert len(await store.open_evals().list_eval_items("e")) == 1

    on_file(tmp_path, read)


def test_ten_thousand_cases_are_kept_changed_and_listed(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        datasets = Datasets(store.open_evals(), FakeClock())
        cases = tuple(make_case(no) for no in range(MANY))
        await datasets.create("set", DatasetDocument(cases=cases))
        changed = await datasets.change("set", DatasetChange(remove=("c00000",)))
        assert changed.revision.case_count == MANY - 1
        (listed,) = await datasets.list_datasets()
        assert (listed.case_count, listed.cases) == (MANY - 1, ())
        assert (await datasets.load("set")).cases == cases[1:]

    on_file(tmp_path, work)
