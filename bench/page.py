"""Writes the measured tables into docs/benchmarks.md and README.md, between markers.

A measured part stands between `<!-- measured:NAME -->` and `<!-- /measured -->`; the rest of a page
is written by hand and is not touched. All parts are of one version, which the page names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import page_goals
import page_tables
import trees
from results import Run, middle, shown
from server_rows import STORED
from stats import markdown

DOCS = trees.ROOT / "docs" / "benchmarks.md"
README = trees.ROOT / "README.md"
_PART = re.compile(r"<!-- measured:(?P<name>[\w-]+) -->\n.*?<!-- /measured -->", re.DOTALL)


class UnknownPart(Exception):
    """A page has a marker for which there is no table, or lacks one that it must have."""


def version(run: Run) -> str:
    """One sentence about what all figures are of."""
    took = sum(section.took for section in run.sections.values()) / 60
    other = f", beside the version before, {run.before.name}," if run.before else ""
    kind = " A short run: read nothing into its figures." if run.is_quick else ""
    return (
        f"awaken {run.version.awaken}, commit {run.version.name}{other} measured {run.when} in "
        f"{took:.0f} minutes. Python {run.python}, {run.cores} cores.{kind}\n"
    )


# What a run of ours has shown of each framework; the benchmark does not measure it.
FACTS = {
    "awaken": ("5, or a typed conflict", "all four"),
    "maf": ("1", "AG-UI"),
    "agno": ("1", "AG-UI, A2A"),
    "strands": ("1", "A2A"),
    "langgraph": ("an error; 5 with a reducer", "A2A"),
    "pydantic_ai": ("1", "AI SDK, AG-UI"),
    "openai_agents": ("not tried", "none of them"),
    "adk": ("1", "A2A"),
}
# The servers of each framework: in memory, and stored.
SERVED = {
    "awaken": ("awaken", STORED),
    "maf": ("agent-framework AG-UI", ""),
    "agno": ("agno AgentOS", "agno AgentOS+sqlite"),
    "langgraph": ("langgraph dev", ""),
    "pydantic_ai": ("pydantic-ai AG-UI", ""),
    "adk": ("google-adk api_server", ""),
}


def compared(run: Run) -> str:
    """The short table of the README, by CPU of ten tool rounds."""
    micro = run.sections.get("micro")
    if micro is None:
        return page_tables.NOTHING
    rows = []
    known = [row for row in FACTS if row in micro.rows]
    for row in sorted(known, key=lambda it: middle(micro.rows[it].get("W2") or [float("inf")])):
        cells = [
            shown(run.values("micro", row, "W2")),
            shown(run.values("micro", row, "W4h1000")),
            shown(run.values("persist", row, "W4p@1000")),
            _served(run, row),
            *FACTS[row],
        ]
        title = "**awaken**" if row == "awaken" else micro.title(row)
        rows.append([title, *(cell.partition(" ±")[0] for cell in cells)])
    head = (
        "", "ten tool rounds, CPU ms", "turn on 1,000 messages, CPU ms",
        "stored turn at 1,000 messages, CPU ms", "streamed runs/s over HTTP",
        "5 parallel `n = n + 1`", "serves AI SDK, AG-UI, A2A, ACP",
    )  # fmt: skip
    told = (
        f"{page_goals.sentence(run)} The stores differ: awaken waits for the disk at every commit, "
        "most others do not. The last two columns are what we found in these versions."
    )
    return f"{markdown(head, rows)}\n{told}\n"


def _served(run: Run, row: str) -> str:
    names = SERVED.get(row)
    found = [run.values("server", name, "runs/s") for name in names or ()]
    if not found or not found[0]:
        return "not measured"
    text = f"{middle(found[0]):,.0f}"
    return f"{text} ({middle(found[1]):,.0f} on SQLite)" if found[1] else text


PARTS: dict[str, Callable[[Run], str]] = {
    "version": version,
    "goals": page_goals.goals,
    "kept-goals": lambda run: page_goals.goals(run, page_goals.KEPT),
    "comparison": lambda run: f"{page_goals.comparison(run)}\n{page_goals.sentence(run)}\n",
    "turns": page_tables.merged,
    "stored": page_tables.stored,
    "durable": page_tables.durable,
    "statements": page_tables.statements,
    "http": page_tables.over_http,
    "codecs": page_tables.codecs,
    "servers": page_tables.servers,
    "overload": page_tables.overload,
    "own-server": page_tables.own_server,
    "calls": page_tables.calls,
    "walk": page_tables.walk,
    "extensions": page_tables.extensions,
    "alone": page_tables.alone,
    "plateau": page_tables.plateau,
    "first": page_tables.first,
    "versions": page_tables.versions,
    "compared": compared,
}
ON_README = {"compared"}


def fill(text: str, run: Run, wanted: set[str]) -> str:
    """The page with its measured parts made anew; what is outside of the markers stays.

    Raises:
        UnknownPart: A marker is unknown, or one that is wanted is missing.
    """
    found = {match["name"] for match in _PART.finditer(text)}
    if found != wanted:
        odd = ", ".join(sorted(found ^ wanted))
        raise UnknownPart(f"the markers of the page are not those of its tables: {odd}")

    def make(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- measured:{name} -->\n\n{PARTS[name](run).strip()}\n\n<!-- /measured -->"

    return _PART.sub(make, text)


def write(run: Run, folder: Path | None = None) -> list[Path]:
    """Write the pages, or copies of them into a folder, and return where.

    Raises:
        UnknownPart: A page's markers are not those of its tables; nothing is written.
    """
    pages = {DOCS: set(PARTS) - ON_README, README: ON_README}
    made = {page: fill(page.read_text("utf-8"), run, those) for page, those in pages.items()}
    written = []
    for page, text in made.items():
        target = folder / page.name if folder else page
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written
