"""What a simulation of agents covered, and what it found."""

from awaken.contracts.record import Record


class Violation(Record, frozen=True, kw_only=True):
    """A trial that broke a promise, and how to see it again."""

    seed: int | None = None
    """The schedule; absent means first come, first served."""
    crash: str | None = None
    """When the process was killed; absent means never."""
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [f"seed={self.seed}"] if self.seed is not None else []
        shown += [f"crash={self.crash!r}"] if self.crash is not None else []
        how = f"simulate_agent(…, {', '.join(shown)})" if shown else "a plain run"
        return "\n".join([f"{how}:", *(f"  - {problem}" for problem in self.problems)])


class AgentReport(Record, frozen=True, kw_only=True):
    """What a simulation covered and what it found."""

    schedules: int
    crash_points: int
    seed: int | None = None
    """The one schedule that was seen again; absent for a whole simulation."""
    violations: tuple[Violation, ...] = ()
    smallest: Violation | None = None
    """The simplest trial that shows the first violation."""

    def __str__(self) -> str:
        counts = (
            (self.schedules, "schedule"),
            (self.crash_points, "crash point"),
            (len(self.violations), "violation"),
        )
        return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)


class AgentViolated(AssertionError):
    """Some trial broke a promise; `report` has all of them."""

    def __init__(self, report: AgentReport) -> None:
        self.report = report
        super().__init__(f"{report}\nThe smallest: {report.smallest}")
