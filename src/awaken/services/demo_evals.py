"""Demo data of evals: a dataset and evals of it that have ended, of which nothing ever ran."""

from contextlib import suppress

import msgspec

from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.errors import DatasetConflict, EvalExists
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord
from awaken.contracts.evals.store import EvalStore


class DemoEval(msgspec.Struct, frozen=True, kw_only=True):
    """An eval that has ended, with its items."""

    record: EvalRecord
    items: tuple[EvalItem, ...]


class DemoEvals(msgspec.Struct, frozen=True, kw_only=True):
    """The dataset of the demo data, the objects of its cases, and its evals, oldest first."""

    dataset: DatasetRevision
    objects: dict[str, bytes]
    evals: tuple[DemoEval, ...]


async def write_evals(store: EvalStore, demo: DemoEvals) -> None:
    """Write the dataset and its evals; what is there already stays as it is.

    A dataset of a client that has the same name stays too, and then nothing is written.
    """
    found = await store.load_dataset(demo.dataset.dataset_id)
    if found is not None and not found.is_demo:
        return
    await store.put_eval_objects(demo.objects)
    # It may have been made before, by a call that did not come to the evals.
    with suppress(DatasetConflict):
        await store.save_dataset(demo.dataset, 0)
    for it in demo.evals:
        try:
            await store.create_eval(it.record)
        except EvalExists:
            found_eval = await store.load_eval(it.record.eval_id)
            if found_eval is None or not found_eval.is_demo:
                continue
        for item in it.items:
            await store.put_eval_item(it.record.eval_id, item)


async def remove_evals(store: EvalStore, demo: DemoEvals) -> None:
    """Remove the evals and the dataset of the demo data, and its cases that no other has."""
    for it in demo.evals:
        record = await store.load_eval(it.record.eval_id)
        if record is not None and record.is_demo:
            await store.delete_eval(record.eval_id)
    dataset = await store.load_dataset(demo.dataset.dataset_id)
    if dataset is None or not dataset.is_demo:
        return
    await store.delete_dataset(dataset.dataset_id)
    await store.delete_eval_objects(await _find_unused(store, set(demo.objects)))


async def _find_unused(store: EvalStore, hashes: set[str]) -> list[str]:
    """Return the objects that no revision of a dataset names: equal cases are one object."""
    left, after = set(hashes), ""
    while left and (page := await store.list_datasets(after=after)):
        after = page[-1].dataset_id
        for it in page:
            for no in range(1, it.revision + 1):
                revision = await store.load_dataset(it.dataset_id, no)
                left -= {case.hash for case in revision.cases} if revision else set()
    return sorted(left)
