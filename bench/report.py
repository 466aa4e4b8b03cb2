"""Detailed tables from the result files, as markdown on stdout (all.py: the page)."""

from __future__ import annotations

import json
from typing import Any

from frameworks import RESULTS
from sections import AROUND
from stats import markdown, median, millis, quantile, ratio


def load(suite: str, mode: str = "inproc") -> dict[str, Any]:
    """A result file of `bench.py`, or an empty result."""
    try:
        return json.loads((RESULTS / f"{suite}_{mode}.json").read_text())
    except FileNotFoundError:
        return {"hello": {}, "skipped": {}, "numbers": {}}


def title(result: dict[str, Any], name: str) -> str:
    """The shown name of a framework."""
    return result["hello"].get(name, {}).get("name", name)


def show(heading: str, note: str, table: str) -> None:
    """A section."""
    print(f"### {heading}\n")
    if note:
        print(note + "\n")
    print(table)


def micro(mode: str, baseline: str) -> None:
    """W1-W4 and W6: CPU, ratio to the baseline, wall p50 and p95, peak memory."""
    result = load("micro", mode)
    numbers = result["numbers"]
    workloads = list(dict.fromkeys(w for mine in numbers.values() for w in mine))
    for workload in workloads:
        measured = {
            name: mine[workload]
            for name, mine in numbers.items()
            if workload in mine and mine[workload]["cpu"]
        }
        base = median(measured[baseline]["cpu"]) if baseline in measured else float("nan")
        rows = [
            [
                title(result, name),
                millis(median(total["cpu"])),
                ratio(median(total["cpu"]) / base),
                millis(median(total["wall"])),
                millis(quantile(total["wall"], 0.95)),
                f"{total['peak'] / 1e6:.0f}",
            ]
            for name, total in sorted(measured.items(), key=lambda item: median(item[1]["cpu"]))
        ]
        head = ["framework", "CPU ms", f"ratio to {baseline}", "wall p50 ms", "p95 ms", "RSS MB"]
        show(f"{workload} ({mode})", "", markdown(head, rows))


def persist() -> None:
    """W4p: CPU and bytes per stored turn as the thread grows."""
    result = load("persist")
    rows = []
    for name, mine in result["numbers"].items():
        if not mine["turns"]:
            continue
        row: list[object] = [title(result, name)]
        for messages in (40, 200, 1000):
            middle = messages // 4
            turns = mine["turns"][middle - AROUND : middle + AROUND]
            written = sum(turn["written"] for turn in turns) / max(1, len(turns)) / 1024
            row += [
                millis(median(turn["cpu"] for turn in turns)),
                millis(median(turn["wall"] for turn in turns)),
                f"{written:,.1f}",
            ]
        disk = mine.get("disk_closed") or mine.get("disk") or 0
        rows.append([*row, f"{disk / 1e6:.2f}", result["hello"][name]["store"]])
    head = ["framework"]
    for messages in (40, 200, 1000):
        head += [f"CPU ms @{messages}", "wall ms", "KB written"]
    note = "One thread, 4 messages (a tool round) per turn; medians of 20 turns, mean bytes."
    if rows:
        show("W4p, stored turns", note, markdown([*head, "MB in the end", "store"], rows))


def conc(mode: str, baseline: str) -> None:
    """W5: CPU, wall, memory, loop lag at each count."""
    result = load("conc", mode)
    counts = sorted({int(n) for mine in result["numbers"].values() for n in mine})
    for count in counts:
        by_name = {
            name: mine[str(count)]
            for name, mine in result["numbers"].items()
            if mine.get(str(count))
        }
        cpu = {name: median(run["cpu"] for run in runs) for name, runs in by_name.items()}
        base = cpu.get(baseline, float("nan"))
        rows = []
        for name in sorted(cpu, key=cpu.__getitem__):
            runs = by_name[name]
            lags = [run["lag_p99"] for run in runs if run["lag_p99"] is not None]
            growth = median(run["peak"] - run["rss_before"] for run in runs)
            rows.append(
                [
                    title(result, name),
                    f"{cpu[name]:.3f}",
                    ratio(cpu[name] / base),
                    millis(cpu[name] / count),
                    f"{min(run['wall'] for run in runs):.2f}",
                    f"{growth / 1e6:.0f}",
                    f"{min(lags) * 1e3:,.0f}" if lags else "-",
                    f"{min(run['run_p99'] for run in runs):.2f}",
                ]
            )
        head = ["framework", "CPU s", f"ratio to {baseline}", "CPU ms/run", "best wall s"]
        head += ["RSS growth MB", "lag p99 ms", "run p99 s"]
        show(f"W5, {count} runs at once ({mode})", "Ideal wall 0.2 s.", markdown(head, rows))


def coldstart() -> None:
    """Import and first answer."""
    result = load("coldstart")
    rows = [
        [
            name,
            f"{median(mine['cpu']):.3f}",
            f"{median(mine['wall']):.3f}",
            mine["modules"],
            f"{median(mine['rss']) / 1e6:.0f}",
            f"{median(mine['answer_cpu']):.3f}" if mine["answer_cpu"] else "-",
        ]
        for name, mine in result["numbers"].items()
        if mine["cpu"]
    ]
    head = ["import", "CPU s", "wall s", "modules", "RSS MB", "to first answer: CPU s"]
    if rows:
        show("Cold start", "Whole process, interpreter included.", markdown(head, rows))


def main() -> None:
    """Every table there are results for."""
    micro("inproc", "plain")
    persist()
    conc("inproc", "plain")
    coldstart()
    micro("http", "plain_httpx")
    conc("http", "plain_aiohttp")


if __name__ == "__main__":
    main()
