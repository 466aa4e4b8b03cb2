"""Kill -9 two servers of which one works for the other, and see that nothing is lost or doubled.

`python -m tests.torture.two_servers --rounds 200`: two processes `awaken serve`, each with a store
of its own. Runs of the near one are executed by the far one, over A2A. In every round some are
begun, some of them are cancelled, and one server, both, or each in turn is killed meanwhile.
"""

import argparse
import asyncio
import json
import math
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from .lanes import scratch
from .mutants import ROOT
from .report import finish
from .two_servers_checks import EFFECTS, FAR, NEAR, broken_files, problems_of
from .two_servers_clients import Client, Errand, errands_of

APP = Path(__file__).with_name("two_servers_app.py")
READY_S, GONE_S, QUIET_S = 60, 30, 30
KILLED_AFTER_S, AWAY_S = (0.0, 0.7), (0.0, 0.3)
VICTIMS = {"near": (NEAR,), "far": (FAR,), "both": (NEAR, FAR), "nobody": ()}


class Server:
    """An `awaken serve` at one port, started again whenever it was killed."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._name = name
        self._settings = settings
        self._nest: asyncio.subprocess.Process | None = None
        self._port = _free_port()
        self._pid = 0

    @property
    def url(self) -> str:
        """Where it is, also while it is away."""
        return f"http://127.0.0.1:{self._port}"

    async def open(self) -> None:
        """Make it possible to start it."""
        own = {
            "PYTHONPATH": os.pathsep.join(
                (*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT))
            ),
            "TWO_SERVERS_STORE": f"sqlite:///{self._folder / self._name}",
            "TWO_SERVERS_EFFECTS": str(self._folder / EFFECTS),
            **self._settings,
        }
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._nest = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.torture.two_servers_nest"),
                cwd=ROOT,
                env=os.environ | own,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def start(self) -> None:
        """Start it and wait for the line that says that it is ready."""
        assert self._nest is not None
        assert self._nest.stdin is not None
        assert self._nest.stdout is not None
        arguments = [str(APP), "--port", str(self._port), "--json"]
        self._nest.stdin.write(json.dumps(arguments).encode() + b"\n")
        async with asyncio.timeout(READY_S):
            line = await self._nest.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} was never ready, see its log")
        self._pid = json.loads(line)["pid"]

    async def end(self, how: signal.Signals) -> None:
        """End it, and wait until it is gone."""
        is_there = self._is_there(how)
        async with asyncio.timeout(GONE_S):
            while is_there:
                await asyncio.sleep(0.005)
                is_there = self._is_there()

    async def close(self) -> None:
        """Kill whatever is left of it."""
        if self._pid:
            await self.end(signal.SIGKILL)
        if self._nest is not None:
            assert self._nest.stdin is not None
            self._nest.stdin.close()
            await self._nest.wait()

    def _is_there(self, how: int = 0) -> bool:
        try:
            os.kill(self._pid, how)
        except ProcessLookupError:
            return False
        return True


@dataclass(slots=True)
class Outcome:
    """What was done, and what was wrong with it."""

    rounds: int = 0
    errands: int = 0
    cancels: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def main() -> None:
    """Kill, and exit with 1 when anything was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="two_servers")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--runs", type=int, default=10, help="how many are begun in each round")
    parser.add_argument("--seconds", type=float, default=0, help="no round is begun after that")
    parser.add_argument("--victims", default="any", choices=("any", *VICTIMS))
    parser.add_argument("--cancels", type=float, default=0.4, help="the share that is cancelled")
    parser.add_argument("--failures", type=int, default=3, help="failed rounds that are enough")
    parser.add_argument("--folder", type=Path, help="kept, to be looked at")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.perf_counter()
    with nullcontext(args.folder) if args.folder else scratch() as folder:
        outcome = asyncio.run(_tortured(folder, args))
    counts = {
        "rounds": outcome.rounds,
        "errands": outcome.errands,
        "cancels": outcome.cancels,
        **{f"kills of {name}": count for name, count in sorted(outcome.kills.items())},
        **{f"runs ended: {name}": count for name, count in sorted(outcome.ends.items())},
        "seconds": round(time.perf_counter() - began, 1),
    }
    passed = outcome.rounds - len(outcome.failures)
    finish("two_servers", args.seed, counts, max(passed, 0), outcome.failures)


async def _tortured(folder: Path, args: argparse.Namespace) -> Outcome:
    outcome = Outcome()
    far = Server(folder, FAR, {})
    near = Server(folder, NEAR, {"TWO_SERVERS_PEER": far.url})
    servers = {NEAR: near, FAR: far}
    try:
        await asyncio.gather(*(server.open() for server in servers.values()))
        await asyncio.gather(*(server.start() for server in servers.values()))
        async with aiohttp.ClientSession() as session:
            await _rounds(folder, servers, Client(session, near.url), args, outcome)
        for server in servers.values():
            await server.end(signal.SIGTERM)
        outcome.failures += broken_files(folder)
    finally:
        for server in servers.values():
            await server.close()
    return outcome


async def _rounds(
    folder: Path,
    servers: Mapping[str, Server],
    client: Client,
    args: argparse.Namespace,
    outcome: Outcome,
) -> None:
    dice, until = random.Random(args.seed), time.perf_counter() + (args.seconds or math.inf)
    while outcome.rounds < args.rounds and len(outcome.failures) < args.failures:
        if time.perf_counter() > until:
            break
        errands = errands_of(f"r{outcome.rounds}", args.runs, args.cancels, dice)
        any_of = [*VICTIMS] if args.victims == "any" else [args.victims]
        victims = VICTIMS[dice.choice(any_of)]
        kills = [(servers[it], *_times(dice)) for it in victims]
        outcome.kills.update(victims)
        if found := await _round(folder, client, errands, kills, outcome):
            outcome.failures.append(f"round {outcome.rounds}: {'; '.join(found[:4])}")
        outcome.rounds += 1


async def _round(
    folder: Path,
    client: Client,
    errands: list[Errand],
    kills: list[tuple[Server, float, float]],
    outcome: Outcome,
) -> list[str]:
    """Have runs begun and servers killed, and see how both stores are when all is over."""
    async with asyncio.TaskGroup() as group:
        plays = [group.create_task(client.play(errand)) for errand in errands]
        for kill in kills:
            group.create_task(_killed(*kill))
    stuck = [problem for play in plays if (problem := play.result()) is not None]
    problems, ends = await _quiet(folder, errands)
    outcome.errands += len(errands)
    outcome.cancels += sum(errand.is_cancelled for errand in errands)
    outcome.ends += ends
    return [*stuck, *problems]


def _times(dice: random.Random) -> tuple[float, float]:
    """When a server is killed, and how long it is away."""
    return dice.uniform(*KILLED_AFTER_S), dice.uniform(*AWAY_S)


async def _killed(server: Server, after_s: float, away_s: float) -> None:
    await asyncio.sleep(after_s)
    await server.end(signal.SIGKILL)
    await asyncio.sleep(away_s)
    await server.start()


async def _quiet(folder: Path, errands: list[Errand]) -> tuple[list[str], Counter[str]]:
    """What is wrong when all that goes on by itself had its time to end."""
    until = time.perf_counter() + QUIET_S
    while True:
        problems, ends = problems_of(folder, errands)
        if not problems or time.perf_counter() > until:
            return problems, ends
        await asyncio.sleep(0.1)


def _free_port() -> int:
    """A port below those that the system hands out: nobody gets it while a server is away."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


if __name__ == "__main__":
    main()
