"""Worker processes as the drivers see them: start, ask, end."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from frameworks import HERE, LOGS, Framework

START_TIMEOUT = 120.0
ANSWER_TIMEOUT = 600.0


def log(*words: object) -> None:
    """A line on stderr, with the time."""
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def log_skipped(skipped: dict[str, str]) -> None:
    """One clear line for each framework left out."""
    for name, reason in skipped.items():
        log(f"{name}: skipped, {reason}")


class WorkerProcess:
    """One framework in its own process; answers one command at a time."""

    def __init__(self, framework: Framework, mode: str, base_url: str) -> None:
        self.framework = framework
        self.name = framework.name
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log_path = LOGS / f"worker_{self.name}.log"
        command = [framework.python, HERE / "worker.py", framework.adapter, mode, base_url]
        with self.log_path.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=HERE,
                env=framework.environment(),
            )

    def ask(self, cmd: str, timeout: float = ANSWER_TIMEOUT, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait; failures come back as {"error": words}."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        try:
            stdin.write(json.dumps({"cmd": cmd, **arguments}) + "\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):
            return {"error": self.last_words()}
        ready, _, _ = select.select([stdout], [], [], timeout)
        if not ready:
            self.process.kill()  # a late answer would be taken for the next one
            return {"error": f"no answer to {cmd} within {timeout:g} s"}
        line = stdout.readline()
        return json.loads(line) if line else {"error": self.last_words()}

    def last_words(self) -> str:
        """Why a dead worker died, as far as its log tells."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'worker died'} (log: {self.log_path})"

    def quit(self) -> None:
        """End the process, kindly first."""
        stdin = self.process.stdin
        assert stdin
        with suppress(BrokenPipeError, ValueError):
            stdin.write('{"cmd": "quit"}\n')
            stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Team:
    """The workers that started, what they said of themselves, and who is missing."""

    workers: list[WorkerProcess] = field(default_factory=list)
    hello: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


@contextmanager
def started(frameworks: Iterable[Framework], mode: str, base_url: str) -> Iterator[Team]:
    """Start workers one after another; end them all afterwards."""
    team = Team()
    everyone: list[WorkerProcess] = []
    try:
        for framework in frameworks:
            worker = WorkerProcess(framework, mode, base_url)
            everyone.append(worker)
            hello = worker.ask("hello", timeout=START_TIMEOUT)
            if "error" in hello:
                team.skipped[worker.name] = f"did not start: {hello['error']}"
            elif mode not in hello["modes"]:
                team.skipped[worker.name] = f"has no {mode} mode"
            else:
                team.workers.append(worker)
                team.hello[worker.name] = hello
        log_skipped(team.skipped)
        yield team
    finally:
        for worker in everyone:
            worker.quit()
