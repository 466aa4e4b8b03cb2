"""`list` and `show`: tables for people, the records' own JSON for programs."""

import asyncio
from pathlib import Path

import pytest

from awaken import AgentRuntime

from .conftest import EVIL, Call, agents

pytestmark = pytest.mark.usefixtures("db")

LISTS = ("threads", "runs", "tickets", "dispatches", "dead-letters")
SHOWN = (
    ("threads", "show", "t-done"),
    ("runs", "show", "r-done", "--events"),
    ("runs", "show", "r-waits"),
    ("dispatches", "show", "d-dead"),
)


def run_all(db: Path, agent_id: str, thread_ids: list[str], **options: str) -> None:
    async def ran() -> None:
        async with AgentRuntime(agents(), store=f"sqlite:///{db}", has_worker=False) as runtime:
            for thread_id in thread_ids:
                await runtime.run(agent_id, "hi", thread_id=thread_id, **options)

    asyncio.run(ran())


def ids(call: Call, *arguments: str) -> list[str]:
    answer = call(*arguments, "--json")
    assert answer.code == 0, answer.err
    return [next(iter(item.values())) for item in answer.document["items"]]


@pytest.mark.parametrize("group", LISTS)
def test_a_list_is_one_document_of_items_and_a_cursor(call: Call, group: str) -> None:
    answer = call(group, "list", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert set(answer.document) == {"items", "next_cursor"}
    assert answer.document["items"]


def test_the_items_are_the_records_in_their_own_form(call: Call) -> None:
    (waiting,) = call("runs", "list", "--status", "waiting", "--json").document["items"]
    assert (waiting["run_id"], waiting["thread_id"]) == ("r-waits", "t-waits")
    assert waiting["waiting"]["reason"]
    (ticket,) = call("tickets", "list", "--json").document["items"]
    assert waiting["waiting"]["ticket_ids"] == [ticket["ticket_id"]]
    assert call("tickets", "show", ticket["ticket_id"], "--json").document == ticket


def test_filters_leave_out_what_does_not_fit(call: Call) -> None:
    assert ids(call, "runs", "list") == ["r-done", "r-waits"]
    assert ids(call, "runs", "list", "--thread", "t-done") == ["r-done"]
    assert ids(call, "runs", "list", "--status", "done") == ["r-done"]
    assert ids(call, "threads", "list", "--resource", "ann") == ["t-done"]
    assert ids(call, "threads", "list", "--parent", "t-done") == []
    assert ids(call, "tickets", "list", "--thread", "t-done") == []
    assert ids(call, "dispatches", "list", "--status", "dead_letter") == ["d-dead"]
    assert ids(call, "dispatches", "list", "--thread", "t-waits") == []
    assert ids(call, "dead-letters", "list") == ["d-dead"]


@pytest.mark.parametrize(("group", "key"), [("threads", "id"), ("runs", "thread_id")])
def test_a_list_of_one_tenant_has_nothing_of_others(
    call: Call, db: Path, group: str, key: str
) -> None:
    run_all(db, "plain", ["t-ann", "t-anna"], tenant_id="ann")
    run_all(db, "plain", ["t-bob"], tenant_id="bob")

    def listed(*options: str) -> set[str]:
        items = call(group, "list", "--json", *options).document["items"]
        return {item[key] for item in items}

    assert listed("--tenant", "ann") == {"@ann:t-ann", "@ann:t-anna"}
    assert listed("--tenant", "bob") == {"@bob:t-bob"}
    assert listed("--tenant", "nobody") == set()
    assert {"@ann:t-ann", "@bob:t-bob", "t-done"} <= listed()
    page = call(group, "list", "--tenant", "ann", "--limit", "1", "--json").document
    rest = listed("--tenant", "ann", "--limit", "1", "--cursor", page["next_cursor"])
    assert rest | {page["items"][0][key]} == {"@ann:t-ann", "@ann:t-anna"}


def test_a_thread_is_shown_with_its_tenant(call: Call, db: Path) -> None:
    run_all(db, "plain", ["t-ann"], tenant_id="ann-gmbh")
    assert "ann-gmbh" in call("threads", "show", "@ann-gmbh:t-ann").out
    assert (
        call("threads", "show", "@ann-gmbh:t-ann", "--json").document["thread"]["tenant_id"]
        == "ann-gmbh"
    )


def test_a_cursor_goes_on_where_the_page_ended(call: Call) -> None:
    arguments = ("dispatches", "list", "--limit", "2", "--json")
    first = call(*arguments).document
    second = call(*arguments, "--cursor", first["next_cursor"]).document
    found = [item["dispatch_id"] for item in first["items"] + second["items"]]
    assert sorted(found) == ["d-0", "d-1", "d-2", "d-dead"]
    assert second["next_cursor"] is None
    assert f"--cursor {first['next_cursor']}" in call("dispatches", "list", "--limit", "2").out


def test_tickets_have_cursors_as_well(call: Call, db: Path) -> None:
    run_all(db, "asker", ["t-more"])
    run_all(db, "asker", ["t-most"])
    wanted = ids(call, "tickets", "list")
    found, cursor = [], []
    for _ in range(3):
        page = call("tickets", "list", "--limit", "1", "--json", *cursor).document
        found += [item["ticket_id"] for item in page["items"]]
        cursor = ["--cursor", page["next_cursor"]]
    assert (found, len(set(found)), page["next_cursor"]) == (wanted, 3, None)
    bad = call("tickets", "list", "--cursor", "no cursor", "--json")
    assert (bad.code, bad.error["code"]) == (1, "cursor_invalid")


def test_a_cursor_of_other_filters_is_refused(call: Call) -> None:
    first = call("dispatches", "list", "--limit", "2", "--json").document
    cursor = first["next_cursor"]
    answer = call("dispatches", "list", "--limit", "3", "--cursor", cursor, "--json")
    assert (answer.code, answer.error["code"]) == (1, "cursor_invalid")


def test_a_thread_is_shown_with_its_state_its_runs_and_its_last_messages(call: Call) -> None:
    shown = call("threads", "show", "t-done", "--messages", "2", "--json").document
    assert shown["thread"]["message_count"] == 5
    assert shown["state"]["demo.notes"]["data"] == ["kept"]
    assert [run["run_id"] for run in shown["runs"]] == ["r-done"]
    assert [record["seq"] for record in shown["messages"]] == [4, 5]
    text = call("threads", "show", "t-done").out
    assert "demo.notes" in text
    assert "1. user: hello" in text
    assert "calls announce" in text
    assert (
        "messages"
        not in call("threads", "show", "t-done", "--messages", "0").out.split("\n\n", 1)[1]
    )


def test_the_newest_runs_of_a_long_thread_are_shown(call: Call, db: Path) -> None:
    run_all(db, "plain", ["t-long"] * 7)
    every = ids(call, "runs", "list", "--thread", "t-long")
    shown = call("threads", "show", "t-long", "--json").document
    assert [run["run_id"] for run in shown["runs"]] == every[-5:]


def test_a_run_is_shown_with_its_journal_and_its_events(call: Call, db: Path) -> None:
    run_all(db, "plain", ["t-done"])
    plain = call("runs", "show", "r-done", "--json").document
    assert "events" not in plain
    shown = call("runs", "show", "r-done", "--events", "--json").document
    assert [record["tool_name"] for record in shown["tool_records"]] == ["announce", "append_note"]
    assert [record["status"] for record in shown["tool_records"]] == ["finished", "finished"]
    assert shown["run"]["usage"]["total_tokens"] == 60
    kinds = [logged["event"]["event_type"] for logged in shown["events"]]
    assert (kinds[0], kinds[-1]) == ("run_start", "run_finish")
    assert {logged["run_id"] for logged in shown["events"]} == {"r-done"}


def test_a_run_that_waits_says_why_and_on_which_ticket(call: Call) -> None:
    shown = call("runs", "show", "r-waits", "--json").document
    (ticket,) = shown["tickets"]
    text = call("runs", "show", "r-waits").out
    assert shown["run"]["waiting"]["reason"] in text
    assert ticket["ticket_id"] in text
    assert "Really?" in text


@pytest.mark.parametrize("arguments", [*((group, "list") for group in LISTS), *SHOWN])
def test_stored_text_cannot_command_the_terminal(call: Call, arguments: tuple[str, ...]) -> None:
    for answer in (call(*arguments), call(*arguments, "--json")):
        assert answer.code == 0, answer.err
        assert [mark for mark in answer.out if mark != "\n" and not mark.isprintable()] == []


def test_markup_in_stored_text_is_text(call: Call) -> None:
    out = call("threads", "list").out
    assert "[bold]not bold[/bold]" in out
    assert "\\x1b[31mred" in out
    assert EVIL not in out


def test_programs_get_the_stored_text_unchanged(call: Call) -> None:
    shown = call("threads", "show", "t-done", "--json").document
    assert shown["thread"]["metadata"]["title"] == EVIL
    assert shown["messages"][-1]["message"]["content"][0]["text"] == EVIL


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("threads", "show", "nope"), "record_not_found"),
        (("threads", "delete", "nope", "--yes"), "record_not_found"),
        (("runs", "show", "nope"), "unknown_run"),
        (("tickets", "show", "nope"), "unknown_ticket"),
        (("dispatches", "show", "nope"), "record_not_found"),
        (("dead-letters", "replay", "nope"), "record_not_found"),
        (("decide", "nope"), "unknown_ticket"),
        (("cancel", "nope"), "record_not_found"),
        (("steer", "nope", "hi"), "record_not_found"),
    ],
)
def test_an_unknown_id_is_named_with_the_way_out(
    call: Call, arguments: tuple[str, ...], code: str
) -> None:
    answer = call(*arguments, "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (1, "", code)
    text = call(*arguments)
    assert text.code == 1
    assert text.err.startswith("awaken: ")
    assert text.err.count("\n") == 1
    assert "'nope'" in text.err
    assert "`awaken " in text.err


def test_an_id_that_was_never_stored_is_escaped_too(call: Call) -> None:
    answer = call("runs", "show", "\x1b[31m\nred")
    assert answer.err.count("\n") == 1
    assert "\x1b" not in answer.err
