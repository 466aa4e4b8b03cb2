"""`awaken schedules create`: single times, bounds, and whose the runs are."""

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from awaken.cli.main import app
from awaken.stores import SqliteStore


def test_a_single_time_is_created_for_a_tenant_and_a_user(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def make_file() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(make_file())
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
