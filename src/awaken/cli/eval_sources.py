"""What evals are named by on the command line: a folder or a file, else an id in a store."""

import asyncio
from pathlib import Path

from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.errors import UnknownDataset
from awaken.contracts.evals.store import open_eval_store
from awaken.contracts.storage.store import Store
from awaken.evals.datasets import Datasets
from awaken.evals.evaluating import Dataset, EvalResult
from awaken.evals.reports import read_result
from awaken.evals.results import EvalFigures, load_compared
from awaken.runtime.primitives.system import SystemClock

from .stores import check_exists, store_at


def read_dataset(folder: Path) -> Dataset:
    """Read a dataset from a folder.

    Raises:
        InvalidInput: There is no such folder.
        InvalidDataset: It is broken.
    """
    if not folder.is_dir():
        raise InvalidInput(what="DIR", problem=f"there is no folder '{folder}'")
    return Dataset.load(folder)


def load_dataset(name: str, named: Store | str | None) -> Dataset:
    """Load a dataset from a folder, else from a store.

    Raises:
        InvalidInput: There is neither such a folder nor a store to look into.
        UnknownDataset: There is no such folder, and the store has no such dataset.
        InvalidDataset: It is broken.
    """
    if Path(name).is_dir():
        return read_dataset(Path(name))
    try:
        store = store_at(named)
    except InvalidInput as error:
        problem = f"there is no folder '{name}', and no store is named that could have a dataset"
        raise InvalidInput(what="DATASET", problem=problem) from error
    return asyncio.run(_load_stored_dataset(store, name))


async def _load_stored_dataset(store: Store, name: str) -> Dataset:
    await check_exists(store)
    await store.open()
    try:
        datasets = Datasets(open_eval_store(store), SystemClock(), tenant_id=None, by="operator")
        loaded = await datasets.load(name)
        recordings = await datasets.load_recordings(loaded.cases)
    except UnknownDataset as error:
        raise UnknownDataset(dataset_id=name, detail=", and no folder of this name") from error
    finally:
        await store.close()
    document = loaded.document
    return Dataset(
        cases=document.cases,
        id=name,
        scorers=document.scorers,
        gate=document.gate,
        recordings=recordings,
    )


def load_result(name: str, named: Store | str | None) -> EvalResult:
    """Load the results of an eval from a file, else from a store.

    Raises:
        InvalidInput: There is neither such a file nor a store to look into.
        UnknownEval: There is no such file, and the store has no such eval.
    """
    path = Path(name)
    if path.is_file():
        try:
            return read_result(path.read_bytes(), f"file {name}")
        except OSError as error:
            raise InvalidInput(what=name, problem=error.strerror or str(error)) from error
    try:
        store = store_at(named)
    except InvalidInput as error:
        problem = "there is no such file, and no store is named that could have an eval of this id"
        raise InvalidInput(what=f"'{name}'", problem=problem) from error
    return asyncio.run(_load_stored_result(store, name))


async def _load_stored_result(store: Store, name: str) -> EvalResult:
    await check_exists(store)
    await store.open()
    try:
        found = await load_compared(open_eval_store(store), name)
    finally:
        await store.close()
    return EvalResult(
        record=found.record,
        items=tuple(found.items),
        figures=EvalFigures(),
        hashes=dict(found.hashes),
    )
