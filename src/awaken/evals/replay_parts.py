"""What a replay has in place of the process around it: its clock, its ids, summaries, profiles."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from awaken.contracts.evals.errors import RecordingEnded
from awaken.contracts.evals.recordings import RecordedCall, RecordedStep, Recording
from awaken.contracts.lifecycle import Stopped
from awaken.contracts.models.budgets import SHARED_LEDGER, BudgetExceeded
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.state.context_state import (
    CONTEXT_STATE,
    CompactionConfig,
    CompactionMark,
    ObligationKind,
)
from awaken.contracts.state.profile import ProfileEntry, ProfileStore
from awaken.contracts.suspension.remembered_answers import (
    FORGOTTEN,
    SHARED_ANSWERS,
    RememberedAnswer,
)
from awaken.runtime.context.compaction import CompactionPlan
from awaken.runtime.context.summaries import Compactor, Summary, SummaryJob

IDLE_MS = 5_000
"""A shorter time in which a run did nothing is work between its steps; leases last longer."""
_NO_MODEL = ModelSpec(id="recorded", provider_id="recorded", upstream_model="recorded")


class ReplayClock:
    """Shows the times of the recorded run: each step begins, and its calls end, when they did then.

    What the run waited for passes between two activations, as it did then: it is no time in which
    the run was active. Neither is the time until another process took a run over: nothing in the
    log tells of it, but a long time in which nothing happened is none that a time limit counted,
    as long as none has stopped the run.
    """

    def __init__(self, recording: Recording) -> None:
        self._start = self._now = recording.run.created_at
        self._idle = tuple(_list_idle(recording))

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._now

    def monotonic_ms(self) -> int:
        """Milliseconds since the recorded run began, without those in which no process had it."""
        return self._now - self._start - sum(it for end, it in self._idle if end <= self._now)

    def begin_step(self, step: RecordedStep) -> None:
        """Move to the end of a step's inference; time never goes back."""
        self._move(step.at + step.ms)

    def end_call(self, recording: Recording, step: int, call: RecordedCall) -> None:
        """Move to when a call of a step had ended: before the next step began."""
        recorded = _find_step(recording, step)
        if recorded is None or (_has_waited(recording, recorded) and not call.decisions):
            self._move(self._now if recorded is None else recorded.at + recorded.ms + call.ms)
        else:
            self._move(_find_end(recording, step))

    def resume(self, recording: Recording, step: int) -> None:
        """Move to when the run went on that had waited in a step; its decided calls come then."""
        recorded = _find_step(recording, step)
        calls = () if recorded is None else recorded.calls
        took = max((it.ms for it in calls if it.decisions), default=0)
        self._move(_find_end(recording, step) - took)

    def _move(self, to_ms: int) -> None:
        self._now = max(self._now, to_ms)


def _find_step(recording: Recording, number: int) -> RecordedStep | None:
    steps, place = recording.steps, number - 1
    return steps[place] if 0 <= place < len(steps) and steps[place].n == number else None


def _has_waited(recording: Recording, step: RecordedStep) -> bool:
    """Whether the run waited in or after a step, so that its end is behind a wait."""
    after = _find_step(recording, step.n + 1)
    is_resumed = after is not None and after.resumed_as is not None
    return is_resumed or any(it.decisions for it in step.calls)


def _find_end(recording: Recording, step: int) -> int:
    """Return when a step had ended: the next one asked, or the run ended; 0 if that is unknown."""
    own, after, run = _find_step(recording, step), _find_step(recording, step + 1), recording.run
    if own is None or not own.at:
        return 0
    if after is not None and after.at:
        return after.at
    # No other step has asked: the run was stopped behind this one.
    return 0 if run.duration_ms is None else run.created_at + run.duration_ms


def _list_idle(recording: Recording) -> Iterator[tuple[int, int]]:
    """Yield the times in which no process had the run: when each ended, and how long it was."""
    end = recording.run.created_at
    is_counted = not _is_out_of_time(recording)
    for step in recording.steps:
        if not step.at:
            return
        # Before the first step it waited in a queue, or the process that had begun it was lost.
        if step.at - end >= IDLE_MS and (is_counted or step.n == 1):
            yield step.at, step.at - end
        is_waiting = _has_waited(recording, step)
        busy = step.at + step.ms + sum(it.ms for it in step.calls)
        # A wait for a decision lies between two activations: it is no time of the run anyway.
        end = _find_end(recording, step.n) if is_waiting else busy


def _is_out_of_time(recording: Recording) -> bool:
    """Whether a time limit stopped the run: then each of its milliseconds may count."""
    ended = recording.run.termination
    if not isinstance(ended, Stopped):
        return False
    code, detail = ended.reason.code, ended.reason.detail or ""
    return code == "timeout" or (code == BudgetExceeded.code and detail.endswith(" ms"))


class SeededIds:
    """Ids that are the same in every replay with the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0

    def new_id(self) -> str:
        """Return a fresh id; ids sort in the order in which they were made."""
        self._count += 1
        return f"{self._seed & 0xFFFFFFFF:08x}-0000-7000-8000-{self._count:012x}"


class RecordedSummaries(Compactor):
    """Gives the summaries of the recorded run, each at the step at which that run took it."""

    __slots__ = ("_find_marks", "_recorded", "_taken", "_thread_id")

    def __init__(
        self,
        recording: Recording,
        find_place: Callable[[int], tuple[int, str, CompactionMark | None]],
    ) -> None:
        """`find_place` gives the step, and for a place the message's id and the latest mark."""
        super().__init__()
        self._recorded = list_marks(recording)
        self._thread_id = recording.run.thread_id
        self._find_marks = find_place
        self._taken: set[int] = set()

    def is_free(self, thread_id: str) -> bool:
        """No summary is written: those of the recorded run are there."""
        return False

    def take(self, thread_id: str) -> Summary | None:
        """Return the summary that the recorded run took at this step."""
        if thread_id != self._thread_id:
            return None
        step, _, _ = self._find_marks(0)
        mark = self._recorded.get(step)
        if mark is None or step in self._taken:
            return None
        self._taken.add(step)
        _, message_id, previous = self._find_marks(mark.place)
        effects = tuple(it for it in mark.obligations if it.kind is ObligationKind.EFFECT)
        plan = CompactionPlan(
            message_id=message_id,
            place=mark.place,
            tokens=mark.pre_tokens,
            transcript="",
            previous=previous,
            effects=effects,
        )
        # What it saves was found to be enough then.
        config = CompactionConfig(min_savings_ratio=0.0)
        job = SummaryJob(plan=plan, config=config, client=_NoClient(), model=_NO_MODEL)
        return Summary(job=job, text=mark.summary, usage=TokenUsage())


class _NoClient:
    """The client of a summary that is written already."""

    name = "recorded"

    def stream(self, request: Any) -> Any:
        """Refuse: summaries of a replay are those of the recorded run.

        Raises:
            RecordingEnded: Always.
        """
        raise RecordingEnded("a summary that the recorded run did not have was asked for", step=0)


def list_marks(recording: Recording) -> dict[int, CompactionMark]:
    """Return the summaries that the run took, by the step that was first to use them."""
    known = _read_marks(recording.state.thread.get(CONTEXT_STATE.name))
    found: dict[int, CompactionMark] = {}
    for step in recording.steps:
        marks = _read_marks(step.state.get(CONTEXT_STATE.name))
        if fresh := [it for it in marks if it not in known]:
            found[step.n] = fresh[-1]
        known = marks or known
    return found


def _read_marks(stored: Any) -> tuple[CompactionMark, ...]:
    return () if stored is None else CONTEXT_STATE.decode(stored).marks


class OverlaidProfiles:
    """Reads entries of another store, and keeps all changes in a store of its own.

    Of remembered decisions it has those that the recorded run found: what people decided for
    later calls since it began, and what they took back since, is not there. Recorded answers cost
    nothing: without live models no budget that others share is used up.
    """

    def __init__(
        self, below: ProfileStore, own: ProfileStore, began_at: int, *, is_live: bool
    ) -> None:
        self._below = below
        self._own = own
        self._began_at = began_at
        self._is_live = is_live
        self._removed: set[tuple[str, str]] = set()

    async def find_entry(self, owner: str, key: str) -> ProfileEntry | None:
        """Return an entry, or None."""
        found = await self._own.find_entry(owner, key)
        if found is not None or (owner, key) in self._removed:
            return found
        return self._take_back(await self._below.find_entry(owner, key))

    def _take_back(self, entry: ProfileEntry | None) -> ProfileEntry | None:
        """Return an entry as the recorded run found it, as far as that is known."""
        if entry is None or (entry.key == SHARED_LEDGER and not self._is_live):
            return None
        if entry.key == FORGOTTEN.name and entry.updated_at >= self._began_at:
            # Which of them were forgotten before is not kept.
            return None
        if entry.key != SHARED_ANSWERS.name:
            return entry
        answers = msgspec.convert(entry.value, dict[str, RememberedAnswer])
        kept = {name: it for name, it in answers.items() if it.decided_at < self._began_at}
        return msgspec.structs.replace(entry, value=msgspec.to_builtins(kept))

    async def save_entry(self, entry: ProfileEntry) -> None:
        """Write an entry."""
        await self._own.save_entry(entry)

    async def change_entry(
        self, owner: str, key: str, change: Callable[[Any], Any], *, now: int
    ) -> Any:
        """Replace a value by what `change` makes of it, and return the new one."""
        found = await self.find_entry(owner, key)
        if found is not None:
            await self._own.save_entry(found)
        return await self._own.change_entry(owner, key, change, now=now)

    async def delete_entry(self, owner: str, key: str) -> None:
        """Remove an entry."""
        self._removed.add((owner, key))
        await self._own.delete_entry(owner, key)

    async def list_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key."""
        found = map(self._take_back, await self._below.list_entries(owner))
        below = {it.key: it for it in found if it is not None}
        kept = {key: it for key, it in below.items() if (owner, key) not in self._removed}
        own = {it.key: it for it in await self._own.list_entries(owner)}
        merged = {**kept, **own}
        return tuple(merged[key] for key in sorted(merged))

    async def clear_owner(self, owner: str) -> None:
        """Remove all entries of an owner."""
        self._removed |= {(owner, it.key) for it in await self._below.list_entries(owner)}
        await self._own.clear_owner(owner)
