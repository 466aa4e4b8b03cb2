"""From a clean clone to the first answered request: `make serve` in a copy of this repository.

usage: first_request.py [FOLDER]
The clone has what is committed. FOLDER must not exist and is kept; without it the clone is deleted.
The CPU is that of all processes together, the size what the environment takes on disk.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BODY = {"agentId": "default", "messages": [{"role": "user", "content": "RUN_WEATHER_TOOL"}]}


def measure(folder: Path) -> dict[str, Any]:
    """Clone, install, serve, ask once, and end the server."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    start = time.perf_counter()
    process = subprocess.Popen(
        ["make", "serve", "ARGS=--port 0 --json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        url = wait_for_url(process)
        ready = time.perf_counter() - start
        ask(f"{url}/v1/runs")
        answered = time.perf_counter() - start
    finally:
        # The group is the one that this process made: make, and the server that it started.
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = folder / ".venv"
    installed = (environment / "serving").stat().st_mtime - (
        environment / "pyvenv.cfg"
    ).stat().st_mtime
    return {
        "packages": len(list(environment.glob("lib/*/site-packages/*.dist-info"))),
        "MB": round(sum(it.lstat().st_blocks for it in environment.rglob("*")) * 512 / 2**20),
        "s until installed": round(installed, 1),
        "s until ready": round(ready, 1),
        "s until the first answer": round(answered, 1),
        "CPU s": round(used.ru_utime + used.ru_stime, 1),
    }


def wait_for_url(process: subprocess.Popen[str]) -> str:
    """Where the server listens; make prints its commands before that."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("{"):
            url: str = json.loads(line)["url"]
            return url
    raise SystemExit("".join(said))


def ask(url: str) -> None:
    """One run, read to its end."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(BODY).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as reply:
        text = reply.read().decode()
    if '"run_finish"' not in text:
        raise SystemExit(f"no answer: {text}")


def main() -> None:
    given = [it for it in sys.argv[1:] if it != "--json"]
    if given:
        found = measure(Path(given[0]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            found = measure(Path(temporary) / "clone")
    for name, value in found.items():
        print(f"{name}: {value}")
    if "--json" in sys.argv:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
