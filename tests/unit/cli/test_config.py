"""`awaken config`: files against a store, its history, its secrets and its switches."""

import asyncio
import json
import sqlite3
import threading
from pathlib import Path

import pytest

from awaken.bootstrap.config_operator import ConfigOperator
from awaken.cli import config
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.stores.sqlite import SqliteStore

from .conftest import Call

SECRET = "sk-canary-0123456789"
AGENT = (
    "agents:\n- id: support\n  model_id: scripted\n  system_prompt: |\n    Help.\n    Be kind.\n"
)
APP = """
from awaken import Agent
greeter = Agent("greeter", model="scripted", instructions="Greet.")
"""


@pytest.fixture
def folder(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one agent, beside an empty store."""
    monkeypatch.setenv("AWAKEN_STORE", f"sqlite:///{tmp_path / 'awaken.db'}")
    assert call("db", "migrate").code == 0
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "agents.yaml").write_text(AGENT)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path / "conf"


def count_publications(path: Path) -> int:
    async def count() -> int:
        store = SqliteStore(path.parent / "awaken.db")
        await store.open()
        try:
            return len(await store.list_publications())
        finally:
            await store.close()

    return asyncio.run(count())


def test_a_plan_exits_by_what_it_found_and_writes_nothing(folder: Path, call: Call) -> None:
    planned = call("config", "plan", "conf")
    assert (planned.code, planned.out) == (2, "+ agents/support\n")
    assert "No --app is given" in planned.err
    assert call("config", "plan", "conf", "--app", "app.py").err == ""
    assert count_publications(folder) == 0
    assert call("config", "apply", "conf", "--yes").code == 0
    assert call("config", "plan", "conf").code == 0
    (folder / "agents.yaml").write_text(AGENT.replace("Be kind.", "Be short."))
    changed = call("config", "plan", "conf", "--json")
    assert changed.code == 2
    (update,) = changed.document["updates"]
    assert [it["path"] for it in update["fields"]] == ["system_prompt"]
    (folder / "bad.yaml").write_text("agents: [{id: support, model_id: x}]\nfoo: 1")
    refused = call("config", "plan", "conf")
    assert refused.code == 1
    assert "bad.yaml: agents/support: The id is used twice" in refused.err
    assert "bad.yaml: foo: There is no such section." in refused.err


def test_a_problem_names_its_file_and_never_a_secret(folder: Path, call: Call) -> None:
    text = "providers: [{id: p, adapter: openai_chat, api_key: " + SECRET + "}]"
    (folder / "p.yaml").write_text(text)
    for command in ("plan", "validate"):
        refused = call("config", command, "conf")
        assert refused.code == 1
        assert "p.yaml: providers/p/api_key" in refused.out + refused.err
        assert '{"$secret": "env:NAME"}' in refused.out + refused.err
        assert SECRET not in refused.out + refused.err
    as_data = call("config", "apply", "conf", "--json")
    assert as_data.code == 1
    assert SECRET not in as_data.out + as_data.err
    assert json.loads(as_data.err.splitlines()[-1])["problems"][0]["file"] == "p.yaml"
    assert count_publications(folder) == 0


def test_an_export_is_canonical_and_applying_it_does_nothing(folder: Path, call: Call) -> None:
    call("config", "apply", "conf", "--yes")
    assert call("config", "export", "out").code == 0
    first = (folder.parent / "out" / "agents" / "support.yaml").read_bytes()
    assert first == AGENT.encode()
    assert call("config", "apply", "out", "--yes").out == "There is nothing to do.\n"
    assert call("config", "export", "out", "--json").document["changed"] == 0
    assert (folder.parent / "out" / "agents" / "support.yaml").read_bytes() == first
    assert call("config", "export").out == AGENT
    assert call("config", "export", "--kind", "models").out == "{}\n"
    assert call("config", "export", "--kind", "nothing").code == 2
    assert call("config", "diff", "out", "live").code == 0


def edit_elsewhere(folder: Path, prompt: str) -> None:
    """Write the agent as the API does."""

    async def edit() -> None:
        async with ConfigOperator(SqliteStore(folder.parent / "awaken.db")) as operator:
            write = RecordWrite(namespace="agents", id="support", author=Author(id="ann"))
            body = {"model_id": "scripted", "system_prompt": prompt}
            await operator.managed.records.put(write, body)

    asyncio.run(edit())


def test_a_change_elsewhere_stops_an_apply_until_it_is_told_what_to_do(
    folder: Path, call: Call
) -> None:
    call("config", "apply", "conf", "--yes")
    edit_elsewhere(folder, "Console.")
    assert call("config", "plan", "conf").code == 1
    refused = call("config", "apply", "conf", "--yes")
    assert (refused.code, "agents/support: It was changed elsewhere" in refused.err) == (1, True)
    assert call("config", "status", "--json").document["drift"] == {"conf": ["agents/support"]}
    assert call("config", "apply", "conf", "--yes", "--keep").out == "There is nothing to do.\n"
    assert call("config", "apply", "conf", "--yes", "--force", "--keep").code == 2
    assert call("config", "apply", "conf", "--yes", "--write-back").code == 0
    assert "system_prompt: Console." in (folder / "agents.yaml").read_text()
    assert call("config", "plan", "conf").code == 0
    edit_elsewhere(folder, "Again.")
    assert call("config", "apply", "conf", "--yes", "--force").code == 0
    assert "system_prompt: Console." in call("config", "export").out


def test_a_record_of_another_origin_is_taken_only_on_demand(folder: Path, call: Call) -> None:
    call("config", "apply", "conf", "--yes")
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "a.yaml").write_text(AGENT.replace("Help.", "Other."))
    refused = call("config", "apply", "other", "--yes")
    assert (refused.code, "belongs to file:conf" in refused.err) == (1, True)
    assert call("config", "apply", "other", "--yes", "--adopt").code == 0


def test_what_was_shown_is_applied_and_nothing_later(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("config", "apply", "conf", "--yes")
    (folder / "agents.yaml").write_text(AGENT.replace("Be kind.", "Be short."))

    def edit_meanwhile(_question: str) -> None:
        # The command has an event loop in this thread.
        colleague = threading.Thread(target=edit_elsewhere, args=(folder, "Console."))
        colleague.start()
        colleague.join()

    monkeypatch.setattr(config, "confirm", edit_meanwhile)
    refused = call("config", "apply", "conf", "--force")
    assert refused.code == 1
    assert "Publication 2 is live, not 1" in refused.err
    assert count_publications(folder) == 2


def test_a_patch_on_the_code_needs_the_app(folder: Path, call: Call) -> None:
    (folder / "agents.yaml").write_text("overrides: {agents: {greeter: {max_rounds: 3}}}")
    assert call("config", "plan", "conf").code == 1
    assert call("config", "apply", "conf", "--yes", "--app", "app.py").code == 0
    shown = call("config", "export", "--json").out
    assert shown == "overrides:\n  agents:\n    greeter:\n      max_rounds: 3\n"


def test_history_status_show_and_rollback(folder: Path, call: Call) -> None:
    assert call("config", "history").out == "Nothing was published yet.\n"
    call("config", "apply", "conf", "--yes", "--message", "first")
    (folder / "agents.yaml").write_text(AGENT.replace("Be kind.", "Be short."))
    call("config", "apply", "conf", "--yes")
    items = call("config", "history", "--json").document["items"]
    assert [(it["publication"], it["message"]) for it in items] == [
        (2, "applied from conf"),
        (1, "first"),
    ]
    assert call("config", "show", "2", "--json").document["changes"] == [
        {"ns": "agents", "id": "support", "action": "update"}
    ]
    assert call("config", "show", "9").code == 1
    differs = call("config", "diff", "1", "2")
    assert differs.code == 2
    assert "changed agents/support" in differs.out
    assert "- Be kind." in differs.out
    refused = call("config", "rollback", "1", "--expect", "1")
    assert (refused.code, count_publications(folder)) == (1, 2)
    assert "Publication 2 is live, not 1" in refused.err
    back = call("config", "rollback", "1").out
    assert back.startswith("Publication 3 is live")
    assert "It undoes\n  2 by " in back
    assert call("config", "diff", "1", "live").code == 0
    status = call("config", "status", "--json").document
    assert (status["publication"], status["owners"]) == (3, {"file:conf": 1})


def test_a_draft_of_files_is_not_live(folder: Path, call: Call) -> None:
    draft = call("config", "apply", "conf", "--draft", "--json").document["draft"]
    assert count_publications(folder) == 0
    assert call("config", "diff", "live", f"draft:{draft}").code == 2
    assert call("config", "diff", "conf", f"draft:{draft}").code == 0
    assert call("config", "diff", "live", "draft:none").code == 1
    assert call("config", "diff", "live", "nothing").code == 2


def test_an_apply_asks_before_it_publishes(folder: Path, call: Call) -> None:
    assert call("config", "apply", "conf", typed="n\n").code == 1
    assert count_publications(folder) == 0
    assert call("config", "apply", "conf", typed="y\n").code == 0
    assert count_publications(folder) == 1


def test_secrets_come_from_stdin_and_are_never_printed(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = "providers/p/api_key"
    (folder / "agents.yaml").write_text(
        "providers: [{id: p, adapter: openai_chat, api_key: {$secret: 'store:" + ref + "'}}]"
    )
    planned = call("config", "plan", "conf")
    assert (planned.code, f"missing secret: store:{ref}" in planned.out) == (1, True)
    assert call("config", "secrets", "set", ref).code == 2
    done = call("config", "secrets", "set", ref, typed=f"{SECRET}\n")
    assert done.code == 0
    assert call("config", "apply", "conf", "--yes").code == 0
    listed = call("config", "secrets", "list", "--json")
    assert [it["ref"] for it in listed.document["items"]] == [ref]
    refused = call("config", "secrets", "unset", ref)
    assert refused.code == 1
    shown = done.out + listed.out + refused.err + call("config", "export").out
    assert SECRET not in shown
    assert "$secret: store:providers/p/api_key" in shown
    monkeypatch.setenv("AWAKEN_SECRET_KEYS_FILE", str(folder.parent / "keys"))
    old = (folder.parent / "awaken.db.keys").read_text()
    (folder.parent / "keys").write_text("new:" + "A" * 43 + "=\n" + old)
    assert call("config", "secrets", "rotate", "--json").document == {"rotated": [ref]}
    assert call("config", "secrets", "rotate", "--json").document == {"rotated": []}
    assert call("config", "secrets", "unset", ref, "--force").code == 0
    assert call("config", "secrets", "unset", ref).code == 1


def test_switches_are_set_with_a_reason_and_released(folder: Path, call: Call) -> None:
    assert call("config", "switch", "pause", "agent", "support").code == 1
    paused = call("config", "switch", "pause", "agent", "support", "--reason", "wrong prices")
    assert paused.out == "agent/support is paused.\n"
    assert call("config", "switch", "pause", "all", "--reason", "panic").code == 0
    assert call("config", "switch", "disable", "agent", "support", "--reason", "x").code == 1
    kinds = [it["kind"] for it in call("config", "switch", "list", "--json").document["items"]]
    assert kinds == ["agent", "all"]
    assert call("config", "switch", "release", "all").code == 0
    assert call("config", "switch", "release", "all").code == 1


def test_the_audit_is_verified_and_exported(folder: Path, call: Call) -> None:
    call("config", "apply", "conf", "--yes")
    call("config", "switch", "pause", "all", "--reason", "panic")
    lines = [json.loads(it) for it in call("audit", "export").out.splitlines()]
    assert [it["event"]["action"] for it in lines] == ["seed_apply", "switch"]
    assert lines[0]["event"]["actor"].startswith("cli/")
    assert len(call("audit", "export", "--after", "1").out.splitlines()) == 1
    assert call("audit", "verify").code == 0


def test_an_audit_without_its_newest_events_is_not_intact(folder: Path, call: Call) -> None:
    call("config", "apply", "conf", "--yes")
    call("config", "switch", "pause", "all", "--reason", "panic")
    with sqlite3.connect(folder.parent / "awaken.db") as database:
        database.execute("DELETE FROM config_audit WHERE no = 2")
    broken = call("audit", "verify", "--json")
    assert (broken.code, broken.document["broken_at"]) == (1, 2)
