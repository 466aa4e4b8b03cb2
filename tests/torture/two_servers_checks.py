"""What must be true of both stores when a round is over: all ended, once, and nothing is left."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from awaken.backends.a2a.turn import context_of
from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus, Suspended
from awaken.contracts.messages.message import Role
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import RunQuery, ThreadQuery
from awaken.contracts.storage.store import Store
from awaken.stores.sqlite.writer import run_without_suspending

from .checker import thread_problems
from .store_file import StoreFile
from .two_servers_clients import REMOTE_KINDS, REVIEWED, Errand
from .views import ThreadView, view_of

NEAR, FAR, EFFECTS = "near.db", "far.db", "effects"


class Story(NamedTuple):
    """One errand as both stores tell it."""

    errand: Errand
    near: tuple[ThreadView, ...]
    """Its thread, if it was ever begun, and those below it."""
    runs: tuple[RunRecord, ...]
    """Its runs and those below them, oldest first."""
    far: tuple[ThreadView, ...]
    far_runs: tuple[RunRecord, ...]

    @property
    def remote(self) -> list[RunRecord]:
        """The runs that were executed at the other server."""
        return [run for run in self.runs if run.agent_id == "reviewer"]


def problems_of(folder: Path, errands: Sequence[Errand]) -> tuple[list[str], Counter[str]]:
    """Everything that is wrong, or not over, and how the runs ended."""
    stories = run_without_suspending(_stories(folder, errands))
    marks = _marks(folder / EFFECTS)
    problems = [*_left(folder / NEAR), *_left(folder / FAR)]
    ends: Counter[str] = Counter()
    for story in stories:
        found = [*_thread_problems(story), *_run_problems(story), *_far_problems(story, marks)]
        problems += [f"{story.errand.kind} {story.errand.name}: {problem}" for problem in found]
        ends.update(f"near, {type(run.termination).__name__}" for run in story.runs)
        ends.update(f"far, {type(run.termination).__name__}" for run in story.far_runs)
    return problems, ends


def broken_files(folder: Path) -> list[str]:
    """What SQLite itself finds wrong with either store."""
    problems: list[str] = []
    for name in (NEAR, FAR):
        file = StoreFile(folder / name)
        try:
            problems += file.integrity_problems()
        finally:
            file.shut()
    return problems


async def _stories(folder: Path, errands: Sequence[Errand]) -> list[Story]:
    near, far = StoreFile(folder / NEAR), StoreFile(folder / FAR)
    try:
        return [await _story(near, far, errand) for errand in errands]
    finally:
        near.shut()
        far.shut()


async def _story(near: StoreFile, far: StoreFile, errand: Errand) -> Story:
    below = (await near.store.list_threads(ThreadQuery(parent_id=errand.name))).items
    names = [errand.name, *(thread.id for thread in below)]
    # A context at the other server goes with the thread that asks.
    theirs = [context_of(name) for name in names]
    return Story(
        errand,
        tuple([view for name in names if (view := await view_of(near, name))]),
        tuple([run for name in names for run in await _runs(near.store, name)]),
        tuple([view for name in theirs if (view := await view_of(far, name))]),
        tuple([run for name in theirs for run in await _runs(far.store, name)]),
    )


async def _runs(store: Store, thread_id: str) -> tuple[RunRecord, ...]:
    return tuple((await store.list_runs(RunQuery(thread_id=thread_id))).items)


def _marks(path: Path) -> dict[str, set[str]]:
    """By which calls each prompt was stamped; a call that is made again leaves the same mark."""
    marks: dict[str, set[str]] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        key, _, prompt = line.partition(" ")
        marks.setdefault(prompt, set()).add(key)
    return marks


def _left(path: Path) -> list[str]:
    """Orders that were not carried out, or given up."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT entry_id, is_dead, record FROM outbox").fetchall()
    return [f"{path.name}: order {name}, dead {bool(dead)}: {it}" for name, dead, it in rows]


def _thread_problems(story: Story) -> list[str]:
    """Every thread is whole, nothing on it is open, and each of its runs has ended once."""
    return [
        f"{view.thread.id} {where}: {problem}"
        for where, views, runs in (
            ("near", story.near, story.runs),
            ("far", story.far, story.far_runs),
        )
        for view in views
        for problem in (
            *thread_problems(view),
            *_open_problems(view),
            *_end_problems(view, [run for run in runs if run.thread_id == view.thread.id]),
        )
    ]


def _open_problems(view: ThreadView) -> list[str]:
    problems = [] if view.rows.claim_token is None else ["it is still claimed"]
    return problems + [
        f"dispatch {it.dispatch_id} is {it.status}: {it.last_error}"
        for it in view.dispatches
        if not it.status.is_terminal or it.status is DispatchStatus.DEAD_LETTER
    ]


def _end_problems(view: ThreadView, runs: Sequence[RunRecord]) -> list[str]:
    ends = Counter(
        it.run_id
        for it in view.events
        if isinstance(it.event, RunFinish)
        and not it.event.awaits_tasks
        and not isinstance(it.event.termination, Suspended)
    )
    return [
        f"run {run.run_id} is {run.status}, and ended {ends[run.run_id]} times"
        for run in runs
        if run.status is not RunStatus.DONE or ends[run.run_id] != 1
    ]


def _run_problems(story: Story) -> list[str]:
    """What was asked was answered, or cancelled by whoever may; nothing failed."""
    errand, problems = story.errand, []
    allowed = (NaturalEnd, Cancelled) if errand.is_cancelled else (NaturalEnd,)
    for run in (*story.runs, *story.far_runs):
        if run.status is RunStatus.DONE and not isinstance(run.termination, allowed):
            problems.append(f"run {run.run_id} of {run.agent_id} ended as {run.termination}")
    own = [run for run in story.runs if run.run_id in errand.run_ids]
    if len(own) != len(errand.run_ids) and not errand.is_cancelled:
        problems.append(f"of the runs {errand.run_ids} there are {len(own)}")
    if errand.is_cancelled and own and isinstance(own[-1].termination, NaturalEnd):
        problems.append("its cancellation was lost")
    if errand.kind in REMOTE_KINDS:
        return problems
    if len(story.remote) > 1:
        problems.append(f"it has {len(story.remote)} children")
    if any(isinstance(run.termination, NaturalEnd) for run in own):
        problems += _answer_problems(story)
    elif any(isinstance(run.termination, NaturalEnd) for run in story.remote):
        problems.append("it was cancelled, and what it had asked for went on to its end")
    return problems


def _answer_problems(story: Story) -> list[str]:
    """Whoever asked was told once what came of it: as the call's result, or by a letter."""
    answer = f"{REVIEWED} {story.errand.prompts[0]}"
    told = Role.TOOL if story.errand.kind == "delegate" else Role.USER
    messages = [it.message for it in story.near[0].messages]
    count = sum(it.role is told and answer in it.text for it in messages)
    results = sum(it.role is Role.TOOL for it in messages)
    if (count, results) == (1, 1):
        return []
    shown = [it.text[:200] for it in messages]
    return [f"its answer was told {count} times, its call has {results} results: {shown}"]


def _far_problems(story: Story, marks: dict[str, set[str]]) -> list[str]:
    """There is one task for each run that asked, which did once what it had to do."""
    problems: list[str] = []
    for run in story.remote:
        prompts = [it for it in _said(story.near, run) if it in story.errand.prompts]
        if not prompts and isinstance(run.termination, Cancelled):
            # It never began.
            continue
        if len(prompts) != 1:
            problems.append(f"run {run.run_id} was asked {prompts}")
            continue
        tasks = [it for it in story.far_runs if prompts[0] in _said(story.far, it)]
        stamps, is_done = len(marks.get(prompts[0], ())), isinstance(run.termination, NaturalEnd)
        if len(tasks) != 1 if is_done else len(tasks) > 1:
            problems.append(f"'{prompts[0]}' has {len(tasks)} tasks")
        if stamps != 1 if is_done else stamps > 1:
            problems.append(f"'{prompts[0]}' was stamped by {stamps} calls")
        if is_done and run.final_output != f"{REVIEWED} {prompts[0]}":
            problems.append(f"run {run.run_id} says {run.final_output!r}")
        if any(isinstance(it.termination, NaturalEnd) != is_done for it in tasks):
            ends = [it.termination for it in (run, *tasks)]
            problems.append(f"'{prompts[0]}' ended here and there as {ends}")
    asked = [run for run in story.remote if _said(story.near, run)]
    if len(story.far_runs) > len(asked):
        problems.append(f"{len(asked)} runs have {len(story.far_runs)} tasks")
    return problems


def _said(views: Sequence[ThreadView], run: RunRecord) -> list[str]:
    """What a run was asked."""
    return [
        it.message.text
        for view in views
        for it in view.messages
        if it.message.role is Role.USER and it.produced_by_run_id == run.run_id
    ]
