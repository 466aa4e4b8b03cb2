"""Datasets: revisions, duplicates, scorers, secrets, tenants, and what deletion finds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from awaken.contracts.config.publications import hash_object
from awaken.contracts.evals.cases import Case, CaseStatus, Expectation
from awaken.contracts.evals.errors import (
    DatasetConflict,
    InvalidDataset,
    InvalidScorer,
    UnknownCase,
    UnknownDataset,
)
from awaken.contracts.evals.scores import ScorerSpec
from awaken.evals.dataset_writes import (
    CASES_MAX,
    DatasetChange,
    DatasetDocument,
    DuplicateCase,
    WriteOptions,
)
from awaken.evals.datasets import Datasets
from awaken.stores.memory import MemoryStore
from awaken.stores.memory.evals import EvalsInMemory
from awaken.testing import FakeClock

EXPECT = Expectation(final_answer_contains=("done",))
CONTAINS = ScorerSpec(scorer="contains", options={"phrases": ["done"]})
KEY = "sk-" + "ant-api03-" + "a1B2" * 24


def make_case(case_id: str = "first", text: str | None = None, **more: Any) -> Case:
    fields: dict[str, Any] = {"user_input": text or f"Input of {case_id}", "expect": EXPECT}
    return Case(id=case_id, **(fields | more))


def document(*cases: Case, **more: Any) -> DatasetDocument:
    return DatasetDocument(cases=cases, **more)


def run(check: Callable[[Datasets], Awaitable[None]], **more: Any) -> None:
    evals = MemoryStore().open_evals()
    asyncio.run(check(Datasets(evals, FakeClock(), **more)))  # type: ignore[arg-type]


def test_every_change_is_a_revision_and_old_ones_stay() -> None:
    async def check(datasets: Datasets) -> None:
        made = await datasets.create("refunds", document(make_case("b"), make_case("a")))
        assert (made.revision.revision, made.added) == (1, ("b", "a"))
        other = make_case("a", "Other")
        changed = await datasets.change("refunds", DatasetChange(put=(other,), remove=("b",)))
        assert (changed.replaced, changed.removed) == (("a",), ("b",))
        await datasets.change("refunds", DatasetChange(description="New", gate={"max": 1}))
        newest, first = await datasets.load("refunds"), await datasets.load("refunds", 1)
        assert newest.cases == (other,)
        assert (newest.revision.description, newest.revision.gate) == ("New", {"max": 1})
        assert [it.id for it in first.cases] == ["a", "b"]
        revisions = await datasets.list_revisions("refunds")
        assert [(it.revision, it.case_count, it.by) for it in revisions] == [
            (3, 1, "ann"),
            (2, 1, "ann"),
            (1, 2, "ann"),
        ]
        with pytest.raises(UnknownDataset, match="revision 4"):
            await datasets.load("refunds", 4)

    run(check, by="ann")


def test_a_write_needs_the_expected_revision_and_otherwise_writes_nothing() -> None:
    async def check(datasets: Datasets) -> None:
        await datasets.create("refunds", document(make_case()))
        with pytest.raises(DatasetConflict, match="revision 1, not 2"):
            await datasets.change("refunds", DatasetChange(remove=("first",)), expected=2)
        with pytest.raises(DatasetConflict):
            await datasets.create("refunds", document())
        with pytest.raises(DatasetConflict):
            await datasets.delete("refunds", 7)
        assert (await datasets.load("refunds")).revision.revision == 1
        changes = [
            datasets.change("refunds", DatasetChange(put=(make_case(f"c{no}"),))) for no in range(6)
        ]
        await asyncio.gather(*changes)
        assert (await datasets.load("refunds")).revision.case_count == 7

    run(check)


def test_a_deleted_dataset_is_not_listed_and_can_be_made_again() -> None:
    async def check(datasets: Datasets) -> None:
        await datasets.create("refunds", document(make_case()))
        assert (await datasets.delete("refunds", 1)).revision == 2
        assert await datasets.list_datasets() == ()
        with pytest.raises(UnknownDataset):
            await datasets.load("refunds")
        with pytest.raises(UnknownDataset):
            await datasets.delete("refunds")
        assert len((await datasets.load("refunds", 1)).cases) == 1
        made = await datasets.create("refunds", document(make_case("again")))
        assert (made.revision.revision, made.revision.case_count) == (3, 1)

    run(check)


def test_duplicates_are_reported_and_not_added() -> None:
    async def check(datasets: Datasets) -> None:
        await datasets.create("refunds", document(make_case("a", "Same")))
        twice = (make_case("b", "Same"), make_case("c", "Other"), make_case("d", "Other"))
        changed = await datasets.change("refunds", DatasetChange(put=twice))
        assert changed.added == ("c",)
        assert changed.duplicates == (
            DuplicateCase(case_id="b", same_as="a"),
            DuplicateCase(case_id="d", same_as="c"),
        )
        kept = await datasets.change(
            "refunds", DatasetChange(put=twice), options=WriteOptions(keeps_duplicates=True)
        )
        assert kept.added == ("b", "d")
        scripted = make_case("e", "Same", state={"a": 1})
        assert (await datasets.change("refunds", DatasetChange(put=(scripted,)))).added == ("e",)

    run(check)


def test_a_case_that_nothing_scores_is_refused() -> None:
    async def check(datasets: Datasets) -> None:
        bare = make_case(expect=None)
        with pytest.raises(InvalidDataset, match="no expectation and no scorer"):
            await datasets.create("refunds", document(bare))
        await datasets.create("a", document(bare, scorers=(CONTAINS,)))
        await datasets.create("b", document(bare), WriteOptions(is_scored_by_eval=True))
        await datasets.create("c", document(msgspec.structs.replace(bare, scorers=(CONTAINS,))))
        draft = msgspec.structs.replace(bare, status=CaseStatus.DRAFT)
        await datasets.create("d", document(draft))
        with pytest.raises(InvalidDataset, match="'first'"):
            await datasets.change("a", DatasetChange(scorers=()))
        assert [it.dataset_id for it in await datasets.list_datasets()] == ["a", "b", "c", "d"]

    run(check)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (document(make_case(scorers=(ScorerSpec(scorer="nope"),))), "no such scorer"),
        (document(scorers=(ScorerSpec(scorer="regex"),)), "pattern"),
        (document(scorers=(CONTAINS, CONTAINS)), "two scorers"),
        (
            document(make_case(scorers=(ScorerSpec(scorer="exact", threshold=float("nan")),))),
            "0 to 1",
        ),
        (document(make_case(), make_case()), "given 2 times"),
        (document(make_case(metadata={"a": float("nan")})), "malformed"),
        (document(make_case(tags=("",))), "tags"),
        (document(make_case(user_input="x" * 5_000_000)), "secret, or more text|bytes"),
        (document(description="x" * 20_000), "description"),
        (document(gate={"a": "x" * 100_000}), "gate"),
        (document(make_case(recording="00" * 16)), "there is no recording"),
    ],
)
def test_a_broken_dataset_is_refused_and_nothing_is_written(
    broken: DatasetDocument, error: str
) -> None:
    async def check(datasets: Datasets) -> None:
        with pytest.raises((InvalidDataset, InvalidScorer), match=error):
            await datasets.create("refunds", broken)
        assert await datasets.list_datasets() == ()

    run(check)


@pytest.mark.parametrize("bad", ["..", ".", "", "a/b", "@ann:b", "a" * 129, "a b", "ä", "a\n"])
def test_an_id_that_fits_no_file_name_is_refused(bad: str) -> None:
    async def check(datasets: Datasets) -> None:
        with pytest.raises(InvalidDataset):
            await datasets.create(bad, document())

    run(check)


def test_more_cases_than_are_kept_are_refused_before_anything_is_written() -> None:
    async def check(datasets: Datasets) -> None:
        many = tuple(make_case(f"c{no}") for no in range(CASES_MAX + 1))
        with pytest.raises(InvalidDataset, match="10001 cases"):
            await datasets.create("refunds", document(*many))
        assert await datasets.list_datasets() == ()

    run(check)


def test_secrets_are_refused_unless_they_are_redacted() -> None:
    async def check(datasets: Datasets) -> None:
        secret = make_case("key", f"My key is {KEY}", metadata={"password": "hunter2"})
        with pytest.raises(InvalidDataset) as raised:
            await datasets.create("refunds", document(make_case(), secret))
        assert "`user_input`" in str(raised.value)
        assert KEY not in str(raised.value)
        assert await datasets.list_datasets() == ()
        await datasets.create("refunds", document(secret), WriteOptions(redact=True))
        (stored,) = (await datasets.load("refunds")).cases
        assert KEY not in str(stored)
        assert "hunter2" not in str(stored)
        assert stored.id == "key"

    run(check)


def test_tenants_have_their_own_datasets_under_equal_ids() -> None:
    async def check() -> None:
        evals = MemoryStore().open_evals()
        ann = Datasets(evals, FakeClock(), tenant_id="ann")
        bob = Datasets(evals, FakeClock(), tenant_id="bob")
        operator = Datasets(evals, FakeClock())
        await ann.create("refunds", document(make_case("hers")))
        with pytest.raises(UnknownDataset):
            await bob.load("refunds")
        for name in ("@ann:refunds", "@bob:refunds"):
            with pytest.raises(UnknownDataset):
                await bob.load(name)
        made = await bob.create("refunds", document(make_case("his")))
        assert made.revision.dataset_id == "refunds"
        assert [it.dataset_id for it in await ann.list_datasets()] == ["refunds"]
        (case,) = (await ann.load("refunds")).cases
        assert (case.id, case.tenant_id) == ("hers", "ann")
        listed = [it.dataset_id for it in await operator.list_datasets()]
        assert listed == ["@ann:refunds", "@bob:refunds"]

    asyncio.run(check())


def make_recording(tenant_id: str | None = None, thread_id: str = "t1") -> tuple[str, bytes]:
    run_of = {"run_id": "r", "thread_id": thread_id, "agent_id": "a", "user_id": "u"}
    body = {
        "format": "recording/1",
        "run": run_of | {"tenant_id": tenant_id},
        "config": {"awaken": "1"},
    }
    data = msgspec.json.encode(body)
    return hash_object(data), data


def test_a_case_names_only_recordings_of_its_tenant() -> None:
    async def check() -> None:
        evals = EvalsInMemory()
        ann = Datasets(evals, FakeClock(), tenant_id="ann")
        bob = Datasets(evals, FakeClock(), tenant_id="bob")
        name, data = make_recording("ann")
        with pytest.raises(InvalidDataset, match="another tenant"):
            await bob.put_recordings({name: data})
        await ann.put_recordings({name: data})
        case = make_case(recording=name)
        with pytest.raises(InvalidDataset, match="there is no recording"):
            await bob.create("stolen", document(case))
        await ann.create("own", document(case))
        for broken in (b"{}", b"no", b'{"run": {}, "format": "recording/9"}'):
            with pytest.raises(InvalidDataset):
                await ann.put_recordings({hash_object(broken): broken})
        with pytest.raises(InvalidDataset, match="not the hash"):
            await ann.put_recordings({"00" * 16: data})

    asyncio.run(check())


def test_deleting_a_thread_finds_and_erases_what_came_from_it() -> None:
    async def check(datasets: Datasets) -> None:
        name, data = make_recording()
        await datasets.put_recordings({name: data})
        await datasets.create(
            "refunds",
            document(
                make_case("captured", recording=name, source_thread_id="t1", source_user_id="u"),
                make_case("replays", "Else", recording=name),
                make_case("own"),
            ),
        )
        found = await datasets.list_sources(thread_id="t1")
        assert sorted(it.kind.value for it in found) == ["case", "recording"]
        assert len(await datasets.list_sources(user_id="u")) == 2
        erased = await datasets.erase_sources(thread_id="t1")
        assert (erased.cases, erased.objects) == (
            (("refunds", "captured"), ("refunds", "replays")),
            2,
        )
        assert [it.id for it in (await datasets.load("refunds")).cases] == ["own"]
        before = await datasets.load("refunds", 1)
        assert before.erased == ("captured",)
        assert await datasets.list_sources(thread_id="t1") == ()
        assert await datasets.load_recordings(before.cases) == {}
        assert (await datasets.erase_sources(thread_id="t1")).objects == 0

    run(check)


def test_a_tenant_finds_and_erases_only_what_came_from_its_own_threads() -> None:
    async def check() -> None:
        evals = EvalsInMemory()
        ann = Datasets(evals, FakeClock(), tenant_id="ann")
        bob = Datasets(evals, FakeClock(), tenant_id="bob")
        case = make_case(source_thread_id="@ann:t1", source_user_id="u")
        await ann.create("hers", document(case))
        for name in ("t1", "@ann:t1"):
            assert await bob.list_sources(thread_id=name) == ()
            assert (await bob.erase_sources(thread_id=name)).objects == 0
            assert len(await ann.list_sources(thread_id=name)) == 1
        assert await bob.list_sources(user_id="u") == ()
        assert (await ann.erase_sources(user_id="u")).cases == (("hers", "first"),)

    asyncio.run(check())


def test_what_an_operator_changes_stays_the_tenants() -> None:
    async def check() -> None:
        evals = EvalsInMemory()
        ann, operator = Datasets(evals, FakeClock(), tenant_id="ann"), Datasets(evals, FakeClock())
        await ann.create("hers", document(make_case("a", source_thread_id="@ann:t1"), make_case()))
        await operator.change("@ann:hers", DatasetChange(put=(make_case("b"),)))
        assert [it.tenant_id for it in (await ann.load("hers")).cases] == ["ann"] * 3
        await operator.erase_sources(thread_id="@ann:t1")
        (listed,) = await ann.list_datasets()
        assert (listed.dataset_id, listed.tenant_id, listed.case_count) == ("hers", "ann", 2)
        assert (await operator.delete("@ann:hers")).tenant_id == "ann"

    asyncio.run(check())


def test_a_case_is_loaded_alone() -> None:
    async def check(datasets: Datasets) -> None:
        await datasets.create("refunds", document(make_case("a"), make_case("b")))
        revision, case = await datasets.load_case("refunds", "b")
        assert (revision.revision, revision.cases, case.id) == (1, (), "b")
        with pytest.raises(UnknownCase):
            await datasets.load_case("refunds", "c")
        with pytest.raises(UnknownCase):
            await datasets.change("refunds", DatasetChange(remove=("c",)))

    run(check)
