"""Run every workload of some adapters once, to see that they work. Called by try.sh.

usage: smoke.py [--mode inproc|http] [NAME ...]     default: every framework of that mode
       smoke.py --mode server [NAME ...]             one run of each measured server
       smoke.py PYTHON ADAPTER                       an adapter outside of the list
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from frameworks import FRAMEWORKS, SUITES, Framework, lookup
from server_clients import Answers, ask
from server_processes import NotReady, serving
from server_rows import select as select_servers
from stats import median, millis
from suites import ALL_MICRO, model_server
from workers import WorkerProcess, log_skipped, started

Command = tuple[str, str, dict[str, Any]]  # (label, command, arguments)


def commands(folder: str) -> Iterator[Command]:
    """Every workload, small."""
    for workload in ALL_MICRO:
        yield workload, "bench", {"workload": workload, "seconds": 0.1}
    yield "W5", "concurrent", {"count": 20, "rounds": 3, "delay": 0.05}
    yield "open", "open_store", {"path": f"{folder}/s"}
    yield "W4p", "turns", {"count": 3}
    yield "close", "close_store", {}


def describe(answer: dict[str, Any]) -> str:
    """An answer in a few words."""
    if answer.get("error"):
        return answer["error"]
    if "turns" in answer:
        last = answer["turns"][-1]
        return f"{millis(last['cpu'])} ms CPU, {last['written'] / 1024:.1f} KB written"
    if "lag_p99" in answer:
        return f"{millis(answer['cpu'])} ms CPU for {answer['n']} runs"
    if "cpu" in answer:
        return f"{millis(median(answer['cpu']))} ms CPU, model saw {answer['seen']} messages"
    return "ok"


def smoke(worker: WorkerProcess) -> bool:
    """True when nothing failed; a workload the adapter leaves out is no failure."""
    fine = True
    folder = tempfile.mkdtemp()
    try:
        for label, command, arguments in commands(folder):
            answer = worker.ask(command, **arguments)
            if answer.get("error") and not answer.get("unsupported"):
                fine = False
            if command not in ("open_store", "close_store") or answer.get("error"):
                print(f"  {label:8} {describe(answer)}", flush=True)
            if command == "open_store" and answer.get("error"):
                break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return fine


async def smoke_servers(names: list[str]) -> str | None:
    """Start servers and let each play a run; what is wrong, or None."""
    rows, skipped = select_servers(",".join(names) or None)
    log_skipped(skipped)
    broken = []
    for row in rows:
        answers = Answers()
        try:
            async with serving(row, "20,0,0") as server:
                answers.take(await ask(server.port, server.request()), 20)
        except NotReady as reason:
            answers.errors.append(str(reason))
        print(f"{row.name}: {answers.errors[0] if answers.errors else 'ok'}", flush=True)
        if answers.errors:
            broken.append(row.name)
    return f"broken: {', '.join(broken)}" if broken else None


def chosen(names: list[str], mode: str) -> list[Framework]:
    """Frameworks by name; or PYTHON ADAPTER; or all that can run in the mode."""
    if len(names) == 2 and os.access(names[0], os.X_OK):
        return [Framework(names[1], names[1], os.path.abspath(names[0]), SUITES)]
    if names:
        return [lookup(name) for name in names]
    suites = {"http"} if mode == "http" else {"micro", "persist"}
    return [framework for framework in FRAMEWORKS.values() if suites & set(framework.suites)]


def main() -> None:
    """Try them one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["inproc", "http", "server"], default="inproc")
    parser.add_argument("--port", type=int, default=8399)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.mode == "server":
        raise SystemExit(asyncio.run(smoke_servers(args.names)))
    broken = []
    with model_server(args.mode, args.port) as base_url:
        for framework in chosen(args.names, args.mode):
            if reason := framework.missing():
                print(f"{framework.name}: skipped, {reason}")
                continue
            with started([framework], args.mode, base_url) as team:
                for worker in team.workers:
                    hello = team.hello[worker.name]
                    print(f"{worker.name}: {hello['versions']}", flush=True)
                if not all(smoke(worker) for worker in team.workers) or team.skipped:
                    broken.append(framework.name)
    if broken:
        raise SystemExit(f"broken: {', '.join(broken)}")


if __name__ == "__main__":
    main()
