"""What must be true of a store after a crash, before anybody repairs anything.

Each function returns sentences, none when all is well. Nobody may write while they read.
"""

from collections import Counter
from collections.abc import Iterable

from awaken.contracts.errors import StorageError
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.testing.transcripts import check_transcript

from .facts import durability_problems
from .history import Effect, History
from .views import Evidence, ThreadView, view_of


async def check_before_recovery(
    evidence: Evidence, history: History, *, others: Iterable[str] = ()
) -> list[str]:
    """Check every thread of a history, and that what was acknowledged is durable.

    `others` are threads to look at although no operation names them. An empty history proves
    nothing and is a problem; so is a store that cannot be read.
    """
    if not history.operations:
        return ["the history is empty"]
    is_purged = any(True for _ in history.of_kind("purge"))
    views: dict[str, ThreadView | None] = {}
    problems = []
    try:
        for thread_id in dict.fromkeys([*history.thread_ids, *others]):
            views[thread_id] = view = await view_of(evidence, thread_id)
            if view is not None:
                found = thread_problems(view, is_purged=is_purged)
                problems += [f"thread {thread_id}: {problem}" for problem in found]
        problems += await durability_problems(evidence, history, views)
    except StorageError as error:
        problems.append(f"the store cannot be read: {error}")
    return problems


async def check_after_quiescence(
    evidence: Evidence, history: History, ledger: Iterable[Effect] = ()
) -> list[str]:
    """Check also that nothing is left to do: dispatches and runs have ended, no claim is held."""
    problems = await check_before_recovery(evidence, history)
    for thread_id in history.thread_ids:
        view = await view_of(evidence, thread_id)
        if view is None:
            continue
        if view.rows.claim_token is not None:
            problems.append(f"thread {thread_id} is still claimed under {view.rows.claim_token}")
        if view.open_run is not None and view.open_run.status is not RunStatus.WAITING:
            problems.append(f"run {view.open_run.run_id} never ended")
        problems += [
            f"dispatch {it.dispatch_id} is still {it.status}"
            for it in view.dispatches
            if not it.status.is_terminal
        ]
    return problems + ledger_problems(ledger)


def ledger_problems(ledger: Iterable[Effect], repeatable: Iterable[str] = ()) -> list[str]:
    """Check that a call that ended is not started again; calls named `repeatable` may be."""
    ended: set[tuple[str, str]] = set()
    problems = []
    for effect in ledger:
        call = (effect.run_id, effect.call_id)
        if effect.at == "end":
            ended.add(call)
        elif call in ended and effect.call_id not in repeatable:
            problems.append(f"call {effect.call_id} of run {effect.run_id} was executed again")
    return problems


def thread_problems(view: ThreadView, *, is_purged: bool = False) -> list[str]:
    """Check one thread by itself: its log folds to its head, its transcript is valid."""
    return [
        *_log_problems(view, is_purged=is_purged),
        *_message_problems(view),
        *_transcript_problems(view),
        *_claim_problems(view),
    ]


def _log_problems(view: ThreadView, *, is_purged: bool) -> list[str]:
    rows, receipts = view.rows, view.rows.receipts
    versions = [it.version for it in receipts]
    first = versions[0] if versions and is_purged else 1
    problems = []
    if versions != list(range(first, view.thread.version + 1)) and (versions or not is_purged):
        problems.append(f"version {view.thread.version} has the commits {versions}")
    if len({it.commit_id for it in receipts}) < len(receipts):
        problems.append("a commit was applied twice")
    head = (view.thread.message_count, rows.event_seq)
    if receipts and (receipts[-1].message_count, receipts[-1].event_seq) != head:
        problems.append(f"its head says {head}, its last commit {receipts[-1]}")
    numbers = [event.seq for event in view.events]
    if numbers != list(range(rows.purged_seq + 1, rows.event_seq + 1)):
        problems.append(f"events {rows.purged_seq} to {rows.event_seq} are {numbers}")
    return problems


def _message_problems(view: ThreadView) -> list[str]:
    wanted = tuple(range(1, view.thread.message_count + 1))
    problems = []
    if view.rows.message_numbers != wanted:
        problems.append(f"{len(wanted)} messages have the numbers {view.rows.message_numbers}")
    if tuple(it.seq for it in view.messages) != wanted:
        problems.append(f"{len(wanted)} messages are listed as {[it.seq for it in view.messages]}")
    counts = Counter(it.message_id for it in view.messages)
    twice = [id_ for id_, count in counts.items() if count > 1]
    return [*problems, f"messages are there twice: {twice}"] if twice else problems


def _transcript_problems(view: ThreadView) -> list[str]:
    run, open_calls = view.open_run, view.unanswered
    if run is not None and run.status is RunStatus.WAITING:
        open_calls = [call for call in open_calls if call in view.ticketed]
    elif run is None or run.status is not RunStatus.RUNNING:
        open_calls = []
    return check_transcript(view.messages, open_calls=open_calls)


def _claim_problems(view: ThreadView) -> list[str]:
    rows = view.rows
    claimed = [it for it in view.dispatches if it.status is DispatchStatus.CLAIMED]
    queued = sum(it.status is DispatchStatus.QUEUED for it in view.dispatches)
    problems = []
    if len(claimed) > 1:
        problems.append(f"{len(claimed)} dispatches are claimed at once")
    if queued != rows.queued:
        problems.append(f"{queued} dispatches are queued, its head says {rows.queued}")
    held = (rows.claim_dispatch, rows.claim_token)
    problems += [
        f"dispatch {it.dispatch_id} is claimed under {it.claim_token}, the thread under {held}"
        for it in claimed
        if (it.dispatch_id, it.claim_token) != held
    ]
    if held[0] is not None and held[0] not in {it.dispatch_id for it in claimed}:
        problems.append(f"it is claimed for dispatch {held[0]}, which is not claimed")
    keys = Counter(it.dedupe_key for it in view.dispatches if it.dedupe_key is not None)
    problems += [f"dedupe key {key} is used {n} times" for key, n in keys.items() if n > 1]
    return problems
