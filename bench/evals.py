"""What evals cost in this process: 200 scripted cases five times, and a comparison of two evals.

    python bench/evals.py

The goals are 4 s of CPU for the first, and 2 s for the second (500 cases, five repeats each).
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from random import Random

from awaken import Agent
from awaken.evals import Case, Dataset, EvalItem, ItemStatus, Score, ScriptedTurn, evaluate, scorers
from awaken.scoring.comparisons import compare_items
from awaken.testing import ScriptedModel

EVAL_GOAL_S = 4.0
COMPARE_GOAL_S = 2.0


def main() -> None:
    """Print both figures; exits with 1 if one misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--compared", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    tried = measure_cpu(lambda: try_cases(given.cases, given.repeats))
    compared = measure_cpu(lambda: compare_evals(given.compared, given.repeats))
    print(f"{given.cases} scripted cases x {given.repeats}: {tried:.2f} s CPU ({EVAL_GOAL_S:g})")
    size = f"2 x ({given.compared} x {given.repeats})"
    print(f"comparison of {size}: {compared:.2f} s CPU ({COMPARE_GOAL_S:g})")
    sys.exit(tried > EVAL_GOAL_S or compared > COMPARE_GOAL_S)


def measure_cpu(work: Callable[[], None]) -> float:
    """Return the CPU time of the process that work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def try_cases(count: int, repeats: int) -> None:
    """Try scripted cases in memory."""
    agent = Agent(id="agent", model=ScriptedModel([]), instructions="Answer.")
    script = (ScriptedTurn(text="yes"),)
    cases = [Case(id=f"c{at}", user_input="hi", provider_script=script) for at in range(count)]
    dataset = Dataset(cases=tuple(cases), scorers=(scorers.contains("yes"),))
    result = asyncio.run(evaluate(dataset, [agent], repeats=repeats))
    assert result.is_passed
    assert len(result.items) == count * repeats


def compare_evals(cases: int, repeats: int) -> None:
    """Compare two evals by one scorer."""
    rng = Random(1)
    first, second = (
        [
            EvalItem(
                number=at,
                case_id=f"c{at % cases}",
                variant=variant,
                sample=at // cases,
                status=ItemStatus.SCORED,
                scores=(Score(name="ok", value=float(rng.random() < 0.6), passed=True),),
            )
            for at in range(cases * repeats)
        ]
        for variant in "ab"
    )
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.cases == cases


if __name__ == "__main__":
    main()
