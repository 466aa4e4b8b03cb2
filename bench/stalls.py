"""Hostile bodies of up to the limit against every route that takes one: what each holds and grows.

usage: stalls.py [--size BYTES] [--routes REGEX] [--shapes REGEX] [--worst N] [--jobs N] [--save F]

For each route a server in a process of its own gets every shape of `stall_shapes` in every place of
its body that takes such a thing. Printed are the worst of them: CPU time for which the event loop
was held (the limit is 250 ms), and growth of memory (16 times the body of the limit's size). A case
that does not end in time is ended with its server.
"""

import argparse
import json
import re
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SERVER = str(Path(__file__).with_name("stall_server.py"))
PATIENCE_S = 30.0
HELD_MS = 250
GROWTH = 16


class Worker:
    """A server that plays the cases of one route from a number on."""

    def __init__(self, method: str, path: str, args: argparse.Namespace, skip: int) -> None:
        command = [sys.executable, SERVER, path, method, str(args.size), str(skip), args.shapes]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def line(self) -> Any:
        """The next line; None when it has ended, or does not come."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        text = self._process.stdout.readline() if ready else b""
        return json.loads(text) if text else None

    def end(self) -> int:
        """Stop it; 0 when it had come to its own end."""
        try:
            return self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait() or -1


def play(method: str, path: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All cases of one route."""
    found: list[dict[str, Any]] = []
    skip = 0
    while True:
        worker = Worker(method, path, args, skip)
        while (case := worker.line()) is not None:
            skip = case["case"]
            began = time.monotonic()
            result = worker.line()
            if result is None:
                waited = round((time.monotonic() - began) * 1000)
                result = {"held_ms": waited, "grown": 0, "bytes": 0, "status": 0,
                          "cpu_ms": waited, "reply": "did not end, or died"}  # fmt: skip
                found.append({"route": f"{method} {path}", **case, **result})
                break
            found.append({"route": f"{method} {path}", **case, **result})
        code = worker.end()
        if case is None and code == 0:
            return found
        if case is None:
            print(f"{method} {path}: the server could not be started or died ({code})")
            return found


def show(found: list[dict[str, Any]], key: str, unit: float, worst: int) -> None:
    """The worst by one figure."""
    for it in sorted(found, key=lambda it: -it[key])[:worst]:
        place = f"{it['route']} · {it['shape']} · {it['place']}"
        print(f"{it[key] / unit:9.1f}  {it['status']}  {it['bytes'] / 1e6:5.2f} MB  {place}")


def main() -> int:
    """Play everything and print the worst."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8 * 1024 * 1024 - 2000)
    parser.add_argument("--routes", default="")
    parser.add_argument("--shapes", default="")
    parser.add_argument("--worst", type=int, default=15)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--jobs", type=int, default=2, help="how many routes at once")
    args = parser.parse_args()
    listed = subprocess.run([sys.executable, SERVER, "routes"], stdout=subprocess.PIPE, check=True)
    routes = [it for it in json.loads(listed.stdout) if re.search(args.routes, " ".join(it))]
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for more in pool.map(lambda it: play(*it, args), routes):
            held, grown = max(it["held_ms"] for it in more), max(it["grown"] for it in more)
            route = more[0]["route"]
            print(f"{route}: {len(more)} cases, {held} ms, {grown / 1e6:.0f} MB", flush=True)
            found += more
            if args.save:
                args.save.write_text("\n".join(map(json.dumps, found)))
    shapes = {it["shape"] for it in found}
    print(f"\n{len(found)} cases: {len(shapes)} shapes, {len(routes)} routes")
    print("\nevent loop held, ms of CPU")
    show(found, "held_ms", 1, args.worst)
    print("\nmemory grown, MB")
    show(found, "grown", 1e6, args.worst)
    limit = GROWTH * args.size
    broken = [it for it in found if it["held_ms"] > HELD_MS or it["grown"] > limit]
    print(f"\n{len(broken)} of {len(found)} above {HELD_MS} ms or {limit / 1e6:.0f} MB")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
