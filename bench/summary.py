"""One page from the newest results: a table of frameworks, the goals, awaken against its peers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frameworks import BASELINES, RESULTS
from stats import digits, markdown, median

SUITES = ("micro", "conc", "persist", "coldstart")
US = "awaken"
AROUND = 10  # stored turns averaged on each side of a point

Figures = dict[str, float]  # what was measured of one framework


def load(suite: str, mode: str = "inproc") -> dict[str, Any]:
    """A result file, or an empty result."""
    try:
        return json.loads((RESULTS / f"{suite}_{mode}.json").read_text())
    except FileNotFoundError:
        return {"hello": {}, "skipped": {}, "numbers": {}}


# ---- from raw results to figures ----


def micro_figures(numbers: dict[str, Any]) -> Figures:
    """CPU ms per run; for W6 CPU microseconds per delta."""
    figures = {
        workload: median(total["cpu"]) * 1e3 for workload, total in numbers.items() if total["cpu"]
    }
    if "W6" in figures:
        figures["W6"] = figures["W6"] / 2000 * 1e3
    if "W1" in figures and "W2" in figures:
        figures["W2 round"] = (figures["W2"] - figures["W1"]) / 10 * 1e3
    if "W4h0" in figures and "W4h1000" in figures:
        figures["W4 message"] = (figures["W4h1000"] - figures["W4h0"]) / 1000 * 1e3
    return figures


def conc_figures(numbers: dict[str, Any]) -> Figures:
    """CPU ms per run at each count; at 1,000 also total CPU s, memory MB and loop lag ms.

    Lag is the best of the rounds: another process on the machine can only make it worse.
    """
    figures: Figures = {}
    for count, runs in numbers.items():
        cpu = median(run["cpu"] for run in runs)
        figures[f"W5@{count}"] = cpu / int(count) * 1e3
        if count == "1000":
            figures["W5"] = cpu
            figures["W5 memory"] = median(run["peak"] - run["rss_before"] for run in runs) / 1e6
            figures["W5 lag"] = min(run["lag_p99"] for run in runs) * 1e3
    small = [figures[key] for key in ("W5@10", "W5@100") if key in figures]
    if small and "W5@1000" in figures:
        figures["W5 growth"] = figures["W5@1000"] / min(small)
    return figures


def persist_figures(numbers: dict[str, Any]) -> Figures:
    """CPU ms and KB written per stored turn around 40, 200 and 1,000 messages."""
    figures: Figures = {}
    for messages in (40, 200, 1000):
        middle = messages // 4
        turns = numbers["turns"][middle - AROUND : middle + AROUND]
        if len(turns) == 2 * AROUND:
            figures[f"W4p@{messages}"] = median(turn["cpu"] for turn in turns) * 1e3
            written = sum(turn["written"] for turn in turns) / len(turns)
            figures[f"W4p KB@{messages}"] = written / 1024
    if "W4p@200" in figures and "W4p@1000" in figures:
        figures["W4p growth"] = figures["W4p@1000"] / figures["W4p@200"]
    return figures


def coldstart_figures(numbers: dict[str, Any]) -> Figures:
    """CPU s of a process that only imports, and of one that gives a first answer."""
    names = {"import": "cpu", "first answer": "answer_cpu"}
    return {name: median(numbers[key]) for name, key in names.items() if numbers[key]}


EXTRACT: dict[str, Callable[[dict[str, Any]], Figures]] = {
    "micro": micro_figures,
    "conc": conc_figures,
    "persist": persist_figures,
    "coldstart": coldstart_figures,
}


# ---- the page ----

# heading, and the figure shown under it
COLUMNS = (
    ("W1 ms", "W1"),
    ("W2 ms", "W2"),
    ("W3 ms", "W3"),
    ("W4h1000 ms", "W4h1000"),
    ("W6 us/delta", "W6"),
    ("W5 CPU s", "W5"),
    ("W5 RSS growth MB", "W5 memory"),
    ("W5 lag p99 ms", "W5 lag"),
    ("import CPU s", "import"),
    ("W4p ms @40", "W4p@40"),
    ("W4p ms @1000", "W4p@1000"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """Awaken's figure must not be above the limit."""

    what: str
    figure: str
    limit: float
    unit: str


GOALS = (
    Goal("W1 one turn", "W1", 0.05, "ms"),
    Goal("W2 ten tool rounds", "W2", 0.7, "ms"),
    Goal("W2 per round", "W2 round", 60, "us"),
    Goal("W3 20 parallel tools", "W3", 0.8, "ms"),
    Goal("W4 one turn on 1,000 messages", "W4h1000", 0.1, "ms"),
    Goal("W4 per history message (about 0)", "W4 message", 0.05, "us"),
    Goal("W4p durable turn at 40 messages", "W4p@40", 1.5, "ms"),
    Goal("W4p durable turn at 1,000 messages", "W4p@1000", 2.0, "ms"),
    Goal("W4p written per turn at 40 messages", "W4p KB@40", 16, "KB"),
    Goal("W4p written per turn at 1,000 messages", "W4p KB@1000", 16, "KB"),
    Goal("W4p flat: CPU at 1,000 over CPU at 200", "W4p growth", 1.25, "x"),
    Goal("W5 1,000 concurrent runs, CPU", "W5", 0.35, "s"),
    Goal("W5 memory growth", "W5 memory", 20, "MB"),
    Goal("W5 loop lag p99", "W5 lag", 50, "ms"),
    Goal("W5 flat: CPU per run at 1,000 over the least at 10, 100", "W5 growth", 1.25, "x"),
    Goal("W6 streamed delta", "W6", 2.5, "us"),
    Goal("import, CPU", "import", 0.15, "s"),
)

# workload, figure, unit: where awaken is compared with every peer
COMPARED = (
    ("W1", "W1", "ms"),
    ("W2", "W2", "ms"),
    ("W3", "W3", "ms"),
    ("W4h0", "W4h0", "ms"),
    ("W4h1000", "W4h1000", "ms"),
    ("W4r1000", "W4r1000", "ms"),
    ("W4p at 40 messages", "W4p@40", "ms"),
    ("W4p at 1,000 messages", "W4p@1000", "ms"),
    ("W5 per run at 10", "W5@10", "ms"),
    ("W5 per run at 100", "W5@100", "ms"),
    ("W5 per run at 1,000", "W5@1000", "ms"),
    ("W6 per delta", "W6", "us"),
    ("import", "import", "s"),
    ("first answer", "first answer", "s"),
)


@dataclass(slots=True)
class Summary:
    """Everything the page is made of."""

    figures: dict[str, Figures]
    hello: dict[str, dict[str, Any]]
    skipped: dict[str, dict[str, str]]  # name -> suite -> reason

    @classmethod
    def of(cls, results: dict[str, dict[str, Any]]) -> Summary:
        """Gather the figures of result documents, keyed by suite."""
        summary = cls({}, {}, {})
        for suite, result in results.items():
            summary.hello |= result["hello"]
            for name, reason in result["skipped"].items():
                summary.skipped.setdefault(name, {})[suite] = reason
            for name, numbers in result["numbers"].items():
                if name != "python":  # coldstart's bare interpreter
                    summary.figures.setdefault(name, {}).update(EXTRACT[suite](numbers))
        return summary

    def title(self, name: str) -> str:
        """The shown name."""
        return self.hello.get(name, {}).get("name", name)

    def cell(self, name: str, figure: str) -> str:
        """A figure, or a dash."""
        value = self.figures.get(name, {}).get(figure)
        return "-" if value is None else digits(value)

    def peers(self) -> list[str]:
        """Everyone but awaken and our baselines."""
        return [name for name in self.figures if name not in (US, *BASELINES)]

    def table(self) -> str:
        """Rows = frameworks, by W2."""
        columns = [c for c in COLUMNS if any(c[1] in mine for mine in self.figures.values())]
        order = sorted(self.figures, key=lambda name: self.figures[name].get("W2", float("inf")))
        rows = [[self.title(n), *(self.cell(n, figure) for _, figure in columns)] for n in order]
        return markdown(["framework", *(heading for heading, _ in columns)], rows)

    def goals(self) -> str:
        """Each goal: met or not."""
        rows = []
        for goal in GOALS:
            value = self.figures.get(US, {}).get(goal.figure)
            if value is None:
                verdict = "not measured"
            else:
                verdict = "met" if value <= goal.limit else "**not met**"
            shown = self.cell(US, goal.figure)
            rows.append([goal.what, f"<= {goal.limit:g} {goal.unit}", shown, verdict])
        return markdown(["goal", "limit", US, "verdict"], rows)

    def comparison(self) -> str:
        """Each workload: is awaken below every peer?"""
        rows = []
        for workload, figure, unit in COMPARED:
            ours = self.figures.get(US, {}).get(figure)
            theirs = {n: self.figures[n][figure] for n in self.peers() if figure in self.figures[n]}
            if ours is None or not theirs:
                continue
            best = min(theirs, key=theirs.__getitem__)
            verdict = "yes" if ours < theirs[best] else "**no**"
            peer = f"{digits(theirs[best])} {unit} ({self.title(best)})"
            factor = f"{theirs[best] / ours:.1f}x"
            rows.append([workload, f"{digits(ours)} {unit}", peer, factor, len(theirs), verdict])
        if not rows:
            return "There is nothing to compare: no peer, or no awaken, in these results.\n"
        question = "less CPU than every measured peer"
        head = ["workload", US, "best peer", "best peer / awaken", "peers", question]
        return markdown(head, rows)

    def conditions(self) -> str:
        """Versions, and what is missing."""
        lines = []
        for name, hello in self.hello.items():
            if hello["versions"]:
                versions = ", ".join(f"{p} {v}" for p, v in hello["versions"].items())
                lines.append(f"- {name}: {versions}")
        pythons = {hello["python"] for hello in self.hello.values()}
        lines.append(f"- Python: {', '.join(sorted(pythons))}")
        load, cores = os.getloadavg()[1], os.cpu_count() or 1
        lines.append(f"- load average {load:.1f} on {cores} cores")
        if load > cores:
            lines.append("- **The machine was busy: lag and wall times say little.**")
        if len(pythons) > 1:
            lines.append("- **Different Python versions: the rows are not comparable.**")
        for name, reasons in self.skipped.items():
            if name in self.figures:
                lines += [f"- {name}: not in {suite}, {why}" for suite, why in reasons.items()]
            else:
                lines.append(f"- {name}: skipped, {next(iter(reasons.values()))}")
        return "\n".join(lines) + "\n"

    def page(self) -> str:
        """The whole page."""
        intro = (
            f"# Speed, {time.strftime('%F %T')}\n\nCPU (all threads), median, one interleaved run, "
            "the same scripted model for all. What the columns mean: bench/README.md.\n"
        )
        return "\n".join(
            [
                intro,
                self.table(),
                "## Goals (in-process)\n",
                self.goals(),
                "## awaken against its peers\n",
                self.comparison(),
                "## Conditions\n",
                self.conditions(),
            ]
        )


def write(results: dict[str, dict[str, Any]]) -> str:
    """Make the page, write results/summary.md, return it."""
    page = Summary.of(results).page()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "summary.md").write_text(page)
    return page


def main() -> None:
    """The page of the result files that are there."""
    print(write({suite: load(suite) for suite in SUITES}))


if __name__ == "__main__":
    main()
