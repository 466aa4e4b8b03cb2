"""Evals, two processes and SIGKILL: samples and scores once, nothing paid twice but in flight.

Two real processes share a store; both execute samples, and one drives. They are killed at random
moments and started again until the eval is over.
`python -m tests.torture.eval_kills --kills 100 --postgres 100`: so many on SQLite, and on Postgres.
"""

import argparse
import asyncio
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.postgres.server import new_schema, server
from tests.torture.due_times import stop
from tests.torture.eval_node import TOKENS, make_runtime
from tests.torture.lanes import scratch

from awaken import AgentRuntime
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalBudget, EvalSpec, EvalStatus
from awaken.contracts.evals.scores import ScorerSpec, ScoreSource
from awaken.contracts.evals.store import ScoreQuery
from awaken.contracts.evals.worlds import Variant
from awaken.evals.claims import LEASE_KEY, lease_scope
from awaken.evals.driving import list_items
from awaken.evals.evaluating import Dataset, keep_dataset

SCORERS = (ScorerSpec(scorer="contains", options={"phrases": ["yes"]}),)


class EvalStuck(Exception):
    """An eval does not go on; the message says how far it is."""


class EvalProgress(NamedTuple):
    """How far an eval is."""

    status: EvalStatus
    items: int
    calls: int


class EvalKills:
    """One eval, played with kills until its end."""

    def __init__(
        self,
        folder: Path,
        *,
        samples: int,
        kills: int,
        seed: int,
        url: str | None = None,
        patience_s: float = 120,
    ) -> None:
        self._patience_s = patience_s
        self._url = url or f"sqlite:///{folder / 'store.db'}"
        self._log = folder / "asked.log"
        self._samples = samples
        self._kills = kills
        self._chance = random.Random(seed)
        self._killed: list[int] = []
        self._nodes: list[subprocess.Popen[str]] = []

    async def play(self) -> dict[str, int]:
        """Kill until the kills are used up, wait for the end, and check."""
        eval_id = await self.create()
        try:
            begin = await self.measure(eval_id)
            self._nodes = [self._start(), self._start()]
            await self.await_move(eval_id, begin)
            for number in range(self._kills):
                await asyncio.sleep(self._chance.uniform(0, 1.5))
                if (await self.measure(eval_id)).status.is_terminal:
                    break
                # One of them, and now and then both.
                victims = (0, 1) if self._chance.random() < 0.25 else (number % 2,)
                for victim in victims:
                    self._killed.append(self._nodes[victim].pid)
                    stop(self._nodes[victim])
                    self._nodes[victim] = self._start()
                if len(victims) == 2:
                    # Nothing moves until one of them is up again.
                    await self.await_move(eval_id, await self.measure(eval_id))
            await self._await(eval_id, lambda now: now.status.is_terminal)
        finally:
            for node in self._nodes:
                stop(node)
        return await self._check(eval_id)

    async def play_deaths_after_items(self) -> dict[str, int]:
        """Let the driver die as soon as it has written its first item, then end, and check."""
        eval_id = await self.create()
        try:
            doomed = self._start("--dies-after-item")
            self._nodes = [doomed]
            await asyncio.to_thread(doomed.wait, self._patience_s)
            self._killed.append(doomed.pid)
            died = await self.measure(eval_id)
            assert died.items >= 1, died
            assert not died.status.is_terminal, died
            self._nodes.append(self._start())
            await self._await(eval_id, lambda now: now.status.is_terminal)
        finally:
            for node in self._nodes:
                stop(node)
        return await self._check(eval_id)

    async def create(self) -> str:
        """Plan the eval; no process drives it yet."""
        async with self._look() as made:
            cases = [
                Case(id=f"c{n}", user_input=f"question {n}", scorers=SCORERS)
                for n in range(self._samples)
            ]
            await keep_dataset(made.evals.parts.evals, Dataset(cases=tuple(cases)))
            spec = EvalSpec(
                dataset_id="dataset",
                variants=(Variant(name="v", agent_id="agent"),),
                repeats=1,
                concurrency=6,
                budget=EvalBudget(tokens=10**9),
            )
            return (await made.evals.create(spec)).eval_id

    def _start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.torture.eval_node", self._url, str(self._log)]
        return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)

    async def await_move(self, eval_id: str, before: EvalProgress) -> None:
        """Wait until an eval is further than before, or over: processes take their time to start.

        The last calls may be made already: then only items are written, or not even these.

        Raises:
            EvalStuck: It does not move.
        """
        await self._await(eval_id, lambda now: now != before or now.status.is_terminal)

    async def _await(self, eval_id: str, is_met: Callable[[EvalProgress], bool]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                while not is_met(await self.measure(eval_id)):
                    await asyncio.sleep(0.2)
        except TimeoutError as error:
            raise EvalStuck(await self._describe(eval_id)) from error

    async def measure(self, eval_id: str) -> EvalProgress:
        """Return how far an eval is."""
        calls = sum(map(len, self._read_asked().values()))
        async with self._look() as look:
            record = await look.evals.load(eval_id)
            items = await list_items(look.evals.parts.evals, eval_id)
        return EvalProgress(record.status, len(items), calls)

    def _look(self) -> AgentRuntime:
        return make_runtime(self._url, str(self._log)).with_options(has_worker=False)

    async def _describe(self, eval_id: str) -> str:
        """Describe how far an eval is, and who may hold it."""
        async with self._look() as look:
            record, engine = await look.evals.load(eval_id), look.evals.parts.control.engine
            items = await list_items(look.evals.parts.evals, eval_id)
            profile, now = engine.services.profile, await engine.store.now_ms()
            lease = await profile.find_entry(lease_scope(eval_id), LEASE_KEY)
        asked, written = self._read_asked(), {it.case_id for it in items}
        missing = {
            n: asked[f"question {n}"] for n in range(self._samples) if f"c{n}" not in written
        }
        return (
            f"eval '{eval_id}' does not go on: it is {record.status}, {len(items)} of "
            f"{record.planned} items are written; who asked for those that are missing: {missing}; "
            f"{sum(map(len, asked.values()))} calls, {len(self._killed)} kills; "
            f"exit codes of its nodes: {[it.poll() for it in self._nodes]}; "
            f"lease: {None if lease is None else lease.value}, now {now}"
        )

    def _read_asked(self) -> defaultdict[str, list[int]]:
        """Return which processes asked each question, in order."""
        asked: defaultdict[str, list[int]] = defaultdict(list)
        for line in self._log.read_text().splitlines() if self._log.exists() else ():
            pid, _, text = line.partition(" ")
            asked[text].append(int(pid))
        return asked

    async def _check(self, eval_id: str) -> dict[str, int]:
        async with self._look() as look:
            record = await look.evals.load(eval_id)
            evals = look.evals.parts.evals
            items = await list_items(evals, eval_id)
            query = ScoreQuery(source=ScoreSource.EVAL, limit=10 * self._samples)
            scored = Counter(it.run_id for it in await evals.list_scores(query))
        assert record.status is EvalStatus.DONE, record
        numbers = [it.number for it in items]
        assert numbers == list(range(self._samples)), "samples are lost or doubled"
        assert all(it.status == "scored" and it.scores[0].passed for it in items)
        # A driver that dies behind an item leaves no sample without its scores.
        assert scored == Counter(it.run_id for it in items), "scores are lost or doubled"
        asked, again = self._read_asked(), 0
        for n in range(self._samples):
            pids = asked[f"question {n}"]
            assert pids, f"question {n} was never asked"
            # A process asks again only for a call that died with the process that made it.
            assert set(pids[:-1]) <= set(self._killed), f"question {n} was paid twice: {pids}"
            assert max(Counter(pids).values()) == 1, f"question {n}: one process asked twice"
            again += len(pids) - 1
        spent = record.spent["tokens"]
        assert self._samples * TOKENS <= spent <= (self._samples + again) * TOKENS, spent
        return {
            "kills": len(self._killed),
            "samples": len(items),
            "asked again": again,
            "tokens": spent,
        }


def main() -> None:
    """Play evals until as many processes were killed as asked for, on each kind of store."""
    parser = argparse.ArgumentParser(prog="eval_kills")
    parser.add_argument("--kills", type=int, default=100, help="kills on SQLite")
    parser.add_argument("--postgres", type=int, default=100, help="kills on Postgres")
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    passed, failed = 0, 0
    for kind, kills in (("SQLite", given.kills), ("Postgres", given.postgres)):
        counts, problems = play_evals(
            kills, given.samples, given.seed, on_postgres=kind != "SQLite"
        )
        print(f"eval_kills on {kind}: seed {given.seed}: {dict(counts)}")
        passed, failed = passed + counts["evals"], failed + len(problems)
        for problem in problems:
            print(f"  FAILED on {kind}, {problem}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(min(failed, 1))


def play_evals(
    kills: int, samples: int, seed: int, *, on_postgres: bool
) -> tuple[Counter[str], list[str]]:
    """Play evals until so many processes were killed, or one eval went wrong."""
    counts: Counter[str] = Counter()
    while counts["kills"] < kills:
        left = kills - counts["kills"]
        with scratch() as folder, use_store(on_postgres=on_postgres) as url:
            trial = EvalKills(folder, samples=samples, kills=left, seed=seed, url=url)
            try:
                counts.update(asyncio.run(trial.play()))
                counts["evals"] += 1
            except (AssertionError, EvalStuck) as error:
                return counts, [f"seed {seed}: {error!r}"]
        seed += 1
    return counts, []


@contextmanager
def use_store(*, on_postgres: bool) -> Iterator[str | None]:
    """The URL of a new schema of a Postgres, as `eval_node` reads it; None for a file."""
    if not on_postgres:
        yield None
        return
    yield f"{server().url}#{new_schema()}"


if __name__ == "__main__":
    main()
