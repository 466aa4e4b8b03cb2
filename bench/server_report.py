"""One page about the measured servers: a table of all, overload, the goals of ours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from server_rows import STORED, US
from stats import digits, markdown, millis, ratio
from suites import Outcome

NONE = "-"
SERVERS = (
    "server", "runs/s", "CPU ms a run", "first event, alone, ms", "of 100, p50 / p99",
    "paced, p50 / p99", "paced and spread", "paced run, s", "held of 1,000", "of 5,000",
    "KB each", "bytes a run",
)  # fmt: skip
OVERLOAD = (
    "server", "runs/s of 100", "of 500", "kept", "run p99 of 100, ms", "of 500", "sent away",
    "errors", "RSS", "/health/live p50 / p99, ms",
)  # fmt: skip

Figures = dict[str, list[dict[str, Any]]]  # what was measured of one server, by mode


def page(outcome: Outcome) -> str:
    """Everything that was found, as markdown."""
    load = ", ".join(f"{part:.2f}" for part in os.getloadavg())
    by_cpu = sorted(outcome.numbers.items(), key=lambda row: _value(row[1], "throughput", "cpu"))
    parts = [
        f"# Servers, {time.strftime('%F %T')}\n\nLoad averages at the end: {load}.\n",
        markdown(SERVERS, (_server(*row) for row in by_cpu if set(row[1]) - {"overload"})),
        markdown(OVERLOAD, (_overload(*row) for row in by_cpu if "overload" in row[1])),
        markdown(("goal", "limit", US, "verdict"), _goals(outcome.numbers)),
    ]
    if outcome.skipped:
        parts.append(
            "\n".join(f"- {what}: skipped, {why}" for what, why in outcome.skipped.items())
        )
    return "\n".join(parts)


def _server(name: str, figures: Figures) -> list[str]:
    size = _value(figures, "throughput", "size")
    held = [figures.get(f"hold {count}", [{}])[0] for count in (1000, 5000)]
    kb = [it["kb"] for it in held if it.get("held", 0) > 1]
    return [
        name,
        _shown(_value(figures, "throughput", "runs_s"), ",.0f"),
        _millis(figures, "throughput", "cpu"),
        _millis(figures, "throughput", "alone_first"),
        _two(figures, "throughput", "first_p50", "first_p99"),
        _two(figures, "paced", "first_p50", "first_p99"),
        _two(figures, "paced", "calm_p50", "calm_p99"),
        _shown(_value(figures, "paced", "done_p50"), ".2f"),
        *(f"{it['held']:,}" if it else NONE for it in held),
        f"{kb[-1]:.1f}" if kb else NONE,
        _shown(size, ",.0f"),
    ]


def _overload(name: str, figures: Figures) -> list[str]:
    found = figures["overload"][-1]
    statuses = ", ".join(map(str, found["shed_statuses"]))
    return [
        name,
        f"{found['usual_s']:,.0f}",
        f"{found['goodput_s']:,.0f}",
        f"{found['share']:.0%}",
        millis(found["usual_p99"]),
        millis(found["done_p99"]),
        f"{found['shed']:,} ({statuses})" if statuses else "0",
        f"{found['errors_count']:,}",
        ratio(found["rss_share"]),
        _two(figures, "overload", "live_p50", "live_p99"),
    ]


def _goals(numbers: dict[str, Figures]) -> Iterator[tuple[str, str, str, str]]:
    us, stored = numbers.get(US, {}), numbers.get(STORED, {})
    checks = (
        ("runs/s with 100 clients, in memory", 1000, 1, us, "throughput", "runs_s"),
        ("CPU ms a run, in memory", -1, 1e3, us, "throughput", "cpu"),
        ("runs/s with 100 clients, SQLite", 300, 1, stored, "throughput", "runs_s"),
        ("first event p99 ms, paced", -50, 1e3, us, "paced", "first_p99"),
        ("first event p99 ms, paced, SQLite", -50, 1e3, stored, "paced", "first_p99"),
        ("KB a reader of one run", -25, 1, us, "readers", "kb"),
        ("share of readers that hear the end", 1, 1, us, "readers", "told_share"),
        ("share of runs/s kept at 5 x clients", 0.8, 1, us, "overload", "share"),
        ("share of runs/s beside readers that never read", 0.95, 1, us, "stuck", "share"),
        ("MB more beside readers that never read", -16, 1e-6, us, "stuck", "growth"),
        ("seconds to the first answer of `awaken serve`", -1, 1, us, "start", "seconds"),
    )
    for goal, limit, scale, figures, mode, key in checks:
        if mode in figures:
            found = _value(figures, mode, key) * scale
            is_met = found >= limit if limit > 0 else found <= -limit
            shown = f"{'>=' if limit > 0 else '<='} {abs(limit):,}"
            yield goal, shown, digits(found), "met" if is_met else "**not met**"


def _value(figures: Figures, mode: str, key: str) -> float:
    """The median over the rounds; infinite without one, so that it is sorted last."""
    found = [it[key] for it in figures.get(mode, ())]
    return median(found) if found else float("inf")


def _millis(figures: Figures, mode: str, key: str) -> str:
    value = _value(figures, mode, key)
    return millis(value) if value < float("inf") else NONE  # nor NaN


def _two(figures: Figures, mode: str, first: str, second: str) -> str:
    return f"{_millis(figures, mode, first)} / {_millis(figures, mode, second)}"


def _shown(value: float, form: str) -> str:
    return format(value, form) if value < float("inf") else NONE
