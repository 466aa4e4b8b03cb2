"""Orders of commits that were given up: an operator sees them, and has them tried again."""

import asyncio
from pathlib import Path

import pytest

from awaken.contracts.storage.store import Commit, OutboxEntry
from awaken.stores.sqlite import SqliteStore

from .conftest import EVIL, Call

pytestmark = pytest.mark.usefixtures("dead_orders")


def an_order(number: int) -> OutboxEntry:
    return OutboxEntry(
        entry_id=f"o-{number}",
        kind="letter",
        payload={"order": "letter", "thread_id": f"to {EVIL}", "payload": None},
        attempts=5,
        error=EVIL,
        is_dead=True,
    )


@pytest.fixture
def dead_orders(db: Path) -> None:
    """Three orders of `t-done` that were given up, one of `t-waits`, and one that is waiting."""

    async def filled() -> None:
        store = SqliteStore(db)
        await store.open()
        damaged = OutboxEntry(entry_id="o-damaged", kind="?", payload=7, is_dead=True)
        waiting = OutboxEntry(entry_id="o-waiting", kind="letter", due_at=2**50)
        for thread_id, entries in (
            ("t-done", tuple(map(an_order, range(3)))),
            ("t-waits", (damaged, waiting)),
        ):
            thread = await store.load_thread(thread_id)
            assert thread is not None
            await store.commit(
                Commit(
                    commit_id=f"orders of {thread_id}",
                    thread_id=thread_id,
                    expected_version=thread.version,
                    committed_at=1,
                    outbox=entries,
                )
            )
        await store.close()

    asyncio.run(filled())


def listed(call: Call, *options: str) -> list[str]:
    found = call("dead-letters", "list", "--outbox", "--json", *options).document["items"]
    return [item["entry_id"] for item in found]


def test_orders_that_were_given_up_are_listed_apart_from_deliveries(call: Call) -> None:
    assert listed(call) == ["o-0", "o-1", "o-2", "o-damaged"]
    assert listed(call, "--thread", "t-done") == ["o-0", "o-1", "o-2"]
    assert listed(call, "--thread", "t-queue") == []
    deliveries = call("dead-letters", "list", "--json").document["items"]
    assert [item["dispatch_id"] for item in deliveries] == ["d-dead"]


def test_orders_for_people_show_nothing_that_a_terminal_obeys(call: Call) -> None:
    answer = call("dead-letters", "list", "--outbox")
    head, *rows = answer.out.splitlines()
    assert (answer.code, head.split()[:3], len(rows)) == (0, ["ORDER", "KIND", "ABOUT"], 4)
    assert "\x1b" not in answer.out
    assert "\x9b" not in answer.out
    assert "o-0" in rows[0]


def test_a_list_of_orders_goes_on_where_it_ended(call: Call) -> None:
    page = ("dead-letters", "list", "--outbox", "--limit", "3", "--json")
    first = call(*page).document
    second = call(*page, "--cursor", first["next_cursor"]).document
    found = [item["entry_id"] for item in first["items"] + second["items"]]
    assert (found, second["next_cursor"]) == (["o-0", "o-1", "o-2", "o-damaged"], None)
    refused = call(*page, "--cursor", "nonsense")
    assert (refused.code, refused.out, refused.error["code"]) == (1, "", "cursor_invalid")


def test_an_order_is_tried_again_with_all_its_attempts(call: Call, db: Path) -> None:
    document = call("dead-letters", "replay", "o-1", "--outbox", "--json").document
    assert (document["entry_id"], document.get("attempts", 0)) == ("o-1", 0)
    assert "o-2" in call("dead-letters", "replay", "o-2", "--outbox").out
    assert listed(call) == ["o-0", "o-damaged"]

    async def due() -> list[str]:
        store = SqliteStore(db)
        await store.open()
        try:
            return [entry.entry_id for entry in await store.list_outbox()]
        finally:
            await store.close()

    assert asyncio.run(due()) == ["o-1", "o-2"]


@pytest.mark.parametrize(
    ("given", "code", "exit_code"),
    [
        (("nope", "--outbox"), "record_not_found", 1),
        (("o-waiting", "--outbox"), "record_not_found", 1),
        (("d-dead", "--outbox"), "record_not_found", 1),
        (("o-0",), "record_not_found", 1),
        ((" ", "--outbox"), "invalid_input", 2),
    ],
)
def test_what_was_not_given_up_is_not_tried_again(
    call: Call, given: tuple[str, ...], code: str, exit_code: int
) -> None:
    answer = call("dead-letters", "replay", *given, "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (exit_code, "", code)
    assert len(listed(call)) == 4
    text = call("dead-letters", "replay", *given)
    assert text.err.startswith("awaken: ")
    assert text.err.count("\n") == 1


def test_an_unknown_order_is_named_with_the_way_out(call: Call) -> None:
    message = call("dead-letters", "replay", "nope", "--outbox").err
    assert "'nope'" in message
    assert "awaken dead-letters list --outbox" in message
