"""`awaken schedules create` and `update`: single times, bounds, and whose the runs are."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from awaken.cli.main import app
from awaken.stores import SqliteStore


def make_file(path: Path) -> None:
    async def make() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(make())


def test_a_single_time_is_created_for_a_tenant_and_a_user(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_file(path)
    words = "create a Hi --id once --at 2100-03-01T08:00:00 --overlap queue --catch-up 2"
    more = f"--max-count 1 --tenant acme --user ann --store sqlite:///{path} --json"
    done = CliRunner().invoke(app, ["schedules", *words.split(), *more.split()])
    assert done.exit_code == 0, done.output
    made = json.loads(done.output)
    assert made["schedule_id"] == "@acme:once"
    assert made["next_due"] == 4_107_571_200_000
    assert (made["creator"]["tenant_id"], made["creator"]["user_id"]) == ("acme", "ann")
    spec = made["spec"]
    assert (spec["overlap"], spec["catch_up"], spec["max_count"]) == ("queue", 2, 1)


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["schedules", *words, "--store", f"sqlite:///{path}", "--json"])


def test_a_schedule_is_changed_field_by_field(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_file(path)
    options = "--cron 0_8_*_*_* --zone Europe/Berlin --jitter 60 --end 2100-01-01 --max-count 3"
    made = run(path, "create", "a", "Hi", "--id", "it", *_split(options))
    assert made.exit_code == 0, made.output
    spec = json.loads(made.output)["spec"]
    assert (spec["jitter_ms"], spec["end_at"]) == (60_000, 4_102_444_800_000)
    changed = run(path, "update", "it", *_split("--cron 0_9_*_*_* --jitter 5 --unset max-count"))
    assert changed.exit_code == 0, changed.output
    now = json.loads(changed.output)["spec"]
    assert now["timing"] == {"type": "cron", "expression": "0 9 * * *", "zone": "Europe/Berlin"}
    assert (now["jitter_ms"], now["end_at"], now.get("max_count")) == (5_000, spec["end_at"], None)
    assert now["target"] == spec["target"]
    options = "--every 60 --agent b --text 5 --thread t --as-event paid --unset end --overlap queue"
    again = json.loads(run(path, "update", "it", *_split(options)).output)["spec"]
    assert again["timing"] == {"type": "interval", "every_ms": 60_000}
    assert again["target"] == {"agent_id": "b", "input": 5, "thread_id": "t", "event": "paid"}
    assert "end_at" not in again
    shown = CliRunner().invoke(app, ["schedules", "show", "it", "--store", f"sqlite:///{path}"])
    assert "paid" in shown.output


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--cron 0_8_*_*_* --every 60", "one of cron"),
        ("--jitter 999999999", "jitter_ms"),
        ("--end 2001-01-01", "end_at"),
        ("--unset thread", "target.event"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    options: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    make_file(path)
    words = "--every 60 --thread t --as-event paid"
    run(path, "create", "a", "5", "--id", "it", *_split(words))
    before = run(path, "show", "it").output
    refused = run(path, "update", "it", *_split(options))
    assert refused.exit_code == 2
    assert problem in refused.output + refused.stderr
    assert run(path, "show", "it").output == before


APP = """
from awaken import Agent, workflow
from awaken.testing import ScriptedModel

@workflow(id="count")
async def count(ctx, n: int) -> int:
    return n

writer = Agent("writer", model=ScriptedModel(["x"]))
"""


def test_with_its_app_the_input_is_checked_when_a_schedule_is_made_or_changed(
    tmp_path: Path,
) -> None:
    path, app_file = tmp_path / "a.db", tmp_path / "flows.py"
    make_file(path)
    app_file.write_text(APP)
    more = ("--every", "60", "--app", str(app_file))
    refused = run(path, "create", "count", '{"n": "no"}', "--id", "it", *more)
    assert refused.exit_code == 1
    assert "count" in refused.output + refused.stderr
    made = run(path, "create", "count", '{"n": 1}', "--id", "it", *more)
    assert made.exit_code == 0, made.output
    assert run(path, "update", "it", "--text", "{}", *more).exit_code == 1
    event = ("--thread", "t", "--as-event", "paid")
    refused = run(path, "create", "writer", "1", *event, *more)
    assert (refused.exit_code, "no workflow" in refused.output + refused.stderr) == (2, True)
    # Other processes may serve what the app does not have.
    assert run(path, "create", "elsewhere", "Hi", *more).exit_code == 0


def test_a_firing_by_hand_cancels_the_run_that_it_interrupts(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_file(path)
    run(path, "create", "a", "Hi", "--id", "it", *_split("--every 60 --overlap interrupt"))
    first, second = (json.loads(run(path, "fire", "it").output)["run_id"] for _ in range(2))

    async def find_statuses() -> list[str]:
        store = SqliteStore(path)
        await store.open()
        found = [await store.find_dispatch_of_run(it) for it in (first, second)]
        await store.close()
        return [it.status.value for it in found if it is not None]

    assert asyncio.run(find_statuses()) == ["cancelled", "queued"]


def _split(options: str) -> list[str]:
    return [it.replace("_", " ") for it in options.split()]
