"""Cases from runs: the input that a run got, its recording, and a proposal of what to expect.

A proposed expectation is never accepted silently: the case is a draft until a person confirms it.
"""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import AwakenError, UnknownRun
from awaken.contracts.evals.cases import Case, CaseStatus, CaseTurn, Expectation
from awaken.contracts.evals.errors import CannotRecord, InvalidDataset
from awaken.contracts.evals.recordings import RecordedStep, Recording
from awaken.contracts.evals.scores import ScorerSpec, ScoreSource
from awaken.contracts.evals.store import EvalStore, ScoreQuery
from awaken.contracts.evals.worlds import ScriptedCall, ScriptedTurn
from awaken.contracts.lifecycle import Failed, tag_of
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.queries import Order, RunQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import namespace_of, remove_namespace

from .captured_turns import list_decisions, stub_calls
from .datasets import Datasets
from .recorded_screens import build_screened
from .recording_files import encode_recording

CAPTURED_MAX = 50
"""How many runs one call captures at most."""
EXAMINED_MAX = 1_000
"""How many runs one call looks at."""
SCHEMA_DEPTH_MAX = 4


class ScriptMode(StrEnum):
    """Whether the model's answers become the script of a case."""

    OPTIONAL = "optional"
    """A case without a script is made if they cannot."""
    REQUIRE = "require"
    SKIP = "skip"


class CapturePlan(StrictRecord, frozen=True, kw_only=True):
    """How a case is made of a run."""

    case_id: str | None = None
    """Absent: the run's id."""
    description: str | None = None
    user_input: str | None = None
    """Instead of what the run was given."""
    script: ScriptMode = ScriptMode.OPTIONAL
    keeps_recording: bool = True
    expect: Expectation | None = None
    """What a person expects: with it the case is ready; absent: a draft with a proposal."""
    allow_unused_provider_script: bool = False
    tags: tuple[str, ...] = ()
    split: str = ""


class CaptureFilter(StrictRecord, frozen=True, kw_only=True):
    """Which runs become cases."""

    agent_id: str | None = None
    ended: str | None = None
    """The type of the termination, such as `natural_end` or `error`."""
    since: int | None = None
    score_below: float | None = None
    scorer: str | None = None
    """Whose scores `score_below` is about; absent: any."""
    thumbs_down: bool = False
    """Only runs that a person scored with less than a half."""
    cost_above: float | None = None
    sample: int = CAPTURED_MAX
    """How many of those that fit, chosen at random."""
    seed: int = 0


class CapturedCase(Record, frozen=True, kw_only=True):
    """A case, and the recording that it names, by hash."""

    case: Case
    recordings: dict[str, bytes] = {}  # noqa: RUF012 - msgspec copies an empty default


class SkippedRun(Record, frozen=True, kw_only=True):
    """A run that did not become a case."""

    run_id: str
    problem: str


class RunRecordings(Protocol):
    """Makes recordings of runs, without secrets."""

    async def record(self, run_id: str) -> Recording:
        """Record a run.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
        """
        ...


class Captures:
    """Makes cases of the runs that a tenant may see."""

    def __init__(
        self,
        store: Store,
        evals: EvalStore,
        recordings: RunRecordings,
        tenant_id: str | None = None,
    ) -> None:
        self._store = store
        self._evals = evals
        self._recordings = recordings
        self._tenant_id = tenant_id

    async def capture(self, run_id: str, plan: CapturePlan) -> CapturedCase:
        """Make a case of a run.

        Raises:
            UnknownRun: There is none, or it belongs to another tenant.
            CannotRecord: It cannot be recorded.
            InvalidDataset: It has no input, or its answers cannot be a script although required.
        """
        recording = await self._record(run_id)
        return build_case(recording, self._choose_id(run_id, plan), plan)

    async def capture_dialogue(self, run_ids: Sequence[str], plan: CapturePlan) -> CapturedCase:
        """Make one case with several turns of runs that followed each other on one thread.

        Raises:
            UnknownRun: One does not exist, or belongs to another tenant.
            CannotRecord: One cannot be recorded.
            InvalidDataset: They are of several threads, or one has no text as its input.
        """
        if not run_ids:
            raise InvalidDataset(what="run_ids", problem="give at least one run")
        recordings = [await self._record(it) for it in run_ids]
        threads = {it.run.thread_id for it in recordings}
        if len(threads) > 1:
            problem = f"they are of {len(threads)} threads; a dialogue is one conversation"
            raise InvalidDataset(what="run_ids", problem=problem)
        first = build_case(recordings[0], self._choose_id(run_ids[0], plan), plan)
        if len(recordings) == 1:
            return first
        # A recording answers for one run: the turns have scripts, and stubs for their calls.
        expect, scorers, status = _propose(recordings, plan)
        case = replace(
            first.case,
            continued_turns=tuple(_build_turn(it, plan) for it in recordings[1:]),
            recording=None,
            tools=stub_calls(recordings[0]),
            decisions=list_decisions(recordings),
            expect=expect,
            scorers=scorers,
            status=status,
            description=plan.description or f"Dialogue of {len(run_ids)} runs",
        )
        return CapturedCase(case=case)

    async def find_runs(self, wanted: CaptureFilter) -> tuple[str, ...]:
        """Return the runs that fit a filter, a random sample of them, the newest first."""
        scored = await self._find_scored(wanted)
        found: list[str] = []
        query = RunQuery(
            agent_id=wanted.agent_id,
            ended=wanted.ended,
            since=wanted.since,
            kinds=(RunKind.CHAT,),
            tenant_id=self._tenant_id,
            order=Order.DESC,
            limit=100,
        )
        examined = 0
        while examined < EXAMINED_MAX:
            page = await self._store.list_runs(query)
            examined += max(len(page.items), 1)
            found += [it.run_id for it in page.items if self._fits(it, wanted, scored)]
            if page.next_cursor is None:
                break
            query = at_cursor(query, page.next_cursor)
        size = min(max(wanted.sample, 0), CAPTURED_MAX)
        if len(found) > size:
            chosen = set(random.Random(wanted.seed).sample(found, size))
            found = [it for it in found if it in chosen]
        return tuple(found)

    async def _find_scored(self, wanted: CaptureFilter) -> set[str] | None:
        """Return the runs with the wanted scores; None if the filter is not about scores."""
        if wanted.score_below is None and not wanted.thumbs_down:
            return None
        query = ScoreQuery(
            scorer=wanted.scorer,
            source=ScoreSource.HUMAN if wanted.thumbs_down else None,
            below=0.5 if wanted.score_below is None else wanted.score_below,
            since=wanted.since,
            tenant_id=self._tenant_id,
            limit=EXAMINED_MAX,
        )
        return {it.run_id for it in await self._evals.list_scores(query)}

    def _fits(self, run: RunRecord, wanted: CaptureFilter, scored: set[str] | None) -> bool:
        if run.status.is_terminal is False or (scored is not None and run.run_id not in scored):
            return False
        if wanted.cost_above is None:
            return True
        cost = run.usage.cost_usd
        return cost is not None and cost > wanted.cost_above

    async def _record(self, run_id: str) -> Recording:
        stored_id = run_id
        if self._tenant_id is not None and not run_id.startswith(namespace_of(self._tenant_id)):
            stored_id = namespace_of(self._tenant_id) + run_id
        recording = await self._recordings.record(stored_id)
        if self._tenant_id not in (None, recording.run.tenant_id):
            raise UnknownRun(run_id=run_id)
        return recording

    def _choose_id(self, run_id: str, plan: CapturePlan) -> str:
        return plan.case_id or remove_namespace(namespace_of(self._tenant_id), run_id)


async def capture_many(
    captures: Captures, run_ids: Sequence[str], plan: CapturePlan, *, skips: bool
) -> tuple[list[CapturedCase], list[SkippedRun]]:
    """Make a case of each run; those that cannot become one are listed, or stop everything.

    Raises:
        AwakenError: A run cannot become a case, and `skips` is False.
    """
    made: list[CapturedCase] = []
    skipped: list[SkippedRun] = []
    for run_id in run_ids:
        try:
            made.append(await captures.capture(run_id, plan))
        except (UnknownRun, CannotRecord, InvalidDataset) as error:
            if not skips:
                raise
            skipped.append(SkippedRun(run_id=run_id, problem=str(error)))
    return made, skipped


async def keep_recordings(datasets: Datasets, captured: Sequence[CapturedCase]) -> None:
    """Keep the recordings of captured cases, before the cases that name them."""
    for it in captured:
        await datasets.put_recordings(it.recordings)


def build_case(recording: Recording, case_id: str, plan: CapturePlan) -> CapturedCase:
    """Return the case of a recording.

    Raises:
        InvalidDataset: The run had no input, or its answers cannot be a script.
    """
    run = recording.run
    what = f"run '{run.run_id}'"
    given = _read_input(recording, plan)
    if given is None and not recording.input:
        raise InvalidDataset(what=what, problem="it had no input; give user_input")
    script, problem = _build_script(recording, plan)
    expect, scorers, status = _propose((recording,), plan)
    recordings: dict[str, bytes] = {}
    if plan.keeps_recording:
        data = encode_recording(recording)
        recordings[hash_object(data)] = data
    try:
        case = Case(
            id=case_id,
            description=plan.description or f"Captured from run {run.run_id}",
            user_input=given,
            input=() if given is not None else recording.input,
            history=recording.history,
            context=run.context,
            provider_script=script,
            provider_script_error=problem,
            allow_unused_provider_script=plan.allow_unused_provider_script,
            recording=next(iter(recordings), None),
            expect=expect,
            scorers=scorers,
            tags=plan.tags,
            split=plan.split,
            status=status,
            source_run_id=run.run_id,
            source_thread_id=run.thread_id,
            source_user_id=run.user_id,
            source_model_id=next((it.model for it in recording.steps if it.model), None),
            tenant_id=run.tenant_id,
        )
    except AwakenError as error:
        raise InvalidDataset(what=what, problem=str(error).rstrip(".")) from error
    return CapturedCase(case=case, recordings=recordings)


def _build_turn(recording: Recording, plan: CapturePlan) -> CaseTurn:
    given = _read_input(recording, replace(plan, user_input=None))
    if given is None:
        problem = "its input is no text, and a further turn has nothing else"
        raise InvalidDataset(what=f"run '{recording.run.run_id}'", problem=problem)
    script, problem_of = _build_script(recording, plan)
    return CaseTurn(
        user_input=given,
        provider_script=script,
        provider_script_error=problem_of,
        tools=stub_calls(recording),
    )


def _read_input(recording: Recording, plan: CapturePlan) -> str | None:
    """Return the input as one text; None if it has several messages or other content."""
    if plan.user_input is not None:
        return plan.user_input
    if len(recording.input) != 1:
        return None
    (message,) = recording.input
    is_text = all(isinstance(it, Text) for it in message.content)
    return message.text if message.role is Role.USER and is_text else None


def _build_script(
    recording: Recording, plan: CapturePlan
) -> tuple[tuple[ScriptedTurn, ...], str | None]:
    if plan.script is ScriptMode.SKIP:
        return (), None
    problem = _find_unscripted(recording)
    if problem is not None:
        if plan.script is ScriptMode.REQUIRE:
            what = f"run '{recording.run.run_id}'"
            raise InvalidDataset(what=what, problem=f"it has no script: {problem}")
        return (), problem
    return tuple(_script_step(it) for it in recording.steps), None


def _find_unscripted(recording: Recording) -> str | None:
    """Return why the answers of a run cannot be its script; None if they can."""
    for step in recording.steps:
        if step.answer is None or step.is_cut:
            return f"step {step.n} has no whole answer"
        if build_screened(recording, step, None) is not None:
            # What it made of the answer is known, and not what the model said.
            return f"a guardrail held back the answer of step {step.n}"
    return None if recording.steps else "no model answered"


def _script_step(step: RecordedStep) -> ScriptedTurn:
    answer = step.answer or Message(role=Role.ASSISTANT)
    calls = tuple(
        ScriptedCall(name=it.name, arguments=it.arguments, id=it.id)
        for it in answer.tool_calls or ()
    )
    return ScriptedTurn(text=answer.text, calls=calls, usage=step.usage)


def _propose(
    recordings: Sequence[Recording], plan: CapturePlan
) -> tuple[Expectation, tuple[ScorerSpec, ...], CaseStatus]:
    """Return what a person expects, or else a proposal: all tools, the last run's end and answer.

    Scorers see the turns of a sample as one run.
    """
    if plan.expect is not None:
        return plan.expect, (), CaseStatus.READY
    recording = recordings[-1]
    tools = tuple(call.tool for it in recordings for step in it.steps for call in step.calls)
    end = recording.run.termination
    code = end.code if isinstance(end, Failed) else None
    expect = Expectation(tool_sequence=tools or None, expected_error_type=code)
    types = ["waiting" if end is None else tag_of(end)]
    scorers = [ScorerSpec(scorer="ended", name="proposed.ended", options={"types": types})]
    schema = _infer_answer(recording.run.final_output)
    if schema is not None:
        options = {"schema": schema, "part": "text"}
        scorers.append(ScorerSpec(scorer="json_schema", name="proposed.schema", options=options))
    return expect, tuple(scorers), CaseStatus.DRAFT


def _infer_answer(text: str | None) -> dict[str, Any] | None:
    """Return the shape of an answer that is a JSON object or list, or None."""
    if not text or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return _infer_schema(value, 0)


def _infer_schema(value: Any, depth: int) -> dict[str, Any]:
    if isinstance(value, dict):
        if depth >= SCHEMA_DEPTH_MAX:
            return {"type": "object"}
        parts = {name: _infer_schema(it, depth + 1) for name, it in sorted(value.items())}
        return {"type": "object", "properties": parts, "required": sorted(value)}
    if isinstance(value, list):
        return {"type": "array"}
    for kinds, name in (((bool,), "boolean"), ((int, float), "number"), ((str,), "string")):
        if isinstance(value, kinds):
            return {"type": name}
    return {}
