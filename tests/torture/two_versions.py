"""Processes of two versions on one Postgres: expand, roll, crash, roll back, contract.

`python -m tests.torture.two_versions --before d0fe4031`: the older version is a commit of this
repository, or the folder of a checkout. Half of the processes have its code. Runs are submitted to
any of them all the time; each must end once, with its payment made once, whoever executes it.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from tests.postgres.server import server

from awaken.services.workers import OWNER

from .lanes import scratch
from .mutants import ROOT
from .report import finish

BEFORE = "d0fe4031"
"""The last commit with schema 11: before nodes, one-statement writes and the log by days."""
NODE = Path(__file__).with_name("two_versions_node.py")
READY_S, END_S = 60, 120


class VersionNode:
    """A process with the code of one version."""

    def __init__(self, source: Path, place: tuple[str, str, str]) -> None:
        self._source = source
        self._place = place
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start it; returns what it says first, which is an error if it refuses to."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(NODE), *self._place),
            env=os.environ | {"PYTHONPATH": str(self._source)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async with asyncio.timeout(READY_S):
            line = (await self._process.stdout.readline()).decode()
            return line or (await self._process.stderr.read()).decode()[-300:]

    async def submit(self, name: str) -> str:
        """Submit a run; returns its id, or nothing if the process is gone."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{name}\n".encode())
        async with asyncio.timeout(READY_S):
            return (await process.stdout.readline()).decode().strip()

    async def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """Let it drain and end."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(READY_S):
            await self._process.wait()


class Upgrade:
    """One schema, processes of two versions, and all the runs that they were given."""

    def __init__(self, older: Path, folder: Path) -> None:
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()
        self._schema = "awaken"
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._sources = {"old": older, "new": ROOT / "src"}
        self._nodes: list[VersionNode] = []
        self._submitted: dict[str, str] = {}

    async def start(self, version: str) -> VersionNode:
        """Start a process, and note if it does not start."""
        node = VersionNode(self._sources[version], (server().url, self._schema, str(self._ledger)))
        self._nodes.append(node)
        told = await node.start()
        self.counts[f"starts of {version} code"] += 1
        if not told.startswith("ready"):
            self.failures.append(f"a process with {version} code did not start: {told}")
        return node

    async def submit(self, *nodes: VersionNode, count: int = 8) -> None:
        """Submit some runs to each of the processes."""
        for number in range(count):
            for node in nodes:
                name = f"run-{len(self._submitted)}-{number}"
                self._submitted[name] = await node.submit(name)

    async def settle(self, stage: str) -> None:
        """Wait until everything has ended; what has not is stuck."""
        ids = [it for it in self._submitted.values() if it]
        text = (
            f"SELECT count(*) FROM {self._schema}.runs WHERE status = 'done' AND run_id = ANY($1)"
        )
        try:
            async with asyncio.timeout(END_S):
                while (await server().sql(text, ids))[0][0] < len(ids):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            self.failures.append(f"{stage}: runs are stuck")
        print(f"  {stage}: {len(ids)} runs have ended", flush=True)

    async def contract(self, *, is_refused: bool) -> None:
        """Ask for the contract by the command, and compare what it says."""
        command = [sys.executable, "-m", "awaken", "db", "contract", "--store", server().url]
        asked = await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | {"PYTHONPATH": str(self._sources["new"])},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asked.communicate()
        self.counts["contracts asked for"] += 1
        expected = "stop them" if is_refused else "is contracted"
        if bool(asked.returncode) is not is_refused or expected not in output.decode():
            self.failures.append(f"contract (refused: {is_refused}): {output.decode()[-300:]}")

    async def forget_reports(self) -> None:
        """Let the minute pass in which a process counts that has reported itself."""
        await server().sql(f"DELETE FROM {self._schema}.profiles WHERE owner = $1", OWNER)

    async def check(self) -> None:
        """Each run was begun and ended once, and paid at most once."""
        paid = Counter(self._ledger.read_text("utf-8").split("\n"))
        self.failures += [f"paid {n} times: {it}" for it, n in paid.items() if it and n > 1]
        if len(set(self._submitted.values())) != len(self._submitted):
            self.failures.append("two submissions made one run")
        self.counts["runs"] = len(self._submitted)
        self.counts["payments"] = len([it for it in paid if it])

    async def end(self) -> None:
        """Kill what is left."""
        for node in self._nodes:
            await node.kill()


async def play(upgrade: Upgrade) -> None:
    """The way to a new version, back, and forward again."""
    first, second = await upgrade.start("old"), await upgrade.start("old")
    await upgrade.submit(first, second)
    newer = await upgrade.start("new")
    await upgrade.submit(first, second, newer)
    await first.kill()
    await upgrade.settle("expanded, and a process of before crashed")
    first = await upgrade.start("old")
    third = await upgrade.start("new")
    await upgrade.submit(first, second, newer, third)
    await upgrade.contract(is_refused=True)
    await newer.kill()
    await third.stop()
    await upgrade.settle("rolled back, with a crash of the newer ones")
    await upgrade.submit(first, second)
    await upgrade.settle("the older ones alone")
    newer, third = await upgrade.start("new"), await upgrade.start("new")
    await upgrade.submit(first, second, newer, third)
    await first.kill()
    await second.stop()
    await upgrade.settle("rolled forward")
    await upgrade.forget_reports()
    await upgrade.contract(is_refused=False)
    await upgrade.submit(newer, third)
    await upgrade.settle("contracted")
    refused = await VersionNode(
        upgrade._sources["old"], (server().url, upgrade._schema, str(upgrade._ledger))
    ).start()
    if "StoreTooNew" not in refused and "newer" not in refused:
        upgrade.failures.append(f"older code after the contract: {refused}")
    await upgrade.check()


def unpack(before: str, folder: Path) -> Path | None:
    """The source of the older version; None if this clone does not have its commit."""
    if Path(before).is_dir():
        return Path(before) / "src"
    with tempfile.TemporaryFile() as archive:
        asked = ["git", "archive", before, "src"]
        done = subprocess.run(
            asked, cwd=ROOT, stdout=archive, stderr=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            return None
        archive.seek(0)
        subprocess.run(["tar", "x", "-C", str(folder)], stdin=archive, check=True)
    return folder / "src"


def main() -> None:
    """Upgrade, and exit with 1 when a run was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="two_versions")
    parser.add_argument("--before", default=BEFORE, help="a commit, or the folder of a checkout")
    args = parser.parse_args()
    began = time.perf_counter()
    server()
    with scratch() as folder, nullcontext(unpack(args.before, folder)) as older:
        if older is None:
            print(f"two_versions: skipped, this clone does not have commit {args.before}")
            return

        async def tried() -> Upgrade:
            upgrade = Upgrade(older, folder)
            try:
                await play(upgrade)
            finally:
                await upgrade.end()
            return upgrade

        upgrade = asyncio.run(tried())
    upgrade.counts["seconds"] = round(time.perf_counter() - began)
    passed = upgrade.counts["runs"]
    finish("two_versions", 0, dict(sorted(upgrade.counts.items())), passed, upgrade.failures)


if __name__ == "__main__":
    main()
