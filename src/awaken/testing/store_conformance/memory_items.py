"""Facts and passages: what every memory engine must do with the items of its partitions."""

from array import array
from collections.abc import Callable, Coroutine
from typing import Any

from awaken.contracts.memory.engine import KeptItem, MemoryEngine, MemoryItem
from awaken.contracts.memory.errors import FactExists, MemoryFull
from awaken.contracts.memory.records import (
    Partition,
    PartitionKind,
    knowledge_collection,
    project_memory,
    user_memory,
)

from .writing import refusal

MemoryCheck = Callable[[MemoryEngine], Coroutine[Any, Any, None]]
ANN, BOB = user_memory("acme", "ann"), user_memory("acme", "bob")
MANY = 1_000
NEVER, LONG_AGO = 1 << 50, 1


def _item(name: str, text: str = "", **fields: Any) -> MemoryItem:
    said = text or name
    known: dict[str, Any] = {
        "id": name,
        "text": said,
        "terms": tuple(said.casefold().split()),
        "digest": said,
        "body": said.encode(),
    }
    return MemoryItem(**(known | fields))


def _vector(*values: float) -> bytes:
    return array("f", values).tobytes()


def _names(found: tuple[KeptItem, ...] | None) -> list[str]:
    assert found is not None
    return [it.id for it in found]


async def an_item_comes_back_as_it_was(engine: MemoryEngine) -> None:
    """By its id, in a list and in a search, with its group and its position."""
    place = knowledge_collection(None, "docs")
    item = _item("one", "ünï 🦜 text", group="doc", position=3, body=b"\x00\xff raw")
    added = await engine.add(place, [item], limit=MANY)
    assert added is not None
    assert [it.is_new for it in added] == [True]
    kept = KeptItem(id="one", group="doc", position=3, body=b"\x00\xff raw")
    assert added[0].item == await engine.find(place, "one") == kept
    assert await engine.list_items(place, after=None, limit=10) == (kept,)
    assert await engine.search(place, ["text"], 10) == (kept,)
    assert await engine.find(place, "other") is None


async def an_equal_item_is_kept_once(engine: MemoryEngine) -> None:
    """The first one stays and is returned; in one call as well."""
    await engine.add(ANN, [_item("one", "likes tea")], limit=MANY)
    again = await engine.add(
        ANN, [_item("two", "likes tea"), _item("three", "x"), _item("four", "x")], limit=MANY
    )
    assert again is not None
    assert [(it.item.id, it.is_new) for it in again] == [
        ("one", False),
        ("three", True),
        ("three", False),
    ]
    assert _names(await engine.list_items(ANN, after=None, limit=10)) == ["one", "three"]


async def a_list_continues_after_an_item(engine: MemoryEngine) -> None:
    """In the order in which items were added; a cursor of another partition finds nothing."""
    await engine.add(ANN, [_item(f"item{n}") for n in range(5)], limit=MANY)
    await engine.add(BOB, [_item("theirs")], limit=MANY)
    assert _names(await engine.list_items(ANN, after=None, limit=2)) == ["item0", "item1"]
    assert _names(await engine.list_items(ANN, after="item1", limit=9)) == [
        "item2",
        "item3",
        "item4",
    ]
    # There is no place after an item of others, or after one that is gone.
    assert await engine.list_items(ANN, after="theirs", limit=9) is None
    assert await engine.list_items(ANN, after="item4", limit=9) == ()


async def a_full_partition_takes_no_more(engine: MemoryEngine) -> None:
    """Nothing of a call that would exceed the limit is written; others are not affected."""
    await engine.add(ANN, [_item("a"), _item("b")], limit=2)
    await refusal(MemoryFull, engine.add(ANN, [_item("c")], limit=2, mark="m"))
    assert _names(await engine.list_items(ANN, after=None, limit=9)) == ["a", "b"]
    assert not await engine.has_mark(ANN, "m")
    assert await engine.search(ANN, ["c"], 9) == ()
    again = await engine.add(ANN, [_item("again", "a")], limit=2)
    assert again is not None
    assert again[0].item.id == "a"
    await engine.add(BOB, [_item("c")], limit=2)


async def a_mark_makes_a_write_happen_once(engine: MemoryEngine) -> None:
    """The repetition writes nothing, also if it has other items; an owner has its own marks."""
    assert not await engine.has_mark(ANN, "run-1")
    assert await engine.add(ANN, [_item("a")], limit=MANY, mark="run-1") is not None
    assert await engine.has_mark(ANN, "run-1")
    assert await engine.add(ANN, [_item("b")], limit=MANY, mark="run-1") is None
    assert _names(await engine.list_items(ANN, after=None, limit=9)) == ["a"]
    assert not await engine.has_mark(BOB, "run-1")
    assert await engine.add(BOB, [], limit=MANY, mark="run-1") == ()
    assert await engine.has_mark(BOB, "run-1")


async def a_search_finds_any_of_the_words(engine: MemoryEngine) -> None:
    """The item with more of them first; words without a match find nothing."""
    await engine.add(
        ANN,
        [_item("one", "green tea"), _item("two", "green tea house"), _item("three", "blue coffee")],
        limit=MANY,
    )
    assert _names(await engine.search(ANN, ["coffee"], 9)) == ["three"]
    assert _names(await engine.search(ANN, ["green", "tea", "house"], 9))[0] == "two"
    assert sorted(_names(await engine.search(ANN, ["green", "blue"], 9))) == ["one", "three", "two"]
    assert len(await engine.search(ANN, ["green", "blue"], 2)) == 2
    assert await engine.search(ANN, ["water"], 9) == ()
    assert await engine.search(ANN, [], 9) == ()


async def a_vector_search_finds_the_nearest(engine: MemoryEngine) -> None:
    """Only vectors of the same model and length are compared."""
    if not (await engine.read_vector_support()).is_there:
        assert await engine.search_vectors(ANN, _vector(1, 0), "m", 9) == ()
        return
    await engine.add(
        ANN,
        [
            _item("east", vector=_vector(1, 0), model="m"),
            _item("north", vector=_vector(0, 1), model="m"),
            _item("north-east", vector=_vector(1, 1), model="m"),
            _item("other model", vector=_vector(1, 0), model="n"),
            _item("longer", vector=_vector(1, 0, 0), model="m"),
            _item("none"),
        ],
        limit=MANY,
    )
    await engine.add(BOB, [_item("theirs", vector=_vector(1, 0), model="m")], limit=MANY)
    found = await engine.search_vectors(ANN, _vector(2, 0.1), "m", 9)
    assert _names(found) == ["east", "north-east", "north"]
    assert _names(await engine.search_vectors(ANN, _vector(0, 3), "m", 1)) == ["north"]


async def an_update_replaces_words_and_vectors(engine: MemoryEngine) -> None:
    """The item keeps its id and its place; its old words find nothing any more."""
    await engine.add(
        ANN,
        [_item("a", "old words", vector=_vector(1, 0), model="m"), _item("b", "second")],
        limit=MANY,
    )
    assert await engine.update(ANN, _item("a", "new words"))
    assert await engine.search(ANN, ["old"], 9) == ()
    assert _names(await engine.search(ANN, ["new"], 9)) == ["a"]
    assert _names(await engine.list_items(ANN, after=None, limit=9)) == ["a", "b"]
    assert await engine.search_vectors(ANN, _vector(1, 0), "m", 9) == ()
    assert not await engine.update(ANN, _item("missing"))
    assert not await engine.update(BOB, _item("a", "stolen"))
    error = await refusal(FactExists, engine.update(ANN, _item("b", "new words")))
    assert error.fact_id == "a"
    assert await engine.find(ANN, "b") is not None


async def a_group_is_replaced_and_deleted_whole(engine: MemoryEngine) -> None:
    """Other groups stay as they are."""
    docs = knowledge_collection("acme", "docs")
    first = [_item(f"a{n}", f"apple {n}", group="doc-a", position=n) for n in range(3)]
    other = [_item("b0", "apple pie", group="doc-b")]
    assert not await engine.replace_group(docs, "doc-a", first, limit=MANY)
    assert not await engine.replace_group(docs, "doc-b", other, limit=MANY)
    second = [_item("a0", "pear", group="doc-a")]
    await refusal(MemoryFull, engine.replace_group(docs, "doc-a", first, limit=3))
    assert await engine.replace_group(docs, "doc-a", second, limit=MANY)
    assert _names(await engine.search(docs, ["apple"], 9)) == ["b0"]
    assert _names(await engine.search(docs, ["pear"], 9)) == ["a0"]
    firsts = await engine.list_items(docs, after=None, limit=9, position=0)
    assert sorted(_names(firsts)) == ["a0", "b0"]
    assert await engine.delete_group(docs, "doc-a") == 1
    assert await engine.delete_group(docs, "doc-a") == 0
    assert _names(await engine.list_items(docs, after=None, limit=9)) == ["b0"]


async def what_is_deleted_is_found_nowhere(engine: MemoryEngine) -> None:
    """Neither by id nor by words nor by vectors; erasing afterwards is possible."""
    await engine.add(
        ANN, [_item("a", "x y", vector=_vector(1, 0), model="m"), _item("b", "y")], limit=MANY
    )
    assert await engine.delete(ANN, ["a", "missing"]) == 1
    assert await engine.delete(ANN, ["a"]) == 0
    assert await engine.find(ANN, "a") is None
    assert _names(await engine.search(ANN, ["x", "y"], 9)) == ["b"]
    assert await engine.search_vectors(ANN, _vector(1, 0), "m", 9) == ()
    assert await engine.erase_deleted()
    assert _names(await engine.search(ANN, ["y"], 9)) == ["b"]
    # An equal one can be remembered again.
    assert await engine.add(ANN, [_item("a2", "x y")], limit=MANY) is not None
    assert _names(await engine.search(ANN, ["x"], 9)) == ["a2"]


async def a_partition_is_cleared_with_its_marks(engine: MemoryEngine) -> None:
    """Others keep theirs."""
    for owner in (ANN, BOB):
        await engine.add(owner, [_item("a"), _item("b")], limit=MANY, mark="run-1")
    assert await engine.clear(ANN) == 2
    assert await engine.clear(ANN) == 0
    assert await engine.list_items(ANN, after=None, limit=9) == ()
    assert not await engine.has_mark(ANN, "run-1")
    assert len(_names(await engine.list_items(BOB, after=None, limit=9))) == 2
    assert await engine.has_mark(BOB, "run-1")


async def what_has_expired_is_as_if_it_were_not_there(engine: MemoryEngine) -> None:
    """It is neither found nor listed nor counted as equal, and it can be deleted for good."""
    old = _item("old", "tea time", expires_at=LONG_AGO, vector=_vector(1, 0), model="m")
    await engine.add(ANN, [old, _item("new", "tea", expires_at=NEVER)], limit=MANY)
    assert await engine.find(ANN, "old") is None
    assert _names(await engine.search(ANN, ["tea"], 9)) == ["new"]
    assert _names(await engine.list_items(ANN, after=None, limit=9)) == ["new"]
    assert await engine.search_vectors(ANN, _vector(1, 0), "m", 9) == ()
    assert not await engine.update(ANN, _item("old", "revived"))
    again = await engine.add(ANN, [_item("again", "tea time")], limit=MANY)
    assert again is not None
    assert again[0].is_new
    await engine.add(BOB, [_item("b", "x", expires_at=LONG_AGO)], limit=MANY)
    assert await engine.delete_expired() >= 1
    assert await engine.delete_expired() == 0
    assert _names(await engine.list_items(ANN, after=None, limit=9)) == ["new", "again"]


async def what_has_expired_takes_no_place_of_others(engine: MemoryEngine) -> None:
    """A search returns as many items as it may, although better ones have expired."""
    old = [
        _item(f"old{n}", f"tea tea{n}", expires_at=LONG_AGO, vector=_vector(1, 0), model="m")
        for n in range(9)
    ]
    new = [
        _item(f"new{n}", f"tea and much else {n}", vector=_vector(n, 1), model="m")
        for n in range(3)
    ]
    await engine.add(ANN, [*old, *new], limit=MANY)
    assert len(await engine.search(ANN, ["tea"], 3)) == 3
    if (await engine.read_vector_support()).is_there:
        assert len(await engine.search_vectors(ANN, _vector(1, 0), "m", 3)) == 3


async def partitions_have_nothing_in_common(engine: MemoryEngine) -> None:
    """Names that look alike, other kinds, other tenants and none: each sees its own only."""
    owners = [
        user_memory(None, "ann"),
        user_memory("acme", "ann"),
        Partition(tenant_id="acme", name="ann "),
        user_memory("acme", "Ann"),
        user_memory("acm", "eann"),
        project_memory("acme", "ann"),
        project_memory(None, "ann"),
        knowledge_collection("acme", "ann"),
        *(user_memory("acme", f"{number}") for number in range(1, 13)),
    ]
    for number, owner in enumerate(owners):
        vector = _vector(1, number)
        item = _item(f"own{number}", f"shared 2x1 word{number}", vector=vector, model="m")
        await engine.add(owner, [item], limit=MANY, mark=f"mark{number}")
    for number, owner in enumerate(owners):
        mine = [f"own{number}"]
        assert _names(await engine.search(owner, ["shared", "2x1", "word1"], 99)) == mine
        assert _names(await engine.list_items(owner, after=None, limit=99)) == mine
        assert _names(await engine.search_vectors(owner, _vector(1, 1), "m", 99)) in (mine, [])
        for other in range(len(owners)):
            if other != number:
                assert await engine.find(owner, f"own{other}") is None
                assert await engine.delete(owner, [f"own{other}"]) == 0
                assert not await engine.update(owner, _item(f"own{other}", "stolen"))
                assert not await engine.has_mark(owner, f"mark{other}")
    found = await engine.list_partitions(PartitionKind.USER, "acme")
    assert ("ann", 1) in [(it.name, it.items) for it in found]
    assert "eann" not in [it.name for it in found]
    assert [it.name for it in await engine.list_partitions(PartitionKind.USER, None)] == ["ann"]
    assert await engine.list_partitions(PartitionKind.COLLECTION, None) == ()


async def odd_words_are_only_words(engine: MemoryEngine) -> None:
    """An engine gets letters and digits, of any script, and treats all of them as words."""
    words = ["or", "and", "not", "near", "null", "東京", "ñandú", "पानी", "٣", "a" * 64]
    items = [_item(f"i{n}", word) for n, word in enumerate(words)]
    await engine.add(ANN, items, limit=MANY)
    for number, word in enumerate(words):
        assert f"i{number}" in _names(await engine.search(ANN, [word], 99)), word
    assert len(await engine.search(ANN, words, 99)) == len(words)


async def vectors_are_filled_in_later(engine: MemoryEngine) -> None:
    """Items without a vector of a model are listed with their partitions, and get one each."""
    place = knowledge_collection(None, "docs")
    await engine.add(ANN, [_item("a"), _item("b", vector=_vector(1, 0), model="m")], limit=MANY)
    await engine.add(BOB, [_item("a"), _item("c", vector=_vector(0, 1), model="old")], limit=MANY)
    await engine.add(place, [_item("p", group="doc", position=1)], limit=MANY)
    await engine.add(ANN, [_item("gone", expires_at=LONG_AGO)], limit=MANY)
    counts = await engine.count_vectors()
    assert (counts.items, dict(counts.vectors)) == (5, {"m": 1, "old": 1})
    found = await engine.list_unembedded("m", limit=9)
    wanted = [(ANN, "a"), (BOB, "a"), (BOB, "c"), (place, "p")]
    assert [(it.partition, it.item.id) for it in found] == wanted
    (second,) = await engine.list_unembedded("m", after=found[0].place, limit=1)
    assert second == found[1]
    for it in found:
        other = BOB if it.partition == ANN else ANN
        lost = knowledge_collection("none", "such")
        for _ in range(2):
            assert await engine.save_vectors(it.partition, "m", [(it.item, _vector(1, 1))]) == 1
        assert await engine.save_vectors(lost, "m", [(it.item, _vector(1, 1))]) == 0
        if it.item.id in ("c", "p"):
            assert await engine.save_vectors(other, "m", [(it.item, _vector(1, 1))]) == 0
    assert await engine.list_unembedded("m", limit=9) == ()
    assert dict((await engine.count_vectors()).vectors) == {"m": 5}
    if (await engine.read_vector_support()).is_there:
        assert _names(await engine.search_vectors(BOB, _vector(1, 1), "m", 9)) == ["a", "c"]


async def a_vector_of_an_earlier_text_is_not_kept(engine: MemoryEngine) -> None:
    """An item that was changed or deleted since it was read is left as it is."""
    await engine.add(ANN, [_item("a"), _item("b")], limit=MANY)
    read = await engine.list_unembedded("m", limit=9)
    await engine.update(ANN, _item("a", "other"))
    await engine.delete(ANN, ["b"])
    assert await engine.save_vectors(ANN, "m", [(it.item, _vector(1, 1)) for it in read]) == 0
    assert (await engine.count_vectors()).vectors == {}


CHECKS: tuple[MemoryCheck, ...] = (
    vectors_are_filled_in_later,
    a_vector_of_an_earlier_text_is_not_kept,
    an_item_comes_back_as_it_was,
    an_equal_item_is_kept_once,
    a_list_continues_after_an_item,
    a_full_partition_takes_no_more,
    a_mark_makes_a_write_happen_once,
    a_search_finds_any_of_the_words,
    a_vector_search_finds_the_nearest,
    an_update_replaces_words_and_vectors,
    a_group_is_replaced_and_deleted_whole,
    what_is_deleted_is_found_nowhere,
    a_partition_is_cleared_with_its_marks,
    what_has_expired_is_as_if_it_were_not_there,
    what_has_expired_takes_no_place_of_others,
    partitions_have_nothing_in_common,
    odd_words_are_only_words,
)
