"""Verifying a workflow's run: its code is entered again, and the journal answers every step."""

import re

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult
from awaken.contracts.evals.worlds import DivergenceKind, ReplayDivergence
from awaken.contracts.lifecycle import tag_of
from awaken.contracts.runs.records import RunInput, RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import Checkout, ToolRecord
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.workflows.journal_check import find_journal_problem

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
        input=RunInput(from_seq=first, to_seq=first + count - 1) if count else RunInput(),
    )
    messages = (*recording.history, *recording.input)
    checkout = Checkout(thread=Thread(id=run.thread_id), messages=messages)
    records = tuple(msgspec.convert(it, ToolRecord) for it in recording.journal)
    problem = await find_journal_problem(agent.workflow, record, checkout, records, is_open=False)
    return ReplayResult(
        mode=ReplayMode.VERIFY,
        is_same=problem is None,
        divergences=() if problem is None else (_explain(problem),),
        incomplete=recording.incomplete,
        ended=None if run.termination is None else tag_of(run.termination),
        replayed=recording,
    )


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
