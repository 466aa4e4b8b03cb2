"""The official ACP client in Node starts `awaken acp` and talks to the agent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))
SRC = str(HERE.parents[1] / "src")


def played(store: Path, choice: str, *words: str, session: str = "") -> dict[str, Any]:
    """What the client saw."""
    done = subprocess.run(
        [NODE, "client.mjs", sys.executable, f"sqlite:///{store}", choice, session, *words],
        cwd=HERE / "acp",
        env={**os.environ, "PYTHONPATH": SRC},
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["exit"] == 0, done.stderr.decode()
    return seen


def text(updates: list[dict[str, Any]]) -> str:
    kind = "agent_message_chunk"
    return "".join(it["content"]["text"] for it in updates if it["sessionUpdate"] == kind)


def test_a_turn_is_shown_and_can_be_loaded_by_another_process(tmp_path: Path) -> None:
    seen = played(tmp_path / "s.db", "allow_once", "look")
    assert seen["hello"]["agentInfo"]["name"] == "awaken-acp"
    assert seen["stops"] == ["end_turn"]
    (call,) = [it for it in seen["updates"] if it["sessionUpdate"] == "tool_call"]
    assert (call["kind"], call["locations"]) == ("read", [{"path": "/x.py"}])
    assert text(seen["updates"]) == "Done: text of /x.py"
    again = played(tmp_path / "s.db", "allow_once", session=seen["session"])
    assert text(again["loaded"]) == "Done: text of /x.py"
    assert again["loaded"][0]["sessionUpdate"] == "user_message_chunk"


@pytest.mark.parametrize(("choice", "is_erased"), [("allow_once", True), ("reject_once", False)])
def test_a_permission_is_asked_for_each_time(tmp_path: Path, choice: str, is_erased: bool) -> None:
    seen = played(tmp_path / "s.db", choice, "erase", "erase")
    assert seen["stops"] == ["end_turn"] * 2
    assert [it["title"] for it in seen["asked"]] == ["erase"] * 2
    assert len(seen["asked"][0]["kinds"]) == 4
    assert ("Done: erased x" in text(seen["updates"])) is is_erased


def test_always_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    seen = played(tmp_path / "s.db", "allow_always", "erase", "erase")
    assert len(seen["asked"]) == 1
    again = played(tmp_path / "s.db", "reject_once", "erase", session=seen["session"])
    assert again["asked"] == []
    assert text(again["updates"]) == "Done: erased x"


def test_a_turn_is_cancelled(tmp_path: Path) -> None:
    seen = played(tmp_path / "s.db", "allow_once", "hang", "look")
    assert seen["stops"] == ["cancelled", "end_turn"]
    (plan,) = [it for it in seen["updates"] if it["sessionUpdate"] == "plan"]
    assert plan["entries"] == [{"content": "wait", "status": "pending", "priority": "medium"}]


def test_a_session_has_the_stdio_server_that_the_editor_names(tmp_path: Path) -> None:
    seen = played(tmp_path / "s.db", "allow_once", "echo", "look")
    assert seen["stops"] == ["end_turn", "end_turn"]
    assert "hello" in text(seen["updates"])
    assert "not found" not in text(seen["updates"])
    assert seen["hello"]["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": False}
    # Without its session the run of a later process knows the tool no more.
    again = played(tmp_path / "s.db", "allow_once", "look", session=seen["session"])
    assert text(again["updates"]) == "Done: text of /x.py"
