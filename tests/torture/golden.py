"""What a scenario leaves behind after each step, and whether a crash left one of these.

The strongest check of a crash point: every row of every table is as before the step that was
under way, or as after it. Then the scenario is taken up from there and must end as it always does.
"""

from pathlib import Path

from .children import Child
from .history import FAILED, OK, History
from .lanes import scratch
from .playing import play
from .scenarios import SCENARIOS
from .store_file import Dump, dump_of, problems_of


class Golden:
    """A scenario's dumps: before its first step, and after each."""

    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
        self.count = len(SCENARIOS[scenario]())
        self.template = b""
        """The file of a store in which nothing has happened yet."""
        self.dumps: list[Dump] = []
        self.surprises: list[str] = []
        """What was refused or accepted against the scenario's intention, with no crash at all."""
        with scratch() as folder:
            path = folder / "store.db"
            self._play(path, 0, 0)
            self.template = path.read_bytes()
            self.dumps.append(dump_of(path))
            for step in range(self.count):
                self._play(path, step, step + 1)
                self.dumps.append(dump_of(path))

    def place(self, folder: Path, *, is_empty: bool) -> Path:
        """Put the file of a fresh store into a folder; an empty one has yet to be created."""
        for old in folder.iterdir():
            old.unlink()
        path = folder / "store.db"
        if not is_empty:
            path.write_bytes(self.template)
        return path

    def problems(self, path: Path, history: History, *, is_resumed: bool) -> list[str]:
        """What is wrong with a crashed store; `is_resumed` also plays the rest of the scenario."""
        problems = problems_of(path, history) if history.operations else []
        found = dump_of(path)
        steps = self._allowed(history)
        fitting = [step for step in steps if self._dump(step) == found]
        if not fitting:
            problems.append(
                f"what is left is that of none of the steps {steps}: {self._gap(found, steps)}"
            )
        elif is_resumed and not problems:
            problems += self._resumed(path, max(fitting[-1], 0))
        return [f"{self.scenario}, step {history.step}: {problem}" for problem in problems]

    def _play(self, path: Path, first: int, last: int) -> None:
        ended = Child(lambda fd: play(self.scenario, path, fd, first, last)).wait()
        if not ended.is_done:
            self.surprises.append(f"{self.scenario}, step {first}: it broke")
        self.surprises += [
            f"{self.scenario}, step {first}: {it.asked.kind} was {it.outcome}, without a crash"
            for it in ended.history.operations
            if it.outcome != (FAILED if it.wish.must_fail else OK)
        ]

    def _allowed(self, history: History) -> list[int]:
        """How many steps may be durable; -1 is a file without a schema."""
        if history.step < 0:
            return [-1, 0]
        return [step for step in (history.step, history.step + 1) if step <= self.count]

    def _dump(self, step: int) -> Dump:
        return {} if step < 0 else self.dumps[step]

    def _gap(self, found: Dump, steps: list[int]) -> list[str]:
        """Which tables fit which step."""
        return [
            f"{table} fits {[step for step in steps if self._dump(step).get(table) == rows]}"
            for table, rows in found.items()
            if any(self._dump(step).get(table) != rows for step in steps)
        ]

    def _resumed(self, path: Path, step: int) -> list[str]:
        if not Child(lambda fd: play(self.scenario, path, fd, step)).wait().is_done:
            return ["it could not be taken up again"]
        return [] if dump_of(path) == self.dumps[-1] else ["taken up again, it ended otherwise"]
