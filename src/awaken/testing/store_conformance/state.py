"""Typed state and the tool journal are kept as they were written."""

from awaken.contracts.errors import InvalidRecord, KeyCodecError
from awaken.contracts.state.keys import StateKey, StoredValue
from awaken.contracts.storage.store import Store, ToolRecordStatus
from awaken.contracts.tool_results import ToolResult

from .writing import DONE, RUN, THREAD, Writer, refusal, run, tool_record, value

IntKey = StateKey[int, int]


async def thread_state_is_set_replaced_and_removed(store: Store) -> None:
    """Only the named keys change; None removes one; the thread keeps the rest between runs."""
    writer = Writer(store)
    await writer.commit(state={"a": value("1"), "b": value("2"), "c": value("3")}, run=run())
    await writer.commit(state={"a": value("10"), "b": None, "never": None})
    await writer.commit(run=run(status=DONE))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.state == {"a": value("10"), "c": value("3")}


async def run_state_lives_as_long_as_its_run(store: Store) -> None:
    """Run-scoped keys are kept while the run is open and never leak into the next run."""
    writer = Writer(store)
    await writer.commit(run=run(), run_state={"a": value("1"), "b": value("2")})
    await writer.commit(run=run(steps=1), run_state={"b": None, "c": value("3")})
    await writer.commit()
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.run_state == {"a": value("1"), "c": value("3")}
    await writer.commit(run=run(status=DONE), run_state={"d": value("4")})
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.run_state == {}
    await writer.commit(run=run("run-2"))
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.run_state == {}


async def run_state_needs_its_run(store: Store) -> None:
    """Run-scoped keys without a run record have no owner."""
    writer = Writer(store)
    await writer.commit(run=run())
    await writer.expect_refusal(InvalidRecord, run_state={"a": value("1")})


async def thread_and_run_state_are_apart(store: Store) -> None:
    """A key of the thread and a key of the run may have the same name."""
    writer = Writer(store)
    await writer.commit(run=run(), state={"a": value("1")}, run_state={"a": value("2")})
    await writer.commit(run=run(), run_state={"a": None})
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert (seen.state, seen.run_state) == ({"a": value("1")}, {})


async def state_comes_back_byte_for_byte(store: Store) -> None:
    """The store keeps the JSON it was given, and the version that wrote it."""
    texts = ('"ünïcödé 🦜"', "1e400", "123456789012345678901234567890", '{"b":1,"a":[ 1 ]}', "null")
    state = {f"key-{n}": value(text, version=n) for n, text in enumerate(texts, start=1)}
    await Writer(store).commit(state=state)
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert {name: (v.version, bytes(v.data)) for name, v in seen.state.items()} == {
        name: (v.version, bytes(v.data)) for name, v in state.items()
    }


async def a_value_that_cannot_be_decoded_names_its_key(store: Store) -> None:
    """The bad value is neither dropped nor replaced, and harms no other value."""
    newer: IntKey = StateKey("newer", default=0)
    misfit: IntKey = StateKey("misfit", default=0)
    fine: IntKey = StateKey("fine", default=0)
    state = {"newer": value("1", version=9), "misfit": value('"text"'), "fine": value("5")}
    await Writer(store).commit(state=state)
    await Writer(store, "thread-2").commit(state={"fine": value("6")})
    seen, other = await store.checkout(THREAD), await store.checkout("thread-2")
    assert seen is not None
    assert other is not None
    for key in (newer, misfit):
        error = await refusal(KeyCodecError, _decode_value(key, seen.state[key.name]))
        assert error.key == key.name
    assert await _decode_value(fine, seen.state["fine"]) == 5
    assert await _decode_value(fine, other.state["fine"]) == 6


async def _decode_value(key: IntKey, stored: StoredValue) -> int:
    return key.decode(stored)


async def the_journal_keeps_the_newest_entry_of_each_call(store: Store) -> None:
    """An intent is replaced by its result, at its place; other runs are not listed."""
    writer = Writer(store)
    await writer.commit(run=run(), tool_records=(tool_record("c-1"), tool_record("c-2")))
    result = ToolResult.success("search", {"hits": [1, 2]})
    finished = tool_record(
        "c-1",
        status=ToolRecordStatus.FINISHED,
        result=result,
        attempt=2,
        arguments_hash="abc",
        updates=(("count", "update", 1), ("names", "update", ["x"])),
    )
    await writer.commit(tool_records=(finished,))
    assert await store.list_tool_records(RUN) == (finished, tool_record("c-2"))
    await writer.commit(run=run(status=DONE))
    await writer.commit(run=run("run-2"), tool_records=(tool_record("c-1", run_id="run-2"),))
    assert await store.list_tool_records(RUN) == (finished, tool_record("c-2"))
    assert len(await store.list_tool_records("run-2")) == 1


async def the_journal_tells_steps_apart(store: Store) -> None:
    """A model that reuses a call id in a later step overwrites nothing."""
    writer = Writer(store)
    await writer.commit(run=run(), tool_records=(tool_record("c-1", step=0),))
    await writer.commit(tool_records=(tool_record("c-1", step=1),))
    records = await store.list_tool_records(RUN)
    assert [record.step for record in records] == [0, 1]


async def an_intent_and_its_result_may_share_a_commit(store: Store) -> None:
    """Of two entries for one call in one commit the later one is kept."""
    finished = tool_record("c-1", status=ToolRecordStatus.FINISHED)
    await Writer(store).commit(run=run(), tool_records=(tool_record("c-1"), finished))
    assert await store.list_tool_records(RUN) == (finished,)


async def the_journal_refuses_other_runs(store: Store) -> None:
    """A journal entry names a run of this thread."""
    await Writer(store, "thread-2").commit(run=run("run-2", thread_id="thread-2"))
    writer = Writer(store)
    await writer.commit(run=run())
    for run_id in ("run-2", "missing", ""):
        record = tool_record("c-1", run_id=run_id)
        await writer.expect_refusal(InvalidRecord, tool_records=(record,))
        await writer.expect_refusal(InvalidRecord, run=run(), tool_records=(record,))


CHECKS = (
    thread_state_is_set_replaced_and_removed,
    run_state_lives_as_long_as_its_run,
    run_state_needs_its_run,
    thread_and_run_state_are_apart,
    state_comes_back_byte_for_byte,
    a_value_that_cannot_be_decoded_names_its_key,
    the_journal_keeps_the_newest_entry_of_each_call,
    the_journal_tells_steps_apart,
    an_intent_and_its_result_may_share_a_commit,
    the_journal_refuses_other_runs,
)
