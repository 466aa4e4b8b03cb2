"""Verifying a workflow's run: its code is entered again, and the journal answers every step."""

import re
from itertools import zip_longest

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult
from awaken.contracts.evals.worlds import DivergenceKind, ReplayDivergence
from awaken.contracts.lifecycle import Failed, NaturalEnd, tag_of
from awaken.contracts.runs.records import RunInput, RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Checkout, ToolRecord
from awaken.contracts.workflows.steps import read_path
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.workflows import step_errors
from awaken.runtime.workflows.journal_check import JournalReading, read_journal

from .divergences import name_end
from .result_digests import digest_journal

_DIFFERENCE = re.compile(
    r"step (?P<step>.*?): the journal has (?P<was>.*), the code does (?P<now>.*)"
)


async def verify_workflow(registry: RegistryHandle, recording: Recording) -> ReplayResult:
    """Enter the code of a workflow with the recorded journal; nothing is executed.

    Raises:
        CannotReplay: There is no such workflow, or the recording has no journal.
    """
    run = recording.run
    if any(it.startswith("the log") for it in recording.incomplete):
        raise CannotReplay(run_id=run.run_id, problem="its journal was purged")
    publication = recording.config.publication if registry.publications is not None else None
    try:
        agent = await registry.resolve(run.agent_id, publication)
    except AwakenError as error:
        raise CannotReplay(run_id=run.run_id, problem=str(error).rstrip(".")) from error
    if agent.workflow is None:
        raise CannotReplay(run_id=run.run_id, problem=f"'{run.agent_id}' is no workflow any more")
    first, count = len(recording.history) + 1, len(recording.input)
    record = RunRecord(
        run_id=run.run_id,
        thread_id=run.thread_id,
        agent_id=run.agent_id,
        is_workflow=True,
        context=run.context,
        tenant_id=run.tenant_id,
        user_id=run.user_id,
        begun_by=run.begun_by,
        input=RunInput(from_seq=first, to_seq=first + count - 1) if count else RunInput(),
    )
    messages = (*recording.history, *recording.input)
    checkout = Checkout(thread=Thread(id=run.thread_id), messages=messages)
    try:
        records = tuple(msgspec.convert(it, ToolRecord) for it in recording.journal)
    except msgspec.ValidationError as error:
        problem = f"its journal cannot be read: {error}"
        raise CannotReplay(run_id=run.run_id, problem=problem) from error
    found = await read_journal(agent.workflow, record, checkout, records, is_open=False)
    divergence = _compare(recording, found)
    return ReplayResult(
        mode=ReplayMode.VERIFY,
        is_same=divergence is None,
        divergences=() if divergence is None else (divergence,),
        ended=None if run.termination is None else tag_of(run.termination),
        replayed=recording,
    )


def _compare(recording: Recording, found: JournalReading) -> ReplayDivergence | None:
    """Return where the code parts from the run: at a step, in how it ends, or in its result.

    An entry that is not what the run had comes first: what the code does with it follows from it.
    """
    if (changed := _find_changed_entry(recording)) is not None:
        return changed
    if found.problem is not None:
        return _explain(found.problem)
    differing = _compare_ends(recording, found)
    if differing is None:
        return None
    path, recorded, replayed = differing
    kind = DivergenceKind.END
    return ReplayDivergence(step=0, kind=kind, path=path, recorded=recorded, replayed=replayed)


def _find_changed_entry(recording: Recording) -> ReplayDivergence | None:
    kept, now = recording.journal_digests, digest_journal(recording.journal)
    if not kept or kept == now:
        return None
    pairs = enumerate(zip_longest(kept, now))
    place, (recorded, replayed) = next(it for it in pairs if it[1][0] != it[1][1])
    entry = recording.journal[place] if place < len(recording.journal) else {}
    # A hostile document may have anything in its place.
    call_id = entry.get("call_id")
    path = read_path(call_id) if isinstance(call_id, str) else place
    return ReplayDivergence(
        step=0,
        kind=DivergenceKind.RESULT,
        path=f"/journal/{path}",
        recorded=recorded,
        replayed=replayed,
    )


def _compare_ends(
    recording: Recording, found: JournalReading
) -> tuple[str, str | None, str | None] | None:
    run, error = recording.run, found.error
    ended = name_end(run.termination)
    shown = "natural_end" if error is None else f"error: {step_errors.name_failure(error)}"
    match run.termination:
        case NaturalEnd() if error is not None:
            return "/end", ended, shown
        case NaturalEnd() | Failed(code=step_errors.WORKFLOW_FAILED) if not found.has_ended:
            return "/end", ended, "the journal ends before the code"
        case NaturalEnd() if found.text not in (None, run.final_output or ""):
            # A part of a secret that was redacted in the journal may be in the result.
            is_known = not recording.redacted
            return ("/final_output", run.final_output, found.text) if is_known else None
        case Failed(code=code) if found.has_ended and ended != shown:
            # Other failures are those of limits, which end a run from outside of its code.
            is_of_code = error is not None or code == step_errors.WORKFLOW_FAILED
            return ("/end", ended, shown) if is_of_code else None
        case None if run.waits_for is not None and found.has_ended:
            return "/end", f"waiting: {run.waits_for}", shown
    return None


def _explain(problem: str) -> ReplayDivergence:
    found = _DIFFERENCE.fullmatch(problem)
    if found is None:
        return ReplayDivergence(step=0, kind=DivergenceKind.END, path="/end", replayed=problem)
    return ReplayDivergence(
        step=0,
        kind=DivergenceKind.CALL,
        path=f"/journal/{found['step']}",
        recorded=found["was"],
        replayed=found["now"],
    )
