"""The goals, and awaken against its peers: what the results say, and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from frameworks import BASELINES, BEFORE
from results import Run, Section, Values, middle, shown
from server_rows import STORED
from stats import digits, markdown

US = "awaken"
BARE = (*BASELINES, "python", "plain_aiohttp", "plain_openai", "plain(h11)")


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must not be above its limit, or not below it when `is_least`."""

    what: str
    section: str
    figure: str
    limit: float
    unit: str = ""
    is_least: bool = False
    row: str = US

    def is_met(self, values: Values) -> bool:
        """Whether the median keeps to the limit."""
        found = middle(values)
        return found >= self.limit if self.is_least else found <= self.limit


GOALS = (
    Goal("W1 one turn", "micro", "W1", 0.06, "ms"),
    Goal("W2 ten tool rounds", "micro", "W2", 0.7, "ms"),
    Goal("W3 20 parallel tools", "micro", "W3", 0.5, "ms"),
    Goal("W4 one turn on 1,000 messages", "micro", "W4h1000", 0.09, "ms"),
    Goal("W4p durable turn at 40 messages", "persist", "W4p@40", 1.2, "ms"),
    Goal("W4p durable turn at 1,000 messages", "persist", "W4p@1000", 1.2, "ms"),
    Goal("W4p written per turn at 40 messages", "persist", "W4p KB@40", 12, "KB"),
    Goal("W4p written per turn at 1,000 messages", "persist", "W4p KB@1000", 12, "KB"),
    Goal("W4p flat: CPU at 1,000 over CPU at 200", "persist", "W4p flat", 1.25, "x"),
    Goal("durable runs/s, one process, 100 threads", "durable", "runs/s", 900, is_least=True),
    Goal("W5 1,000 concurrent runs, CPU", "conc", "W5", 0.35, "s"),
    Goal("W5 memory growth", "conc", "W5 MB", 18, "MB"),
    Goal("W5 loop lag p99", "conc", "W5 lag", 50, "ms"),
    Goal("W5 over HTTP, CPU", "http", "W5", 1.5, "s"),
    Goal("W8 runs/s in memory, as a part of `plain`", "server", "of plain", 0.8, is_least=True),
    Goal("W8 runs/s on SQLite", "server", "runs/s", 1_100, is_least=True, row=STORED),
    Goal("W8 stream with its run", "server", "KB a stream", 25, "KB"),
    Goal("W8 first event p99, 100 clients at once", "server", "first p99 ms", 40, "ms"),
    Goal("function calls of a plain turn", "calls", "calls plain", 250),
    Goal("function calls of a durable turn, new thread", "calls", "calls durable_looks", 900),
    Goal(
        "function calls of a durable turn, thread that grows", "calls", "calls durable_again", 900
    ),
    Goal("import, CPU", "coldstart", "import", 0.10, "s"),
)
KEPT = (
    Goal("W6 streamed delta", "micro", "W6", 2.5, "us"),
    Goal("one call on 1,000 messages over HTTP", "http", "W4h1000", 2, "ms"),
    Goal("streamed delta over HTTP", "http", "W6", 15, "us"),
    Goal("decoding events, slowest format", "codecs", "slowest MB/s", 50, "MB/s", is_least=True),
    Goal("cold load of 2,000 messages", "durable", "cold load ms", 20, "ms"),
    Goal("statements at message 2,000 over message 20", "durable", "flat statements", 1.2, "x"),
    Goal("bytes at message 2,000 over message 20", "durable", "flat bytes", 1.2, "x"),
    Goal("W8 a reader of another's run", "server", "KB a reader", 25, "KB"),
    Goal("W8 readers that are told the end", "server", "told", 1, is_least=True),
    Goal("W8 runs/s kept at five times the clients", "server", "kept", 0.8, is_least=True),
    Goal("W8 runs/s beside readers that never read", "server", "beside stuck", 0.95, is_least=True),
    Goal("`awaken serve` to its first answer", "server", "start s", 1, "s"),
)
"""Goals of before, which must stay met."""


def goals(run: Run, wanted: tuple[Goal, ...] = GOALS) -> str:
    """Each goal: limit, the version before, now, the best peer, and whether it is met."""
    rows = []
    for goal in wanted:
        values = run.values(goal.section, goal.row, goal.figure)
        if values is None:
            verdict = "not measured"
        else:
            verdict = "met" if goal.is_met(values) else "**not met**"
        limit = f"{'>=' if goal.is_least else '<='} {goal.limit:,g} {goal.unit}".strip()
        earlier = run.values(goal.section, goal.row.replace(US, BEFORE, 1), goal.figure)
        peer = best_peer(run.sections.get(goal.section), goal)
        rows.append([goal.what, limit, shown(earlier), shown(values), peer, verdict])
    return markdown(("goal", "limit", "before", US, "best peer", "verdict"), rows)


def best_peer(section: Section | None, goal: Goal) -> str:
    """The best figure of another framework in the same run, and its name."""
    if section is None or goal.figure == "of plain":
        return "-"
    is_stored = goal.row == STORED
    theirs = {
        row: value
        for row, value in peers(section, goal.figure).items()
        if row.endswith("+sqlite") == is_stored
    }
    if not theirs:
        return "-"
    best = (max if goal.is_least else min)(theirs, key=theirs.__getitem__)
    return f"{digits(theirs[best])} {section.title(best)}"


def peers(section: Section, figure: str) -> dict[str, float]:
    """What was measured of every row that is neither ours nor a bare loop."""
    return {
        row: middle(values[figure])
        for row, values in section.rows.items()
        if not row.startswith(US) and row not in BARE and values.get(figure)
    }


# workload, section, figure, unit: where awaken is compared with every peer by CPU
COMPARED = (
    ("one turn (W1)", "micro", "W1", "ms"),
    ("ten tool rounds (W2)", "micro", "W2", "ms"),
    ("20 parallel tools (W3)", "micro", "W3", "ms"),
    ("one turn on a new thread (W4h0)", "micro", "W4h0", "ms"),
    ("one turn on 1,000 messages (W4h1000)", "micro", "W4h1000", "ms"),
    ("stored turn at 40 messages (W4p)", "persist", "W4p@40", "ms"),
    ("stored turn at 1,000 messages (W4p)", "persist", "W4p@1000", "ms"),
    ("a run of 10 at once (W5)", "conc", "W5@10", "ms"),
    ("a run of 100 at once (W5)", "conc", "W5@100", "ms"),
    ("a run of 1,000 at once (W5)", "conc", "W5@1000", "ms"),
    ("streamed delta (W6)", "micro", "W6", "us"),
    ("one turn over HTTP", "http", "W1", "ms"),
    ("ten tool rounds over HTTP", "http", "W2", "ms"),
    ("streamed run served (W8)", "server", "CPU ms", "ms"),
    ("import", "coldstart", "import", "s"),
    ("first answer", "coldstart", "first answer", "s"),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """awaken and the cheapest of its peers on one workload."""

    workload: str
    unit: str
    ours: Values
    peer: str
    theirs: float
    count: int

    @property
    def is_cheapest(self) -> bool:
        """Whether awaken takes less CPU than every peer."""
        return middle(self.ours) < self.theirs


def compare(run: Run) -> Iterator[Comparison]:
    """Every workload that awaken and a peer have results of."""
    for workload, name, figure, unit in COMPARED:
        section = run.sections.get(name)
        ours = run.values(name, US, figure)
        theirs = peers(section, figure) if section else {}
        if section and ours and theirs:
            best = min(theirs, key=theirs.__getitem__)
            yield Comparison(workload, unit, ours, section.title(best), theirs[best], len(theirs))


def comparison(run: Run) -> str:
    """Each workload: is awaken below every peer?"""
    rows = [
        [
            it.workload,
            f"{shown(it.ours)} {it.unit}",
            f"{digits(it.theirs)} {it.unit} ({it.peer})",
            f"{it.theirs / middle(it.ours):.1f}x",
            it.count,
            "yes" if it.is_cheapest else "**no**",
        ]
        for it in compare(run)
    ]
    if not rows:
        return "There is nothing to compare: no peer has results.\n"
    question = "less CPU than every measured peer"
    return markdown(("workload", US, "best peer", "best / awaken", "peers", question), rows)


def sentence(run: Run) -> str:
    """On which workloads awaken is not the cheapest."""
    found = list(compare(run))
    dearer = [f"{it.workload} ({it.peer})" for it in found if not it.is_cheapest]
    if not found:
        return "awaken was measured without other frameworks."
    if not dearer:
        return f"awaken takes the least CPU of all on each of the {len(found)} measured workloads."
    told = "awaken is not the cheapest everywhere; another framework takes less CPU for"
    return f"{told}: {', '.join(dearer)}."
