"""The journal of a workflow's run, as its code meets it again: answers by path, and differences.

A step's path is its ordinal within its branch; the steps of a branch of step 3 are `3.0.1`,
`3.0.2` and so on. It never depends on the order in which steps finish.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import Divergence, RunRecord
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import Ticket, hash_call
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.workflows.steps import StepKind, read_path
from awaken.redaction import remove_secrets

INPUT = "input"
"""In place of a step's path: the run differs before its first step."""


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
    is_changed: bool = False
    """Whether the code wants a result of another form than the one that is recorded."""

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
        self.recall: Callable[[str], Any] = _recall_nothing
        """Finds the recorded arguments of a call, to name a difference."""
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

    def open_step(
        self, path: str, kind: StepKind, name: str, arguments: object, wanted: Any = None
    ) -> WorkflowStep:
        """Return a step with its record, if the journal has the same one at its place.

        `wanted` is the JSON Schema of its result, if it has one. A step that has its result may
        want another form than it did: only the result itself tells whether it fits.

        Raises:
            Diverged: The journal has another one there, or goes on without this one.
        """
        form = "" if wanted is None else f":{hash_schema(wanted)}"
        own = hash_call(name, arguments)
        hashed = f"{own}{form}"
        record = self.steps.get(path)
        self._seen.add(path)
        if record is None:
            self._check_end(path, kind, name)
            return WorkflowStep(path, kind, name, arguments, hashed, self.generation)
        was, _, old_form = record.arguments_hash.partition(":")
        is_same = was == own or self._is_pause(path, kind)
        if (record.kind, record.tool_name) != (kind, name) or not is_same:
            raise self._explain(path, describe_step(kind, name), arguments)
        step = WorkflowStep(path, kind, name, arguments, hashed, record.step, record)
        step.is_changed = old_form != form[1:]
        if step.is_changed and not step.is_done:
            raise self.explain_form(path, wanted)
        return step

    def _is_pause(self, path: str, kind: StepKind) -> bool:
        """Whether a step is a pause between attempts: its length is how a step is tried."""
        if kind is not StepKind.SLEEP:
            return False
        outer = self.steps.get(path.rpartition(".")[0].rpartition(".")[0])
        return outer is not None and outer.kind == StepKind.RETRY

    def _explain(self, path: str, found: str, arguments: object) -> Diverged:
        """Return how a step differs; its arguments are named if nothing else does."""
        record = self.steps[path]
        recorded = describe_step(record.kind, record.tool_name)
        if recorded == found:
            known = self.recall(record.call_id)
            if known is None:
                recorded, found = (
                    f"{recorded} with other arguments",
                    f"{found} with {_show(arguments)}",
                )
            else:
                one, two = keep_differences(known, arguments)
                recorded, found = f"{recorded} with {_show(one)}", f"{found} with {_show(two)}"
        return Diverged(Divergence(step=path, recorded=recorded, found=found))

    def explain_form(self, path: str, wanted: Any) -> Diverged:
        """Return that the code wants a result of another form than the step was taken with."""
        record = self.steps[path]
        name = describe_step(record.kind, record.tool_name)
        asked = None if record.result is None else record.result.suspension
        was = None if asked is None else asked.suspension.response_schema
        recorded = f"{name} with another schema" if was is None else f"{name} as {_show(was)}"
        found = f"{name} as {'any JSON' if wanted is None else _show(wanted)}"
        return Diverged(Divergence(step=path, recorded=recorded, found=found))

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

    def is_last(self, path: str, losers: tuple[str, ...]) -> bool:
        """Whether the code of a loser came to no step after that one, nor after those around it."""
        while path.startswith(losers):
            prefix, ordinal = split_path(path)
            if (f"{prefix}.{ordinal + 1}") in self._seen:
                return False
            path = prefix.rpartition(".")[0]
        return True

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


def is_below(path: str) -> bool:
    """Whether a step belongs to a branch of another step."""
    return "." in path


def split_path(path: str) -> tuple[str, int]:
    """Split a path into the prefix of its branch and its ordinal there."""
    prefix, _, ordinal = path.rpartition(".")
    return prefix, int(ordinal)


def describe_step(kind: str, name: str) -> str:
    """Describe a step for people."""
    return f"{kind} {name}" if name and name != kind else kind


def hash_schema(schema: Any) -> str:
    """Hash what a JSON Schema demands; titles and descriptions demand nothing."""
    return hash_call("", _strip(schema))[:16]


def _strip(schema: Any, *, is_names: bool = False) -> Any:
    """Return a schema without its notes; the keys of `properties` are names, and stay."""
    if isinstance(schema, list):
        return [_strip(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _strip(value, is_names=key in _NAMED and not is_names)
        for key, value in schema.items()
        if is_names or key not in _NOTES
    }


_NOTES = frozenset({"title", "description", "examples", "$comment"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SHOWN_CHARS = 300
"""How much of a value a difference shows."""


def keep_differences(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two values without the fields that are the same in both."""
    if not (isinstance(one, dict) and isinstance(two, dict)):
        return one, two
    same = [key for key in one if key in two and one[key] == two[key]]
    return (
        {key: it for key, it in one.items() if key not in same},
        {key: it for key, it in two.items() if key not in same},
    )


def _show(value: Any) -> str:
    text = remove_secrets(msgspec.json.encode(value).decode())
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def find_first_identity(record: RunRecord, identity: RunIdentity) -> RunIdentity:
    """Return the identity that a workflow's code sees, the same in every replay.

    The user is the one of its start. What lets it go on is another request each time: its code
    sees nothing of that.
    """
    user_id = record.begun_by[0] if record.begun_by else identity.user_id
    return msgspec.structs.replace(
        identity, user_id=user_id, dispatch_id=None, session_id=None, transport_request_id=None
    )


def find_arguments(messages: Iterable[Message], tickets: Iterable[Ticket], call_id: str) -> Any:
    """Return the arguments that a recorded call was made with; None if they are not kept."""
    for ticket in tickets:
        if ticket.call_id == call_id:
            return ticket.arguments
    for message in messages:
        for call in message.tool_calls or ():
            if call.id == call_id:
                return call.arguments
    return None


def _recall_nothing(_call_id: str) -> None:
    """Know no arguments."""
