"""A store with something of everything in it, and a way to call commands on it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime, tool
from awaken.cli.main import app
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.demo.agents import append_note, ask_user_question
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

EVIL = "\x1b[31mred\x1b[0m \x9b2J [bold]not bold[/bold] \u202etxt.exe\r\nnext"
"""What a terminal would obey: escape codes, controls, a text that runs backwards."""


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)


Call = Callable[..., Answer]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, without a store in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWAKEN_STORE", raising=False)

    def called(*arguments: str, typed: str = "") -> Answer:
        done = CliRunner().invoke(app, list(arguments), input=typed)
        unexpected = done.exception is not None and not isinstance(done.exception, SystemExit)
        assert not unexpected, done.exception
        return Answer(done.exit_code, done.stdout, done.stderr)

    return called


@tool
async def announce(text: str) -> str:
    """Say it."""
    return f"{text}!"


def agents() -> list[Agent]:
    calls = ToolCalls([("announce", {"text": EVIL}), ("append_note", {"note": "kept"})])
    question = ToolCalls([("askUserQuestion", {"question": "Really?"})])
    return [
        Agent("talker", model=ScriptedModel([calls, EVIL]), tools=[announce, append_note]),
        Agent("asker", model=ScriptedModel([question, "Thanks."]), tools=[ask_user_question]),
        Agent("plain", model=ScriptedModel(["Fine."], cycle=True)),
    ]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A store: a run that is done on `t-done`, one that waits on `t-waits`, and deliveries."""
    path = tmp_path / "awaken.db"
    asyncio.run(_fill(path))
    return path


async def _fill(path: Path) -> None:
    async with AgentRuntime(agents(), store=f"sqlite:///{path}", has_worker=False) as runtime:
        await runtime.run("talker", "hello", thread_id="t-done", run_id_hint="r-done")
        await runtime.run("asker", "may I?", thread_id="t-waits", run_id_hint="r-waits")
    store = SqliteStore(path)
    await store.open()
    done = await store.load_thread("t-done")
    assert done is not None
    titled = Thread(id="t-done", resource_id="ann", metadata=ThreadMetadata(title=EVIL))
    await store.save_thread(titled)
    await store.enqueue(_delivery("d-dead", "t-queue"))
    (claimed,) = await store.claim("w", "token", 1000)
    assert claimed.claim_token is not None
    dead = Release(status=DispatchStatus.DEAD_LETTER, error=EVIL)
    await store.release("d-dead", claimed.claim_token, dead)
    for number in range(3):
        await store.enqueue(_delivery(f"d-{number}", "t-queue"))
    await store.close()


def _delivery(dispatch_id: str, thread_id: str) -> RunDispatch:
    request = RunRequest(agent_id="talker", thread_id=thread_id, messages=(user("do it"),))
    return RunDispatch(
        dispatch_id=dispatch_id, thread_id=thread_id, run_id=f"r-{dispatch_id}", request=request
    )
