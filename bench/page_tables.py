"""The tables of the benchmark page, from results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frameworks import BEFORE
from page_goals import US
from results import Run, Section, Values, middle, shown
from server_rows import STORED
from stats import digits, markdown

NOTHING = "Not measured in this run.\n"
Column = tuple[str, str]
"""Heading and figure."""


def table(
    section: Section | None, columns: Sequence[Column], order: str, first: str = "framework"
) -> str:
    """Rows by one figure, or by name; columns without any figure are left out."""
    if section is None:
        return NOTHING
    kept = [it for it in columns if any(figures.get(it[1]) for figures in section.rows.values())]
    rows = {
        row: figures
        for row, figures in section.rows.items()
        if any(figures.get(figure) for _, figure in kept)
    }
    if not rows:
        return NOTHING
    by_order = sorted(rows, key=lambda row: middle(rows[row].get(order) or [float("inf")]))
    if not order:
        by_order = sorted(rows)
    lines = [
        [name_row(section, row), *(shown(rows[row].get(figure)) for _, figure in kept)]
        for row in by_order
    ]
    return markdown([first, *(heading for heading, _ in kept)], lines) + missing(section)


def name_row(section: Section, row: str) -> str:
    """The shown name of a row."""
    title = section.title(row)
    return f"**{title}**" if row in (US, STORED) else title


def missing(section: Section) -> str:
    """A line for each row that was left out, and why."""
    if not section.skipped:
        return ""
    return "\n" + "".join(f"- {row}: skipped, {why}\n" for row, why in section.skipped.items())


def merged(run: Run) -> str:
    """Single turns, crowds and imports side by side."""
    whole = Section("")
    for name in ("micro", "conc", "coldstart"):
        if section := run.sections.get(name):
            whole.titles |= section.titles
            whole.skipped |= section.skipped
            for row, figures in section.rows.items():
                if row != "python":
                    whole.rows.setdefault(row, {}).update(figures)
    columns = (
        ("W1 ms", "W1"), ("W2 ms", "W2"), ("W3 ms", "W3"), ("W4h1000 ms", "W4h1000"),
        ("W6 us/delta", "W6"), ("W5 CPU s", "W5"), ("W5 RSS growth MB", "W5 MB"),
        ("W5 lag p99 ms", "W5 lag"), ("import CPU s", "import"),
    )  # fmt: skip
    return table(whole, columns, "W2")


def stored(run: Run) -> str:
    """W4p of every framework, with what each store is."""
    section = run.sections.get("persist")
    if section is None or not section.rows:
        return NOTHING
    columns: list[Column] = []
    for point in (40, 200, 1000):
        columns += [(f"CPU ms @{point}", f"W4p@{point}"), ("wall ms", f"W4p wall@{point}")]
        columns += [("KB written", f"W4p KB@{point}")]
    columns.append(("MB in the end", "W4p MB"))
    text = table(section, columns, "W4p@40")
    notes = "".join(f"- {section.title(row)}: {note}\n" for row, note in section.notes.items())
    return f"{text}\nStores:\n\n{notes}"


def durable(run: Run) -> str:
    """Durable runs at scale."""
    section = run.sections.get("durable")
    count = run.values("durable", US, "suspended")
    suspended = f"{middle(count):,.0f} suspended runs, MB" if count else "suspended runs, MB"
    columns = (
        ("runs/s, one tool call each", "runs/s"), ("CPU ms a run", "CPU ms"),
        ("queued runs/s", "queued runs/s"), ("cold load of 2,000 messages, ms", "cold load ms"),
        (suspended, "suspended MB"), ("one of them goes on after a restart, ms", "resumed ms"),
        ("statements at message 2,000 / 20", "flat statements"),
        ("bytes at message 2,000 / 20", "flat bytes"),
    )  # fmt: skip
    return table(section, columns, "CPU ms", "version")


def statements(run: Run) -> str:
    """What a database is asked in one turn."""
    columns = (
        ("statements", "statements"), ("writes", "writes"), ("commits", "commits"),
        ("round trips", "round trips"), ("bytes", "bytes"),
    )  # fmt: skip
    return table(run.sections.get("statements"), columns, "", "store and turn")


def over_http(run: Run) -> str:
    """Models over HTTP."""
    columns = (
        ("W1 ms", "W1"), ("W2 ms", "W2"), ("W4h1000 ms", "W4h1000"), ("W6 us/delta", "W6"),
        ("W5 CPU s", "W5"),
    )  # fmt: skip
    return table(run.sections.get("http"), columns, "W2")


FORMATS = ("openai_chat", "openai_responses", "anthropic", "gemini")


def codecs(run: Run) -> str:
    """The formats alone."""
    head = ("format", "MB/s of events", "us/delta", "encode 1,000 messages, ms", "again, ms")
    units = ("MB/s", "us", "encode ms", "again ms")
    return picked(run, "codecs", head, [(it, [f"{it} {unit}" for unit in units]) for it in FORMATS])


def picked(
    run: Run, section: str, head: Sequence[str], lines: Iterable[tuple[str, Sequence[str]]]
) -> str:
    """Figures of our own row, arranged as lines: a title, and a figure for each other column."""
    if run.sections.get(section) is None or US not in run.sections[section].rows:
        return NOTHING
    rows = [
        [title, *(shown(run.values(section, US, figure)) for figure in figures)]
        for title, figures in lines
    ]
    return markdown(head, rows)


def servers(run: Run) -> str:
    """W8 of every server."""
    columns = (
        ("runs/s, 100 clients", "runs/s"), ("of `plain`", "of plain"), ("CPU ms a run", "CPU ms"),
        ("first event, alone, ms", "alone ms"), ("paced, p50 ms", "first p50 ms"),
        ("p99 ms", "first p99 ms"), ("paced and spread, p50 ms", "spread p50 ms"),
        ("p99 ms", "spread p99 ms"), ("streams held", "held"), ("KB each", "KB a stream"),
    )  # fmt: skip
    return table(run.sections.get("server"), columns, "CPU ms", "server")


def overload(run: Run) -> str:
    """Five times as many clients."""
    columns = (
        ("runs/s of 100", "runs/s of 100"), ("of 500", "runs/s of 500"), ("kept", "kept"),
        ("run p99 of 500, ms", "run p99 ms of 500"), ("sent away", "sent away"),
        ("errors", "errors"), ("RSS x", "RSS"), ("`/health/live` p50 ms", "live p50 ms"),
        ("p99 ms", "live p99 ms"),
    )  # fmt: skip
    section = run.sections.get("server")
    if section is None:
        return NOTHING
    whole = Section("", {row: it for row, it in section.rows.items() if "kept" in it})
    whole.titles = section.titles
    return table(whole, columns, "run p99 ms of 500", "server")


def own_server(run: Run) -> str:
    """What is done to our server only."""
    head = ("what", "measured")
    lines = (
        ("readers of one run, KB each", ["KB a reader"]),
        ("part of the readers that is told of its end", ["told"]),
        ("seconds until all are told", ["told s"]),
        ("runs/s beside readers that never read, as a part of those without", ["beside stuck"]),
        ("MB more beside readers that never read", ["MB beside stuck"]),
        ("seconds from `awaken serve` to its first answer", ["start s"]),
    )
    return picked(run, "server", head, lines)


TURNS = {
    "plain": "`runtime.run`, no tools (W1)",
    "looks": "one pure tool call",
    "pays": "one tool call with an effect",
    "rounds": "ten tool rounds (W2)",
    "parallel": "20 parallel tools (W3)",
    "durable_plain": "SQLite, no tools",
    "durable_looks": "SQLite, one pure tool call, a new thread",
    "durable_pays": "SQLite, one tool call with an effect",
    "again": "no tools, on one thread that grows (W4)",
    "durable_again": "SQLite, one pure tool call, on one thread that grows (W4p)",
    "served": "`POST /v1/runs`, one piece",
    "streamed": "`POST /v1/runs`, 20 pieces",
}


def calls(run: Run) -> str:
    """Function calls, statements, commits and bytes of a turn, before and now."""
    section = run.sections.get("calls")
    if section is None or US not in section.rows:
        return NOTHING
    has_before = BEFORE in section.rows
    titles = ("calls in the loop's thread", "in other threads", "statements", "commits", "bytes")
    head = ["turn"]
    for title in titles:
        head += [f"{title}, before", "now"] if has_before else [title]
    rows = []
    for name, title in TURNS.items():
        agent = name.removeprefix("durable_") if name.startswith("durable_") else "none"
        keys = [f"calls {name}", f"calls {name}_threads"]
        keys += [f"{it} {agent}" for it in ("statements", "commits", "bytes")]
        cells = []
        for key in keys:
            for row in (BEFORE, US) if has_before else (US,):
                value = run.values("calls", row, key)
                cells.append(f"{middle(value):,.0f}" if value else "-")
        rows.append([title, *cells])
    return markdown(head, rows)


def walk(run: Run) -> str:
    """The way of a run with one tool call through the code."""
    titles = ("functions", "files", "changes of file", "stack depth")
    ways = ("runtime.run", "POST /v1/runs")
    lines = [(f"`{way}`", [f"{way}: {title}" for title in titles]) for way in ways]
    return picked(run, "calls", ("", *titles), lines)


AGENTS = {
    "tools": "1,000 tools",
    "mcp": "1,000 tools of an MCP server",
    "tools+permission": "1,000 tools, 1,000 permission rules",
    "skills": "500 skills",
    "tools+deferred": "1,000 tools, deferred",
    "all": "all of it",
}


def extensions(run: Run) -> str:
    """What many tools, skills and rules cost a turn."""
    section = run.sections.get("extensions")
    if section is None:
        return NOTHING
    rows = []
    for agent, title in AGENTS.items():
        figures = section.rows.get(agent, {})
        if later := figures.get("later ms"):
            # Of a difference that is about zero a part of the median says nothing.
            told = f"{middle(later):.2f}, {min(later):.2f} to {max(later):.2f}"
            rows.append([title, told, shown(figures.get("RSS MB"), ".1f")])
    return markdown(("agent", "first token later by, ms", "memory, MB"), rows)


def alone(run: Run) -> str:
    """Patterns, policies and telemetry alone."""

    def part(values: Values | None) -> str:
        return f"{middle(values):+.1%}" if values else "-"

    section = run.sections.get("extensions")
    if section is None or US not in section.rows:
        return NOTHING
    found = section.rows[US]
    kinds = {
        "mixed rules": "1,000 mixed rules",
        "all meet, glob": "globs that all speak of the tool",
        "all meet, regex": "regular expressions that all speak of the tool",
        "all meet, regex, gaps": "regular expressions with `.*` in them",
    }
    rows = [
        [
            f"tool patterns, {title}, million rules x calls a second",
            f"{shown(found.get(f'{kind}: M/s may'))} to deny or ask, "
            f"{shown(found.get(f'{kind}: M/s must'))} to allow",
        ]
        for kind, title in kinds.items()
    ]
    diffs = [shown(found.get(f"policy diff_{count} ms")) for count in (100, 1000)]
    quiet = "W1 plugin, no listener"
    sdk = [found.get(f"W1 {name}: ms") for name in ("plugin, SDK", "no plugin")]
    more = middle(sdk[0]) - middle(sdk[1]) if sdk[0] and sdk[1] else None
    rows += [
        ["35 hostile expressions on 100 KiB, slowest, ms", shown(found.get("hostile ms"))],
        ["`awaken policy diff`, 10,000 calls, ms", f"{diffs[0]}, 100 rules; {diffs[1]}, 1,000"],
        ["telemetry without a listener, CPU of W1", part(found.get(f"{quiet}: more"))],
        ["the same measured twice", part(found.get("W1 no plugin, again: more"))],
        ["telemetry with the OpenTelemetry SDK, ms a turn", digits(more) if more else "-"],
    ]
    return markdown(("what", "measured"), rows)


def plateau(run: Run) -> str:
    """Resident memory and objects while runs finish."""
    section = run.sections.get("plateau")
    if section is None or not section.rows:
        return NOTHING
    counts = [
        int(it.removeprefix("MiB@")) for it in next(iter(section.rows.values())) if "MiB" in it
    ]
    rows = []
    for mode, figures in section.rows.items():
        for title, key, form in (("RSS, MiB", "MiB", ".1f"), ("objects", "objects", ",.0f")):
            cells = (shown(figures.get(f"{key}@{count}"), form) for count in counts)
            rows.append([f"{mode}, {title}", *cells])
    return markdown(["runs", *(f"{count:,}" for count in counts)], rows)


def first(run: Run) -> str:
    """From a clone to an answer."""
    columns = (
        "packages", "MB", "CPU s", "s until installed", "s until ready",
        "s until the first answer",
    )  # fmt: skip
    section = run.sections.get("first")
    if section is None or US not in section.rows:
        return NOTHING
    return table(section, [(it, it) for it in columns], "MB", "version")


def versions(run: Run) -> str:
    """Packages of the peers, and who was not measured."""
    lines: dict[str, str] = {}
    for section in run.sections.values():
        lines |= {section.title(row): text for row, text in section.versions.items()}
    return "".join(f"- {name}: {text}\n" for name, text in lines.items()) or NOTHING
