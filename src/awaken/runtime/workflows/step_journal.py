"""The journal of a workflow's run, as its code meets it again: answers by path, and differences.

A step's path is its ordinal within its branch; the steps of a branch of step 3 are `3.0.1`,
`3.0.2` and so on. It never depends on the order in which steps finish.
"""

from collections.abc import Iterable

import msgspec

from awaken.contracts.runs.records import Divergence
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import hash_call
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.workflows.steps import StepKind, read_path


class Diverged(BaseException):
    """The code does not do what the journal has; no code of a workflow may swallow this."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence)
        self.divergence = divergence


class WorkflowStep(msgspec.Struct, eq=False):
    """One step on its way: what the code asks for, and what is recorded of it."""

    path: str
    kind: StepKind
    name: str
    arguments: object
    arguments_hash: str
    generation: int
    """How often the run had been reset when the step was first taken."""
    record: ToolRecord | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it is recorded as suspended: its ticket has the rest."""
        found = self.record
        is_over = found is not None and found.status is ToolRecordStatus.FINISHED
        return is_over and not self.is_done

    @property
    def is_done(self) -> bool:
        """Whether its result is recorded."""
        found = self.record
        if found is None or found.status is not ToolRecordStatus.FINISHED:
            return False
        return found.result is None or found.result.status is not ToolStatus.PENDING


class StepJournal:
    """The records of one run by path; it notes which of them the code has come by."""

    def __init__(self, records: Iterable[ToolRecord]) -> None:
        self.generation = 0
        self.last_place = 0
        """The place of the record that was written last."""
        self.steps: dict[str, ToolRecord] = {}
        self._seen: set[str] = set()
        self._skipped: list[str] = []
        self._last: dict[str, int] = {}
        """The highest ordinal of each branch, by the prefix of its paths."""
        for record in sort_records(records):
            self.last_place = max(self.last_place, record.place)
            if record.kind == StepKind.RESET:
                self._take_back(record)
            else:
                self.steps[read_path(record.call_id)] = record
        for path in self.steps:
            prefix, ordinal = split_path(path)
            self._last[prefix] = max(ordinal, self._last.get(prefix, 0))

    def _take_back(self, record: ToolRecord) -> None:
        self.generation = max(self.generation, record.step)
        data = None if record.result is None else record.result.data
        for path in data["steps"] if isinstance(data, dict) else ():
            known = self.steps.get(path)
            if known is not None and known.step < record.step:
                del self.steps[path]

    def open_step(self, path: str, kind: StepKind, name: str, arguments: object) -> WorkflowStep:
        """Return a step with its record, if the journal has the same one at its place.

        Raises:
            Diverged: The journal has another one there, or goes on without this one.
        """
        hashed = hash_call(name, arguments)
        record = self.steps.get(path)
        self._seen.add(path)
        if record is None:
            self._check_end(path, kind, name)
            return WorkflowStep(path, kind, name, arguments, hashed, self.generation)
        is_same = (record.kind, record.tool_name, record.arguments_hash) == (kind, name, hashed)
        if not is_same:
            found = describe_step(kind, name, None if record.tool_name != name else hashed)
            shown = None if record.tool_name != name else record.arguments_hash
            recorded = describe_step(record.kind, record.tool_name, shown)
            raise Diverged(Divergence(step=path, recorded=recorded, found=found))
        return WorkflowStep(path, kind, name, arguments, hashed, record.step, record)

    def _check_end(self, path: str, kind: StepKind, name: str) -> None:
        """A step that is not recorded may only follow the recorded ones of its branch."""
        prefix, ordinal = split_path(path)
        if self._last.get(prefix, 0) > ordinal:
            found = describe_step(kind, name)
            raise Diverged(Divergence(step=path, recorded="nothing, and later steps", found=found))

    def has(self, path: str) -> bool:
        """Whether something is recorded at a path or below it."""
        return path in self.steps or any(it.startswith(f"{path}.") for it in self.steps)

    def is_marked(self, path: str, kind: StepKind, name: str) -> bool:
        """Whether a marker of that name is recorded at a path."""
        record = self.steps.get(path)
        return record is not None and (record.kind, record.tool_name) == (kind, name)

    def skip_below(self, prefix: str) -> None:
        """Note that the code need not come by the steps below a path."""
        self._skipped.append(prefix)

    def check_all_seen(self, found: str = "the end") -> None:
        """Check that the code has come by every recorded step; `found` is what it did instead.

        Raises:
            Diverged: It ended without one of them.
        """
        for path, record in self.steps.items():
            if path not in self._seen and not any(map(path.startswith, self._skipped)):
                recorded = describe_step(record.kind, record.tool_name)
                raise Diverged(Divergence(step=path, recorded=recorded, found=found))


def sort_records(records: Iterable[ToolRecord]) -> list[ToolRecord]:
    """Sort records by reset, and then as they were first written; resets come first."""
    return sorted(records, key=lambda it: (it.step, it.kind != StepKind.RESET))


def split_path(path: str) -> tuple[str, int]:
    """Split a path into the prefix of its branch and its ordinal there."""
    prefix, _, ordinal = path.rpartition(".")
    return prefix, int(ordinal)


def describe_step(kind: str, name: str, arguments_hash: str | None = None) -> str:
    """Describe a step for people; with a hash if only its arguments differ."""
    shown = f"{kind} {name}" if name and name != kind else kind
    return shown if arguments_hash is None else f"{shown} with arguments {arguments_hash[:8]}"
