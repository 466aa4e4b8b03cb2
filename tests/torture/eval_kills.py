"""Evals, two processes and SIGKILL: every sample once, none lost, nothing paid twice but in flight.

Two real processes share a store; both execute samples, and one drives. They are killed at random
moments and started again until the eval is over. `python -m tests.torture.eval_kills --kills 100`
"""

import argparse
import asyncio
import random
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.torture.due_times import stop
from tests.torture.eval_node import TOKENS, make_runtime
from tests.torture.lanes import scratch

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalBudget, EvalSpec, EvalStatus
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import Variant
from awaken.evals.driving import list_items
from awaken.evals.evaluating import Dataset, keep_dataset

SCORERS = (ScorerSpec(scorer="contains", options={"phrases": ["yes"]}),)


class EvalKills:
    """One eval, played with kills until its end."""

    def __init__(self, folder: Path, *, samples: int, kills: int, seed: int) -> None:
        self._url = f"sqlite:///{folder / 'store.db'}"
        self._log = folder / "asked.log"
        self._samples = samples
        self._kills = kills
        self._chance = random.Random(seed)
        self._killed: list[int] = []
        self._nodes: list[subprocess.Popen[str]] = []

    async def play(self) -> dict[str, int]:
        """Kill until the kills are used up, wait for the end, and check."""
        eval_id = await self._create()
        try:
            self._nodes = [self._start(), self._start()]
            await self._await_calls(1)
            for number in range(self._kills):
                await asyncio.sleep(self._chance.uniform(0, 1.5))
                if await self._is_over(eval_id):
                    break
                # One of them, and now and then both.
                victims = (0, 1) if self._chance.random() < 0.25 else (number % 2,)
                for victim in victims:
                    self._killed.append(self._nodes[victim].pid)
                    stop(self._nodes[victim])
                    self._nodes[victim] = self._start()
                if len(victims) == 2:
                    # Nothing moves until one of them is up again.
                    await self._await_calls(self._log.read_text().count("\n") + 1)
            async with asyncio.timeout(120):
                while not await self._is_over(eval_id):
                    await asyncio.sleep(0.3)
        finally:
            for node in self._nodes:
                stop(node)
        return await self._check(eval_id)

    async def _create(self) -> str:
        async with make_runtime(self._url, str(self._log)).with_options(has_worker=False) as made:
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

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.torture.eval_node", self._url, str(self._log)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    async def _await_calls(self, count: int) -> None:
        """Wait until so many calls were made: processes take their time to start."""
        async with asyncio.timeout(60):
            while not self._log.exists() or self._log.read_text().count("\n") < count:
                await asyncio.sleep(0.05)

    async def _is_over(self, eval_id: str) -> bool:
        async with make_runtime(self._url, str(self._log)).with_options(has_worker=False) as look:
            return (await look.evals.load(eval_id)).status.is_terminal

    async def _check(self, eval_id: str) -> dict[str, int]:
        async with make_runtime(self._url, str(self._log)).with_options(has_worker=False) as look:
            record = await look.evals.load(eval_id)
            items = await list_items(look.evals.parts.evals, eval_id)
        assert record.status is EvalStatus.DONE, record
        numbers = [it.number for it in items]
        assert numbers == list(range(self._samples)), "samples are lost or doubled"
        assert all(it.status == "scored" and it.scores[0].passed for it in items)
        asked: defaultdict[str, list[int]] = defaultdict(list)
        for line in self._log.read_text().splitlines():
            pid, _, text = line.partition(" ")
            asked[text].append(int(pid))
        again = 0
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
    """Play evals until as many processes were killed as asked for."""
    parser = argparse.ArgumentParser(prog="eval_kills")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    failed, seed = 0, given.seed
    while counts["kills"] < given.kills and not failed:
        with scratch() as folder:
            left = given.kills - counts["kills"]
            trial = EvalKills(folder, samples=given.samples, kills=left, seed=seed)
            try:
                counts.update(asyncio.run(trial.play()))
                counts["evals"] += 1
            except (AssertionError, TimeoutError) as error:
                failed = 1
                print(f"  FAILED seed {seed}: {error}")
        seed += 1
    print(f"eval_kills: seed {given.seed}: {dict(counts)}")
    print(f"{counts['evals']} passed, {failed} failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
