"""What managed configuration costs: publishing, other processes, history, restoring, policy diffs.

    python bench/config.py            about 3 minutes
    python bench/config.py --quick    a few samples of each, to see that it works

Prints one table with the goals. Everything is on SQLite files with full fsync. "Hold" is how long
one callback kept the event loop; "CPU" is the part of it in which its thread ran, so that it does
not count other programs on the machine, and "collector" what the cyclic garbage collector took.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from asyncio.events import Handle
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from awaken import AgentRuntime, Message, ModelSpec, tool
from awaken.contracts.config.audit import AuditQuery
from awaken.contracts.messages.message import Role, ToolCall, user
from awaken.contracts.storage.store import Commit
from awaken.extensions.permission import PermissionPlugin
from awaken.extensions.permission.inspector import PermissionInspector
from awaken.managed.configuration import ManagedConfig
from awaken.managed.files import ApplyOptions, FileSet
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.services.policy import compare_policies, load_calls
from awaken.stores.sqlite import SqliteStore
from awaken.testing import ScriptedModel
from policy import rules
from stats import digits, markdown, quantile

AUTHOR = Author(id="bench")
PAGE = 50
CALLS_OF_THREAD, RULES = 10, 100
AGENT_RULES = [{"tool": f'look_up(key ~ "{n}*")', "behavior": "ask"} for n in range(5)]
FOLLOW_SECONDS = 30
HOLD = "; longest hold of the loop"
PUBLISH, FIRST = "publish of one record", "first publish of all agents"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: int = 500
    publishes: int = 100
    firsts: int = 3
    signals: int = 15
    versions: int = 1_000
    restores: int = 60
    calls: int = 10_000
    diffs: int = 7


QUICK = Sizes(
    agents=50, publishes=5, firsts=1, signals=1, versions=60, restores=3, calls=500, diffs=2
)
GOALS_MS: dict[str, float] = {
    PUBLISH: 150,
    PUBLISH + HOLD: 20,
    FIRST + HOLD: 20,
    "seen by another process after": 2_500,
    "history page": 50,
    "restore by publication": 200,
    "restore by event": 200,
    "restore by object": 200,
    "policy diff over stored calls": 1_000,
}
Samples = dict[str, list[float]]
"""Milliseconds by what was measured."""


@dataclass
class Holds:
    """The longest callback of an event loop, and the longest work of the collector, in ms."""

    wall: float = 0.0
    cpu: float = 0.0
    collector: float = 0.0
    where: str = ""
    began: float = field(default=0.0, repr=False)

    def note_collection(self, phase: str, _info: dict[str, int]) -> None:
        """A callback for `gc.callbacks`."""
        now = time.perf_counter()
        if phase == "start":
            self.began = now
        else:
            self.collector = max(self.collector, (now - self.began) * 1e3)


@contextmanager
def watch_loop() -> Iterator[Holds]:
    """Time every callback of the event loops of this process."""
    holds, run = Holds(), Handle._run

    def timed(handle: Handle) -> None:
        began, cpu = time.perf_counter(), time.thread_time()
        run(handle)
        holds.cpu = max(holds.cpu, (time.thread_time() - cpu) * 1e3)
        wall = (time.perf_counter() - began) * 1e3
        if wall > holds.wall:
            holds.wall, holds.where = wall, repr(handle)

    Handle._run = timed  # type: ignore[method-assign]
    gc.callbacks.append(holds.note_collection)
    try:
        yield holds
    finally:
        Handle._run = run  # type: ignore[method-assign]
        gc.callbacks.remove(holds.note_collection)


@contextmanager
def timed(samples: Samples, name: str) -> Iterator[None]:
    """Add how long the block takes."""
    began = time.perf_counter()
    yield
    samples.setdefault(name, []).append((time.perf_counter() - began) * 1e3)


def note_holds(samples: Samples, name: str, holds: Holds) -> None:
    """Add the three figures of what was watched."""
    samples.setdefault(name + HOLD, []).append(holds.wall)
    samples.setdefault(f"{name}{HOLD}, CPU", []).append(holds.cpu)
    samples.setdefault(f"{name}{HOLD}, collector", []).append(holds.collector)


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


@asynccontextmanager
async def open_runtime(path: Path) -> AsyncGenerator[AgentRuntime, None]:
    """A managed runtime whose code has a model, a tool and the permission plugin."""
    async with AgentRuntime(
        tools=[look_up],
        plugins=[PermissionPlugin()],
        providers={"own": ScriptedModel(["Hello."], cycle=True)},
        models=[ModelSpec(id="fast", provider_id="own", upstream_model="m")],
        store=f"sqlite:///{path}",
        has_worker=False,
        managed=True,
    ) as runtime:
        yield runtime


def managed_of(runtime: AgentRuntime) -> ManagedConfig:
    """The managed configuration of a runtime that has one."""
    assert runtime.managed is not None
    return runtime.managed


def make_agent(prompt: str) -> dict[str, Any]:
    """An agent with a prompt of 2,000 characters, a tool and five rules."""
    return {
        "model_id": "fast",
        "system_prompt": prompt.ljust(2_000, "."),
        "allowed_tools": ["look_up"],
        "plugin_ids": ["permission"],
        "sections": {"permission": {"rules": AGENT_RULES}},
    }


def write_of(agent: str) -> RecordWrite:
    """The write of one agent."""
    return RecordWrite(namespace="agents", id=agent, author=AUTHOR)


async def measure_publishing(path: Path, sizes: Sizes, samples: Samples) -> None:
    """Publish all agents at once, in stores of their own; then change one at a time in the last."""
    bodies = {f"agent-{n}": make_agent(f"Agent {n}.") for n in range(sizes.agents)}
    files = FileSet(origin="bench", records={"agents": bodies})
    for number in range(sizes.firsts):
        is_last = number == sizes.firsts - 1
        async with open_runtime(path if is_last else path.with_suffix(f".{number}")) as runtime:
            managed = managed_of(runtime)
            with watch_loop() as holds, timed(samples, FIRST):
                await managed.files.apply(files, ApplyOptions(), AUTHOR)
            note_holds(samples, FIRST, holds)
            if is_last:
                await measure_changes(managed, sizes, samples)


async def measure_changes(managed: ManagedConfig, sizes: Sizes, samples: Samples) -> None:
    """Change one agent at a time."""
    chance = random.Random(1)
    for number in range(sizes.publishes):
        write = write_of(f"agent-{chance.randrange(sizes.agents)}")
        with watch_loop() as holds, timed(samples, PUBLISH):
            await managed.records.put(write, make_agent(f"Change {number}."))
        note_holds(samples, PUBLISH, holds)


async def follow(path: Path) -> None:
    """Be the other process: print the number and the time of every publication that is applied."""
    async with open_runtime(path) as runtime:
        live = managed_of(runtime).live
        live.watchers.append(
            lambda _, head: print(json.dumps([head.publication, time.monotonic()]), flush=True)
        )
        print(json.dumps([live.head.publication, time.monotonic()]), flush=True)
        # It ends with its parent, which holds the other end of the pipe.
        await asyncio.to_thread(sys.stdin.read)


async def measure_signals(path: Path, sizes: Sizes, samples: Samples) -> None:
    """Publish here, at random moments, and take the time at which another process has it."""
    command = [sys.executable, __file__, "--follow", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        read = other.stdout.readline
        chance = random.Random(2)
        async with open_runtime(path) as runtime:
            managed = managed_of(runtime)
            await asyncio.wait_for(asyncio.to_thread(read), FOLLOW_SECONDS)
            for number in range(sizes.signals):
                await asyncio.sleep(chance.random() * 2)
                made = await managed.records.put(write_of("agent-0"), make_agent(f"Sign {number}."))
                written, seen = time.monotonic(), (0, 0.0)
                while seen[0] != made.publication.no:
                    line = await asyncio.wait_for(asyncio.to_thread(read), FOLLOW_SECONDS)
                    seen = json.loads(line)
                taken = samples.setdefault("seen by another process after", [])
                taken.append(max(seen[1] - written, 0.0) * 1e3)
        assert other.stdin is not None
        other.stdin.close()


async def measure_history(path: Path, sizes: Sizes, samples: Samples) -> None:
    """Write many versions of one agent beside the others, read all pages, restore some."""
    async with open_runtime(path) as runtime:
        for number in range(sizes.versions):
            await managed_of(runtime).records.put(
                write_of("agent-1"), make_agent(f"Version {number}.")
            )
    # Another runtime, which has no object in memory.
    async with open_runtime(path) as runtime:
        managed, before, events = managed_of(runtime), None, []
        while True:
            with timed(samples, "history page"):
                query = AuditQuery(resource="agents/agent-1", before_no=before, limit=PAGE)
                rows = await managed.audit.list_events(query)
                for row in rows:
                    await managed.audit.load_bodies(row.event)
            events += [row.event for row in rows]
            if len(rows) < PAGE:
                break
            before = rows[-1].no
        chance = random.Random(3)
        # Each version once and not the newest: restoring what is live would write nothing.
        chosen = iter(chance.sample(events[1:], sizes.restores * 3))
        for first, second, third in zip(chosen, chosen, chosen, strict=True):
            versions = (str(first.publication), second.id, third.after or "")
            for name, version in zip(("publication", "event", "object"), versions, strict=True):
                with timed(samples, f"restore by {name}"):
                    made = await managed.records.restore(write_of("agent-1"), version)
                assert made.is_changed


async def measure_diff(path: Path, sizes: Sizes, samples: Samples) -> None:
    """Load the stored calls, and decide each by two sets of rules, compiled anew."""
    store = SqliteStore(path)
    await store.open()
    try:
        for thread in range(sizes.calls // CALLS_OF_THREAD):
            await store.commit(make_commit(thread))
        old, new = {"rules": rules(RULES)}, {"rules": rules(RULES, 1)}
        for _ in range(sizes.diffs):
            with timed(samples, "policy diff over stored calls"):
                with timed(samples, "policy diff: loading the calls"):
                    calls = await load_calls(store, None, sizes.calls)
                await compare_policies(PermissionInspector(), old, new, calls)
            assert len(calls) == sizes.calls
    finally:
        await store.close()


def make_messages(call: ToolCall) -> tuple[Message, Message]:
    """A call of a model, and its result."""
    content = user("done").content
    return (
        Message(role=Role.ASSISTANT, id=f"m-{call.id}", tool_calls=(call,)),
        Message(role=Role.TOOL, id=f"r-{call.id}", tool_call_id=call.id, content=content),
    )


def make_commit(thread: int) -> Commit:
    """A thread with some calls of a model, one in a message."""
    calls = [
        ToolCall(
            id=f"call-{thread}-{n}",
            name=f"tool_{(thread + n) % 100}",
            arguments={"command": f"git commit -m {thread}", "path": f"/srv/{n}/readme.md"},
        )
        for n in range(CALLS_OF_THREAD)
    ]
    return Commit(
        commit_id=f"commit-{thread}",
        thread_id=f"thread-{thread}",
        expected_version=0,
        committed_at=1,
        messages=tuple(message for it in calls for message in make_messages(it)),
    )


async def measure_all(folder: Path, sizes: Sizes) -> Samples:
    """Every figure; the parts use one store, one after another."""
    samples: Samples = {}
    path = folder / "config.db"
    for measure, where in (
        (measure_publishing, path),
        (measure_signals, path),
        (measure_history, path),
        (measure_diff, folder / "calls.db"),
    ):
        print(f"{measure.__name__} ...", file=sys.stderr, flush=True)
        await measure(where, sizes, samples)
    return samples


def format_table(samples: Samples) -> str:
    """The table; a goal is met when 95 of 100 samples are within it."""
    rows = []
    for name, taken in samples.items():
        p50, p95 = quantile(taken, 0.5), quantile(taken, 0.95)
        goal = GOALS_MS.get(name)
        verdict = "" if goal is None else "yes" if p95 <= goal else "NO"
        limit = "" if goal is None else f"{goal:,.0f}"
        figures = map(digits, (p50, p95, max(taken)))
        rows.append((name, limit, *figures, len(taken), verdict))
    return markdown(("ms", "goal", "p50", "p95", "longest", "samples", "met"), rows)


def is_met(samples: Samples) -> bool:
    """Whether every goal is met."""
    return all(quantile(samples[name], 0.95) <= goal for name, goal in GOALS_MS.items())


def main() -> int:
    """Print the figures; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few samples of small stores")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow is not None:
        asyncio.run(follow(given.follow))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        samples = asyncio.run(measure_all(Path(folder), QUICK if given.quick else Sizes()))
    print(format_table(samples))
    return int(not is_met(samples))


if __name__ == "__main__":
    sys.exit(main())
