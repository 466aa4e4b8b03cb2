"""Datasets, evals and scores: revisions in order, items written once, objects by their hashes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.evals.cases import Case, CaseEntry, CaseStatus, DatasetRevision
from awaken.contracts.evals.errors import DatasetConflict, EvalExists, UnknownEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, EvalSpec, EvalStatus, ItemStatus
from awaken.contracts.evals.scores import Score, ScorerSpec, ScoreSource, StoredScore
from awaken.contracts.evals.store import (
    EvalObjectSource,
    EvalQuery,
    EvalStore,
    ObjectKind,
    ScoreQuery,
    SourceQuery,
    encode_eval_object,
)

from .writing import refusal

EvalCheck = Callable[[EvalStore], Coroutine[Any, Any, None]]
_REFUSED = 5
_MANY = 200
_PAGED = 7


def _revision(revision: int = 1, dataset_id: str = "refunds", **more: Any) -> DatasetRevision:
    return DatasetRevision(dataset_id=dataset_id, revision=revision, **more)


def _entry(case_id: str = "first") -> CaseEntry:
    name, _ = encode_eval_object(Case(id=case_id, user_input="Hello"))
    return CaseEntry(
        id=case_id, hash=name, tags=("a", "b"), split="dev", status=CaseStatus.DRAFT,
        input_digest="d",
    )  # fmt: skip


def _eval(eval_id: str = "e1", dataset_id: str = "refunds", **more: Any) -> EvalRecord:
    return EvalRecord(eval_id=eval_id, spec=EvalSpec(dataset_id=dataset_id), revision=1, **more)


def _item(number: int = 0, **more: Any) -> EvalItem:
    fields: dict[str, Any] = {"case_id": "first", "variant": "default", "sample": 0}
    return EvalItem(number=number, status=ItemStatus.SCORED, **(fields | more))


def _score(run_id: str = "r1", value: float | None = 1.0, **more: Any) -> StoredScore:
    fields: dict[str, Any] = {"scorer": "exact", "source": ScoreSource.HUMAN, "at": 10}
    fields |= {"score": Score(name="exact", value=value)} | more
    return StoredScore(run_id=run_id, **fields)


def _whole(revision: DatasetRevision) -> DatasetRevision:
    """A revision as the store returns it."""
    return msgspec.structs.replace(revision, case_count=len(revision.cases))


def _listed(revision: DatasetRevision) -> DatasetRevision:
    return msgspec.structs.replace(_whole(revision), cases=())


async def eval_objects_are_kept_under_the_hash_of_their_bytes(store: EvalStore) -> None:
    """Those that are there are left alone; unknown ones are left out of the answer."""
    large = b'"' + b"ab" * 600_000 + b'"'
    objects = dict([encode_eval_object("small"), encode_eval_object({"b": 1, "a": [2]})])
    name, body = encode_eval_object(large.decode())
    objects[name] = body
    await store.put_eval_objects(objects)
    await store.put_eval_objects(objects)
    assert await store.load_eval_objects([*objects, *objects, "00" * 32, "no hash"]) == objects
    assert await store.load_eval_objects([]) == {}


async def equal_values_are_one_object(store: EvalStore) -> None:
    """The order of keys does not count."""
    first, second = encode_eval_object({"a": 1, "b": 2}), encode_eval_object({"b": 2, "a": 1})
    assert first == second
    await store.put_eval_objects(dict([first]))
    assert await store.load_eval_objects([second[0]]) == dict([first])


async def bytes_under_another_hash_are_refused(store: EvalStore) -> None:
    """The good ones beside them are not written either."""
    name, body = encode_eval_object("good")
    other, _ = encode_eval_object("other")
    await refusal(InvalidRecord, store.put_eval_objects({name: body, other: b"bad"}))
    lonely = EvalObjectSource(hash=other, kind=ObjectKind.CASE, thread_id="t")
    await refusal(InvalidRecord, store.put_eval_objects({name: body}, [lonely]))
    assert await store.load_eval_objects([name, other]) == {}
    assert await store.list_eval_sources(SourceQuery(thread_id="t")) == ()


async def many_eval_objects_are_loaded_at_once(store: EvalStore) -> None:
    """More than one statement takes."""
    objects = dict(encode_eval_object(f"case {no}") for no in range(_MANY))
    await store.put_eval_objects(objects)
    assert await store.load_eval_objects([*objects, "11" * 32]) == objects


async def objects_are_listed_by_hash_page_by_page(store: EvalStore) -> None:
    """Each once, also those that were written again; those that were deleted are not listed."""
    objects = dict(encode_eval_object({"n": number}) for number in range(_PAGED))
    await store.put_eval_objects(objects)
    await store.put_eval_objects(dict(list(objects.items())[:2]))
    found, after = list[str](), ""
    while page := await store.list_eval_objects(after=after, limit=3):
        found += page
        after = page[-1]
    assert found == sorted(objects)
    await store.delete_eval_objects(found[:1])
    assert await store.list_eval_objects() == tuple(found[1:])


async def objects_are_found_by_their_thread_and_user(store: EvalStore) -> None:
    """A user is one of its tenant; pages go on after a hash."""
    objects = dict(encode_eval_object(no) for no in range(4))
    a, b, c, d = objects
    sources = [
        EvalObjectSource(hash=a, kind=ObjectKind.CASE, thread_id="t1"),
        EvalObjectSource(hash=b, kind=ObjectKind.RECORDING, thread_id="t1", user_id="u"),
        EvalObjectSource(
            hash=c, kind=ObjectKind.RECORDING, thread_id="t2", user_id="u", tenant_id="ann"
        ),
    ]
    await store.put_eval_objects(objects, sources)
    await store.put_eval_objects(objects, sources)

    async def find(**asked: Any) -> set[str]:
        return {it.hash for it in await store.list_eval_sources(SourceQuery(**asked))}

    assert await find(thread_id="t1") == {a, b}
    assert await find(thread_id="t1", user_id="u") == {b}
    assert await find(user_id="u") == {b}
    assert await find(user_id="u", tenant_id="ann") == {c}
    assert await find(thread_id="t3") == set()
    (found,) = await store.list_eval_sources(SourceQuery(thread_id="t2"))
    assert found == sources[2]
    low, high = sorted((a, b))
    assert await find(thread_id="t1", limit=1) == {low}
    assert await find(thread_id="t1", after=low) == {high}
    assert d in await store.load_eval_objects([d])
    await refusal(InvalidRecord, store.list_eval_sources(SourceQuery(tenant_id="ann")))


async def deleted_objects_are_gone_with_their_sources(store: EvalStore) -> None:
    """Others stay; what is not there is not counted."""
    objects = dict(encode_eval_object(no) for no in range(3))
    a, b, c = objects
    sources = [EvalObjectSource(hash=it, kind=ObjectKind.CASE, thread_id="t") for it in (a, b)]
    await store.put_eval_objects(objects, sources)
    assert await store.delete_eval_objects([a, a, c, "00" * 32]) == 2
    assert set(await store.load_eval_objects([a, b, c])) == {b}
    assert [it.hash for it in await store.list_eval_sources(SourceQuery(thread_id="t"))] == [b]
    assert await store.delete_eval_objects([a]) == 0


async def a_dataset_comes_back_as_it_was(store: EvalStore) -> None:
    """The newest one unless another is asked for; an unknown one is None."""
    first = _revision(
        cases=(_entry("a"), _entry("b")),
        description="Refunds",
        scorers=(ScorerSpec(scorer="exact"),),
        gate={"require": [{"scorer": "exact"}]},
        at=5,
        by="ann",
    )
    second = _revision(2, cases=(_entry("a"),))
    await store.save_dataset(first, 0)
    await store.save_dataset(second, 1)
    assert await store.load_dataset("refunds") == _whole(second)
    assert await store.load_dataset("refunds", 1) == _whole(first)
    for absent in (0, 3, -1):
        assert await store.load_dataset("refunds", absent) is None
    assert await store.load_dataset("other") is None
    assert await store.load_dataset("other", 1) is None


async def a_revision_follows_the_expected_one(store: EvalStore) -> None:
    """Anything else is a conflict or an error, and nothing is written."""
    await store.save_dataset(_revision(), 0)
    for expected, revision in ((0, 1), (2, 3), (5, 6)):
        error = await refusal(DatasetConflict, store.save_dataset(_revision(revision), expected))
        assert (error.dataset_id, error.expected, error.actual) == ("refunds", expected, 1)
    await refusal(InvalidRecord, store.save_dataset(_revision(3), 1))
    await refusal(DatasetConflict, store.save_dataset(_revision(1, "other", by="x"), 3))
    assert [it.revision for it in await store.list_dataset_revisions("refunds")] == [1]
    assert await store.load_dataset("other") is None


async def one_of_many_writers_gets_the_next_revision(store: EvalStore) -> None:
    """The others learn which revision there is."""
    writes = [store.save_dataset(_revision(by=str(no)), 0) for no in range(_REFUSED + 1)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    errors = [it for it in results if it is not None]
    assert len(errors) == _REFUSED
    assert all(isinstance(it, DatasetConflict) and it.actual == 1 for it in errors), errors
    assert len(await store.list_dataset_revisions("refunds")) == 1


async def datasets_are_listed_by_id_in_their_newest_revision(store: EvalStore) -> None:
    """Without cases, of a tenant or of all, page by page; deleted ones are left out."""
    newest = _revision(2, "b", cases=(_entry(),), description="new")
    await store.save_dataset(_revision(1, "b"), 0)
    await store.save_dataset(newest, 1)
    await store.save_dataset(_revision(1, "@ann:b", tenant_id="ann"), 0)
    await store.save_dataset(_revision(1, "c"), 0)
    await store.save_dataset(_revision(2, "c", is_deleted=True), 1)
    await store.save_dataset(_revision(1, "B"), 0)

    async def find(*asked: Any, **more: Any) -> list[str]:
        return [it.dataset_id for it in await store.list_datasets(*asked, **more)]

    assert await find() == ["@ann:b", "B", "b"]
    assert await find("ann") == ["@ann:b"]
    assert await find("bob") == []
    assert await find(limit=2) == ["@ann:b", "B"]
    assert await find(after="B") == ["b"]
    assert (await store.list_datasets())[-1] == _listed(newest)
    deleted = await store.load_dataset("c")
    assert deleted is not None
    assert deleted.is_deleted


async def revisions_are_listed_newest_first(store: EvalStore) -> None:
    """Without cases, page by page."""
    made = [_revision(no, cases=(_entry(),) * no) for no in (1, 2, 3)]
    for it in made:
        await store.save_dataset(it, it.revision - 1)
    assert list(await store.list_dataset_revisions("refunds")) == [*map(_listed, reversed(made))]
    assert [it.revision for it in await store.list_dataset_revisions("refunds", limit=2)] == [3, 2]
    older = await store.list_dataset_revisions("refunds", before=3)
    assert [(it.revision, it.case_count) for it in older] == [(2, 2), (1, 1)]
    assert await store.list_dataset_revisions("other") == ()


async def a_dataset_is_removed_with_all_its_revisions(store: EvalStore) -> None:
    """For good, and no other one; it may be made again from its first revision."""
    for no in (1, 2):
        await store.save_dataset(_revision(no), no - 1)
    await store.save_dataset(_revision(1, "other"), 0)
    assert await store.delete_dataset("refunds") == len((1, 2))
    assert await store.load_dataset("refunds") is None
    assert await store.list_dataset_revisions("refunds") == ()
    assert [it.dataset_id for it in await store.list_datasets()] == ["other"]
    assert await store.delete_dataset("refunds") == 0
    await store.save_dataset(_revision(1), 0)


async def an_eval_is_removed_with_its_items(store: EvalStore) -> None:
    """For good, and no other one; an eval that takes its id has none of its items."""
    for name in ("e1", "e2", "e3"):
        await store.create_eval(_eval(name))
        await store.put_eval_item(name, _item(0))
        await store.put_eval_item(name, _item((1 << 32) - 1))
    # The newest one: a store may give its number to the next.
    assert await store.delete_eval("e3")
    assert not await store.delete_eval("e3")
    assert await store.load_eval("e3") is None
    assert await store.list_eval_items("e3") == ()
    for name in ("e1", "e2"):
        assert [it.number for it in await store.list_eval_items(name)] == [0, (1 << 32) - 1], name
    await store.create_eval(_eval("e3"))
    assert await store.list_eval_items("e3") == ()
    listed = await store.list_evals(EvalQuery())
    assert [it.eval_id for _, it in listed] == ["e3", "e2", "e1"]
    assert len({no for no, _ in listed}) == len(listed)


async def an_eval_id_is_used_once(store: EvalStore) -> None:
    """The second one is refused, and the first stays."""
    await store.create_eval(_eval(planned=3))
    await refusal(EvalExists, store.create_eval(_eval(planned=4)))
    assert await store.load_eval("e1") == _eval(planned=3)
    assert await store.load_eval("e2") is None


async def an_eval_is_replaced_only_from_the_status_it_had(store: EvalStore) -> None:
    """One that another process has moved on is left alone."""
    await store.create_eval(_eval())
    running = _eval(status=EvalStatus.RUNNING, started_at=3)
    assert await store.update_eval(running, EvalStatus.PLANNED.value)
    assert not await store.update_eval(_eval(status=EvalStatus.FAILED), EvalStatus.PLANNED.value)
    assert await store.load_eval("e1") == running
    assert not await store.update_eval(_eval("e2"), EvalStatus.PLANNED.value)


async def evals_are_listed_newest_first(store: EvalStore) -> None:
    """By dataset, status and tenant, page by page."""
    await store.create_eval(_eval("e1"))
    await store.create_eval(_eval("e2", "other", tenant_id="ann"))
    await store.create_eval(_eval("e3", status=EvalStatus.DONE))

    async def find(**asked: Any) -> list[str]:
        return [it.eval_id for _, it in await store.list_evals(EvalQuery(**asked))]

    assert await find() == ["e3", "e2", "e1"]
    assert await find(dataset_id="refunds") == ["e3", "e1"]
    assert await find(status="planned") == ["e2", "e1"]
    assert await find(tenant_id="ann") == ["e2"]
    assert await find(limit=1) == ["e3"]
    (first, _), (second, _), _ = await store.list_evals(EvalQuery())
    assert first > second
    assert await find(before_no=second) == ["e1"]
    # A list by status has what the status is now.
    running = _eval("e1", status=EvalStatus.RUNNING)
    assert await store.update_eval(running, was=EvalStatus.PLANNED)
    assert await find(status="planned") == ["e2"]
    assert await find(status="running") == ["e1"]
    assert await find(status="running", dataset_id="other") == []


async def an_item_is_written_once(store: EvalStore) -> None:
    """The second is refused, also if it is equal, and the first stays."""
    await store.create_eval(_eval())
    first = _item(scores=(Score(name="exact", value=0.5),), text="Done", calls=("lookup",))
    assert await store.put_eval_item("e1", first)
    assert not await store.put_eval_item("e1", first)
    assert not await store.put_eval_item("e1", _item(text="other"))
    assert await store.list_eval_items("e1") == (first,)


async def an_item_and_its_scores_are_written_together(store: EvalStore) -> None:
    """With a score that is refused there is no item; a writer that comes later adds no scores."""
    await store.create_eval(_eval())
    bad = [_score(), _score(value=float("nan"))]
    await refusal(InvalidRecord, store.put_eval_item("e1", _item(), bad))
    await refusal(UnknownEval, store.put_eval_item("e2", _item(), [_score()]))
    assert await store.list_eval_items("e1") == ()
    assert await store.list_scores(ScoreQuery()) == ()
    assert await store.put_eval_item("e1", _item(), [_score(), _score(scorer="judge")])
    assert not await store.put_eval_item("e1", _item(), [_score(scorer="late")])
    assert [it.scorer for it in await store.list_scores(ScoreQuery())] == ["judge", "exact"]


async def one_of_many_writers_of_an_item_wins(store: EvalStore) -> None:
    """Workers that both finished a sample do not overwrite each other."""
    await store.create_eval(_eval())
    writes = [store.put_eval_item("e1", _item(text=str(no))) for no in range(_REFUSED + 1)]
    assert sum(await asyncio.gather(*writes)) == 1
    assert len(await store.list_eval_items("e1")) == 1


async def an_item_needs_its_eval_and_a_place(store: EvalStore) -> None:
    """Nothing is written without them."""
    await refusal(UnknownEval, store.put_eval_item("e1", _item()))
    await store.create_eval(_eval())
    for number in (-1, 1 << 32):
        await refusal(InvalidRecord, store.put_eval_item("e1", _item(number)))
    assert await store.list_eval_items("e1") == ()
    assert await store.list_eval_items("e2") == ()


async def items_are_listed_in_the_order_of_the_plan(store: EvalStore) -> None:
    """Of their own eval only, page by page."""
    for name in ("e1", "e2"):
        await store.create_eval(_eval(name))
    for number in (3, 0, (1 << 32) - 1, 7):
        assert await store.put_eval_item("e1", _item(number))
    await store.put_eval_item("e2", _item(5))

    async def find(*asked: int) -> list[int]:
        return [it.number for it in await store.list_eval_items("e1", *asked)]

    assert await find() == [0, 3, 7, (1 << 32) - 1]
    assert await find(0) == [3, 7, (1 << 32) - 1]
    assert await find(0, 2) == [3, 7]
    assert await find((1 << 32) - 1) == []
    assert await find(1 << 40) == []
    assert await find(-5, 1) == [0]


async def scores_get_numbers_in_the_order_of_writing(store: EvalStore) -> None:
    """They are listed newest first; a missing value stays missing."""
    missing = _score(score=Score(name="exact", error="no answer"))
    made = await store.add_scores([_score(comment="good", by="ann", step=2), missing])
    assert made[0].no < made[1].no
    assert await store.list_scores(ScoreQuery()) == tuple(reversed(made))
    assert made[1].score.value is None
    assert await store.add_scores([]) == ()


async def scores_are_found_by_what_they_are_about(store: EvalStore) -> None:
    """By run, scorer, source, time, tenant and value, page by page."""
    made = await store.add_scores(
        [
            _score("r1", 0.2),
            _score("r1", 0.9, scorer="judge", source=ScoreSource.EVAL, at=20),
            _score("r2", None, tenant_id="ann", at=30),
            _score("r2", 0.0, source=ScoreSource.ONLINE),
        ]
    )
    a, b, c, d = (it.no for it in made)

    async def find(**asked: Any) -> list[int]:
        return [it.no for it in await store.list_scores(ScoreQuery(**asked))]

    assert await find(run_id="r1") == [b, a]
    assert await find(run_id="r1", scorer="exact") == [a]
    assert await find(scorer="exact") == [d, c, a]
    assert await find(source=ScoreSource.ONLINE) == [d]
    assert await find(since=20) == [c, b]
    assert await find(tenant_id="ann") == [c]
    assert await find(below=0.9) == [d, a]
    assert await find(scorer="exact", below=0.2) == [d]
    assert await find(run_id="r2", below=1) == [d]
    assert await find(limit=2) == [d, c]
    assert await find(before_no=b) == [a]


async def a_value_that_is_no_number_is_refused(store: EvalStore) -> None:
    """None of the scores beside it are written."""
    for bad in (float("nan"), float("inf"), 1e300):
        await refusal(InvalidRecord, store.add_scores([_score(), _score(value=bad)]))
    assert await store.list_scores(ScoreQuery()) == ()


CHECKS: tuple[EvalCheck, ...] = (
    eval_objects_are_kept_under_the_hash_of_their_bytes,
    equal_values_are_one_object,
    bytes_under_another_hash_are_refused,
    many_eval_objects_are_loaded_at_once,
    objects_are_listed_by_hash_page_by_page,
    objects_are_found_by_their_thread_and_user,
    deleted_objects_are_gone_with_their_sources,
    a_dataset_comes_back_as_it_was,
    a_revision_follows_the_expected_one,
    one_of_many_writers_gets_the_next_revision,
    datasets_are_listed_by_id_in_their_newest_revision,
    revisions_are_listed_newest_first,
    a_dataset_is_removed_with_all_its_revisions,
    an_eval_is_removed_with_its_items,
    an_eval_id_is_used_once,
    an_eval_is_replaced_only_from_the_status_it_had,
    evals_are_listed_newest_first,
    an_item_is_written_once,
    an_item_and_its_scores_are_written_together,
    one_of_many_writers_of_an_item_wins,
    an_item_needs_its_eval_and_a_place,
    items_are_listed_in_the_order_of_the_plan,
    scores_get_numbers_in_the_order_of_writing,
    scores_are_found_by_what_they_are_about,
    a_value_that_is_no_number_is_refused,
)
