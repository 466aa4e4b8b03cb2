"""A process that is killed while it learns from a run: `extraction_process.py FOLDER MOMENT`."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.extensions.memory import MemoryConfig, MemoryPlugin
from awaken.memory.facts import FactBook
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel

QUICK = MailboxConfig(lease_ms=5_000, renew_ms=500, sweep_ms=400, poll_ms=20, drain_ms=200)
"""A process of the same machine is known to be gone before its lease ends; a shorter lease would
be lost by a process that a loaded machine keeps waiting."""
MOMENTS = ("before", "asking", "written")
"""Before the extraction is claimed, while the model is asked, after the facts are written."""


def make_runtime(folder: Path, answers: list[Any], *, has_worker: bool = True) -> AgentRuntime:
    agent = Agent(
        "a", model=ScriptedModel(answers), plugins=[MemoryPlugin(MemoryConfig(extract=True))]
    )
    store = SqliteStore(folder / "store.db")
    return AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=has_worker)


def _die(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def _work(folder: Path, moment: str) -> None:
    answers: list[Any] = ["Nice.", _die if moment == "asking" else '["Lives in Rome"]']
    remember = FactBook.remember

    async def remember_and_die(*given: Any, **more: Any) -> Any:
        await remember(*given, **more)
        _die()

    FactBook.remember = remember_and_die  # type: ignore[method-assign]
    async with make_runtime(folder, answers, has_worker=moment != "before") as runtime:
        result = await runtime.run("a", "I live in Rome.", tenant_id="acme", user_id="ann")
        print(result.run_id, flush=True)
        if moment == "before":
            _die()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), sys.argv[2]))
