"""Sending, deciding, cancelling, replaying, deleting: durable when the command returns."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.sqlite import SqliteStore

from .conftest import Answer, Call

T = TypeVar("T")


def ask(db: Path, question: Callable[[SqliteStore], Awaitable[T]]) -> T:
    async def asked() -> T:
        store = SqliteStore(db)
        await store.open()
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(asked())


def the_ticket(db: Path) -> Ticket:
    (ticket,) = ask(db, lambda store: store.list_tickets())
    return ticket


def dispatch(db: Path, dispatch_id: str) -> Any:
    return ask(db, lambda store: store.find_dispatch(dispatch_id))


def refused(answer: Answer, code: str, exit_code: int = 1) -> None:
    assert (answer.code, answer.out, answer.error["code"]) == (exit_code, "", code)


def test_a_submission_is_queued_as_it_was_asked_for(call: Call, db: Path) -> None:
    options = ("--thread", "t", "--priority", "7", "--delay-ms", "60000", "--dedupe-key", "k")
    receipt = call("submit", "talker", "hi", *options, "--json").document
    queued = dispatch(db, receipt["dispatch_id"])
    assert queued.status is DispatchStatus.QUEUED
    assert (queued.request.agent_id, queued.request.messages[0].text) == ("talker", "hi")
    assert (queued.thread_id, queued.priority, queued.dedupe_key) == ("t", 7, "k")
    assert queued.available_at > queued.created_at + 50_000
    again = call("submit", "talker", "hi", *options, "--json").document
    assert (again["dispatch_id"], again["is_duplicate"]) == (receipt["dispatch_id"], True)
    assert "duplicate" in call("submit", "talker", "hi", *options).out


def test_another_request_under_the_same_key_is_refused(call: Call, db: Path) -> None:
    options = ("--thread", "t", "--dedupe-key", "k", "--json")
    assert call("submit", "talker", "hi", *options).code == 0
    refused(call("submit", "talker", "ho", *options), "dedupe_conflict")


def test_an_interrupt_drops_what_is_queued(call: Call, db: Path) -> None:
    answer = call("submit", "talker", "stop", "--thread", "t-queue", "--mode", "interrupt")
    assert answer.code == 0
    assert dispatch(db, "d-0").status is DispatchStatus.SUPERSEDED


def test_input_resumes_the_run_that_waits(call: Call, db: Path) -> None:
    options = ("--thread", "t-waits", "--mode", "resume", "--json")
    assert call("submit", "asker", "go on", *options).document["run_id"] == "r-waits"
    options = ("--thread", "t-done", "--mode", "resume", "--json")
    refused(call("submit", "talker", "go on", *options), "invalid_resume")


def test_steering_goes_to_the_thread(call: Call, db: Path) -> None:
    receipt = call("steer", "t-done", "left", "--json").document
    assert (receipt["thread_id"], receipt["mode"]) == ("t-done", "steer")
    assert dispatch(db, receipt["dispatch_id"]).request.messages[0].text == "left"


def test_a_decision_is_taken_once_and_the_run_is_queued(call: Call, db: Path) -> None:
    ticket_id = the_ticket(db).ticket_id
    given = ("--result", '{"ok": [true]}', "--reason", "fine", "--by", "ann")
    receipt = call("decide", ticket_id, *given, "--json").document
    assert (receipt["ticket_id"], receipt["run_id"]) == (ticket_id, "r-waits")
    decided = ask(db, lambda store: store.find_ticket(ticket_id))
    assert decided is not None
    assert decided.decision is not None
    assert decided.status is TicketStatus.DECIDED
    assert decided.decision.action == "resume"
    assert decided.decision.result == {"ok": [True]}
    assert (decided.decision.reason, decided.decision.decided_by) == ("fine", "ann")
    queued = ask(db, lambda store: store.find_dispatch_of_run("r-waits"))
    assert queued is not None
    assert queued.status is DispatchStatus.QUEUED
    assert call("decide", ticket_id, *given, "--json").document == receipt
    refused(call("decide", ticket_id, "--cancel", "--json"), "already_decided")


def test_a_call_can_be_given_up(call: Call, db: Path) -> None:
    ticket_id = the_ticket(db).ticket_id
    answer = call("decide", ticket_id, "--cancel", "--reason", "no")
    assert answer.code == 0
    assert "is cancelled" in answer.out
    decided = ask(db, lambda store: store.find_ticket(ticket_id))
    assert decided is not None
    assert decided.decision is not None
    assert decided.decision.action == "cancel"


def test_arguments_can_be_edited(call: Call, db: Path) -> None:
    ticket_id = the_ticket(db).ticket_id
    assert call("decide", ticket_id, "--arguments", '{"question": "Sure?"}').code == 0
    decided = ask(db, lambda store: store.find_ticket(ticket_id))
    assert decided is not None
    assert decided.decision is not None
    assert decided.decision.arguments == {"question": "Sure?"}


@pytest.mark.parametrize("option", ["--result", "--arguments"])
@pytest.mark.parametrize("text", ["{", "yes", "", "[" * 100_000, "\udc80"])
def test_what_is_no_json_is_refused_and_decides_nothing(
    call: Call, db: Path, option: str, text: str
) -> None:
    ticket_id = the_ticket(db).ticket_id
    refused(call("decide", ticket_id, option, text, "--json"), "invalid_input", exit_code=2)
    answer = call("decide", ticket_id, option, text)
    assert answer.err.startswith(f"awaken: {option} is invalid")
    assert answer.err.count("\n") == 1
    assert the_ticket(db).decision is None


@pytest.mark.parametrize("id_", ["r-waits", "t-waits"])
def test_a_run_that_waits_is_cancelled_by_its_id_or_its_threads(
    call: Call, db: Path, id_: str
) -> None:
    assert call("cancel", id_, "--json").document == {"id": id_, "is_cancelled": True}
    run = ask(db, lambda store: store.load_run("r-waits"))
    assert run is not None
    assert run.status is RunStatus.DONE
    refused(call("cancel", id_, "--json"), "record_not_found")


def test_a_queued_dispatch_is_cancelled_by_its_id(call: Call, db: Path) -> None:
    assert call("cancel", "d-0").code == 0
    assert dispatch(db, "d-0").status is DispatchStatus.CANCELLED
    assert dispatch(db, "d-1").status is DispatchStatus.QUEUED


def test_a_dead_letter_is_replayed_once(call: Call, db: Path) -> None:
    receipt = call("dead-letters", "replay", "d-dead", "--json").document
    again = dispatch(db, receipt["dispatch_id"])
    assert (again.status, again.attempt_count) == (DispatchStatus.QUEUED, 0)
    refused(call("dead-letters", "replay", "d-dead", "--json"), "illegal_transition")
    refused(call("dead-letters", "replay", "d-0", "--json"), "illegal_transition")


def test_a_thread_is_deleted_only_when_somebody_is_sure(call: Call, db: Path) -> None:
    def exists() -> bool:
        return ask(db, lambda store: store.load_thread("t-done")) is not None

    unasked = call("threads", "delete", "t-done")
    assert (unasked.code, "pass --yes" in unasked.err) == (2, True)
    assert exists()
    assert call("threads", "delete", "t-done", typed="n\n").code == 1
    assert exists()
    assert call("threads", "delete", "t-done", typed="y\n").code == 0
    assert not exists()


def test_a_thread_with_children_is_not_deleted_unless_asked(call: Call, db: Path) -> None:
    async def with_child(store: SqliteStore) -> None:
        thread = await store.load_thread("t-waits")
        assert thread is not None
        await store.save_thread(type(thread)(id="t-waits", parent_thread_id="t-done"))

    ask(db, with_child)
    refused(call("threads", "delete", "t-done", "--yes", "--json"), "invalid_record")
    given = ("--strategy", "cascade", "--yes", "--json")
    deleted = call("threads", "delete", "t-done", *given).document
    assert deleted == {"thread_id": "t-done", "is_deleted": True, "eval_objects": 0}
    assert ask(db, lambda store: store.load_thread("t-waits")) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit", "talker"),
        ("submit", "talker", "hi", "--priority", "256"),
        ("submit", "talker", "hi", "--delay-ms", "-1"),
        ("submit", "talker", "hi", "--mode", "fast"),
        ("runs", "list", "--limit", "0"),
        ("runs", "list", "--status", "gone"),
        ("threads", "delete", "t-done", "--strategy", "hope", "--yes"),
        ("nonsense",),
    ],
)
def test_wrong_usage_ends_with_code_2_and_changes_nothing(
    call: Call, db: Path, arguments: tuple[str, ...]
) -> None:
    answer = call(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert ask(db, lambda store: store.count_queued()) == 3
