"""`evaluate`: an eval in this process, on a store in memory, without a server."""

import asyncio
import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from awaken.contracts.config.publications import hash_object
from awaken.contracts.evals.cases import Case, CaseEntry, DatasetRevision
from awaken.contracts.evals.errors import InvalidDataset, InvalidEval
from awaken.contracts.evals.eval_runs import (
    EvalBudget,
    EvalItem,
    EvalMode,
    EvalRecord,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.store import encode_eval_object
from awaken.contracts.evals.verdicts import EvalComparison, GateResult
from awaken.contracts.evals.worlds import ToolPolicy, Variant
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.scoring import scorers as scorers
from awaken.scoring.gates import parse_gate

from .case_checks import check_scorers
from .dataset_files import DatasetFolder, read_folder, write_folder
from .dataset_writes import DatasetDocument
from .planning import list_simulated
from .recording_files import encode_recording
from .results import (
    ComparedEval,
    EvalEvidence,
    EvalFigures,
    build_figures,
    check_comparable,
    check_tried,
    compare_ended,
    load_compared,
)

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.specs.agents import AgentSpec

    from .runner import EvalRunner


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """Cases to try, with what scores all of them.

    Args:
        cases: The cases.
        id: The name of the dataset.
        scorers: Scorers of every case, beside its own.
        gate: What must hold for the eval to pass.
        recordings: Recordings that cases name by their hash.
    """

    cases: tuple[Case, ...]
    id: str = "dataset"
    scorers: tuple[ScorerSpec, ...] = ()
    gate: dict[str, Any] | None = None
    recordings: Mapping[str, bytes] = {}

    def with_recorded(self, case: Case, recording: Recording) -> "Dataset":
        """Return the dataset with one more case, whose models and tools a recording answers.

        Args:
            case: The case; its `recording` is set.
            recording: What a run did.
        """
        data = encode_recording(recording)
        named = msgspec.structs.replace(case, recording=hash_object(data))
        return msgspec.structs.replace(
            self,
            cases=(*self.cases, named),
            recordings={**self.recordings, hash_object(data): data},
        )

    @classmethod
    def load(cls, folder: str | Path) -> "Dataset":
        """Read a dataset from a folder of files; its id is the name of the folder.

        Args:
            folder: Where `save` or `awaken eval pull` wrote it, or fixtures of Awaken for Rust.

        Raises:
            InvalidDataset: There is no such folder, or a file of it is broken.
        """
        path = Path(folder)
        found = read_folder(path)
        document = found.document
        return cls(
            cases=document.cases,
            id=re.sub(r"[^A-Za-z0-9._-]", "-", path.resolve().name) or "dataset",
            scorers=document.scorers,
            gate=document.gate,
            recordings=found.recordings,
        )

    def save(self, folder: str | Path) -> None:
        """Write the dataset as a folder of files, which `awaken eval run` and reviews read.

        Args:
            folder: Where; files of cases that it has no more are removed.

        Raises:
            InvalidDataset: The folder holds something else; nothing was written.
            OSError: A file could not be written.
        """
        document = DatasetDocument(cases=self.cases, scorers=self.scorers, gate=self.gate)
        recordings = dict(self.recordings)
        write_folder(Path(folder), DatasetFolder(document=document, recordings=recordings))


class EvalOptions(TypedDict, total=False):
    """The options of an eval; see `EvalSpec`."""

    mode: EvalMode | str
    tools: ToolPolicy
    repeats: int
    seed: int
    scorers: Sequence[ScorerSpec]
    judge_model_id: str
    judge: dict[str, Any]
    concurrency: int
    cell_timeout_ms: int
    max_tokens_per_cell: int
    budget: EvalBudget
    gate: dict[str, Any]
    cases: Sequence[str]
    tags: Sequence[str]
    split: str
    has_drafts: bool
    stop_early: bool


class EvalResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an eval said."""

    record: EvalRecord
    items: tuple[EvalItem, ...]
    figures: EvalFigures
    hashes: dict[str, str] = {}
    """The hashes of its cases: a case that has changed is not compared."""

    @property
    def gate(self) -> GateResult | None:
        """What the gate says; None without one."""
        return self.figures.gate

    @property
    def is_passed(self) -> bool:
        """Whether the gate passed; without a gate, whether every sample passed every scorer."""
        if self.gate is not None:
            return self.gate.is_passed
        # A first variant that is only compared with has no scores: it is the others that pass.
        leads = {score.against for it in self.items for score in it.scores if score.against}
        # An eval that failed or was cancelled has no gate, and has tried what it has tried.
        return self.record.status is EvalStatus.DONE and all(
            (it.scores or (it.variant in leads and it.status is ItemStatus.SCORED))
            and not it.status.is_missing
            and all(score.passed for score in it.scores)
            for it in self.items
        )


async def evaluate(
    dataset: Dataset | Sequence[Case],
    agents: "Iterable[Agent | AgentSpec] | Any" = (),
    *,
    variants: Sequence[Variant] = (),
    baseline: EvalResult | None = None,
    runtime_options: Mapping[str, Any] | None = None,
    on_item: Callable[[EvalItem], None] | None = None,
    **options: Unpack[EvalOptions],
) -> EvalResult:
    """Try the cases of a dataset with agents, and score what they do.

    Recorded and scripted datasets need no key and no network. Tools with effects are never executed
    unless the tool policy allows it.

    Args:
        dataset: A dataset, or cases.
        agents: The agents, or a runtime that is not open: its agents, tools and models are used
            on a store in memory.
        variants: What is tried. Absent: the first agent as it is.
        baseline: An earlier result that every variant is compared with.
        runtime_options: Further arguments of the `AgentRuntime`.
        on_item: Called with each item as it is scored.
        **options: Further fields of the `EvalSpec`, such as `mode`, `repeats` or `gate`. Absent,
            the mode is that of the gate's terms; if they name none, `scripted` if every case has a
            script, `recorded` if every case has a recording, else `live`.

    Raises:
        EvalError: The eval cannot be planned, or not be compared with the baseline; nothing was
            spent.
    """
    given = dataset if isinstance(dataset, Dataset) else Dataset(cases=tuple(dataset))
    runtime = _build_runtime(agents, runtime_options or {})
    async with runtime:
        runner = runtime.evals
        await keep_dataset(runner.parts.evals, given)
        tried = tuple(variants) or (Variant(name="default"),)
        if not _states_agent(given, options):
            tried = _name_agents(tried, given, runtime)
        spec = build_spec(given, tried, options)
        try:
            return await try_spec(runner, spec, given, baseline, on_item)
        finally:
            await runner.close()


async def try_spec(
    runner: "EvalRunner",
    spec: EvalSpec,
    dataset: Dataset,
    baseline: EvalResult | None = None,
    on_item: Callable[[EvalItem], None] | None = None,
) -> EvalResult:
    """Make an eval of a kept dataset, drive it to its end here, and return what it said.

    Raises:
        EvalError: The eval cannot be planned, or not be compared; nothing was spent.
    """
    if baseline is not None:
        # Before anything is spent: afterwards it would be paid for nothing.
        planned = EvalRecord(eval_id=spec.id or "this eval", spec=spec, revision=0)
        check_comparable(baseline.record, planned)
        check_tried(baseline.record, baseline.items, planned)
    record = await runner.create(spec)
    if on_item is not None:
        runner.watch(record.eval_id, on_item)
    try:
        runner.start(record.eval_id)
        record = await runner.wait(record.eval_id)
    except asyncio.CancelledError:
        await runner.cancel(record.eval_id)
        raise
    found = await load_compared(runner.parts.evals, record.eval_id)
    result = EvalResult(
        record=record,
        items=tuple(found.items),
        figures=msgspec.convert(record.summary, EvalFigures),
        hashes=dict(found.hashes),
    )
    if baseline is None:
        return result
    return msgspec.structs.replace(result, figures=judge_result(result, dataset, baseline))


def judge_result(
    result: EvalResult, dataset: Dataset, baseline: EvalResult | None = None
) -> EvalFigures:
    """Sum up a result, and judge it by the gate of its eval, else of its dataset.

    Raises:
        NotComparable: The baseline was made in another mode, or of another dataset.
    """
    spec = result.record.spec
    evidence = EvalEvidence(
        own=_as_compared(result),
        baseline=None if baseline is None else _as_compared(baseline),
        gate=dataset.gate if spec.gate is None else spec.gate,
        tags={it.id: it.tags for it in dataset.cases},
        simulated=list_simulated(spec, dataset.cases),
    )
    return build_figures(evidence)


def _as_compared(result: EvalResult) -> ComparedEval:
    return ComparedEval(record=result.record, items=result.items, hashes=result.hashes)


def build_spec(
    dataset: Dataset, variants: Sequence[Variant], options: Mapping[str, Any]
) -> EvalSpec:
    """Build the spec of an eval from the arguments of `evaluate`.

    Raises:
        InvalidEval: There is no such mode.
        InvalidGate: The gate cannot be read.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("scorers", "cases", "tags"):
        if name in given:
            given[name] = tuple(given[name])
    gate = given.get("gate", dataset.gate)
    stated = None if gate is None else parse_gate(gate).terms.mode
    mode = given.get("mode") or stated or choose_mode(dataset.cases)
    if mode not in list(EvalMode):
        known = ", ".join(EvalMode)
        raise InvalidEval(problem=f"there is no mode {mode!r}; use one of {known}")
    given["mode"] = EvalMode(mode)
    return EvalSpec(dataset_id=dataset.id, variants=tuple(variants), **given)


def choose_mode(cases: Sequence[Case]) -> EvalMode:
    """Return the mode in which cases need no model, if they have what it takes."""
    if cases and all(it.provider_script for it in cases):
        return EvalMode.SCRIPTED
    if cases and all(it.recording is not None for it in cases):
        return EvalMode.RECORDED
    return EvalMode.LIVE


async def keep_dataset(evals: Any, dataset: Dataset) -> DatasetRevision:
    """Write a dataset as a new revision of its id.

    Raises:
        InvalidDataset: Two cases have one id, or two scorers one name: one would be lost.
        InvalidScorer: A scorer does not exist, or its options do not fit.
    """
    seen: set[str] = set()
    for case in dataset.cases:
        if case.id in seen:
            raise InvalidDataset(what=f"case '{case.id}'", problem="two cases have this id")
        seen.add(case.id)
    check_scorers(dataset.scorers, f"dataset '{dataset.id}'")
    objects = dict(dataset.recordings)
    entries = []
    for case in dataset.cases:
        hashed, body = encode_eval_object(case)
        objects[hashed] = body
        entries.append(
            CaseEntry(id=case.id, hash=hashed, tags=case.tags, split=case.split, status=case.status)
        )
    await evals.put_eval_objects(objects)
    known = await evals.load_dataset(dataset.id)
    before = 0 if known is None else known.revision
    revision = DatasetRevision(
        dataset_id=dataset.id,
        revision=before + 1,
        cases=tuple(entries),
        scorers=dataset.scorers,
        gate=dataset.gate,
    )
    await evals.save_dataset(revision, before)
    return revision


def _states_agent(dataset: Dataset, options: Mapping[str, Any]) -> bool:
    """Whether the terms of the gate say which agent is tried: then it is no other one.

    Raises:
        InvalidGate: The gate cannot be read.
    """
    gate = dataset.gate if options.get("gate") is None else options["gate"]
    return gate is not None and parse_gate(gate).terms.agent_id is not None


def _name_agents(
    variants: Sequence[Variant], dataset: Dataset, runtime: Any
) -> tuple[Variant, ...]:
    """Return the variants; those that name no agent are of the first one, without a default.

    Cases with a recording are tried with the agent of the recording.
    """
    agents = runtime.registry.snapshot().registries.agents
    has_recording = any(it.recording is not None for it in dataset.cases)
    is_named = DEFAULT_AGENT in agents or (has_recording and len(agents) > 1)
    first = None if is_named else next(iter(agents), None)
    return tuple(
        it if it.agent_id is not None else msgspec.structs.replace(it, agent_id=first)
        for it in variants
    )


def _build_runtime(agents: Any, options: Mapping[str, Any]) -> Any:
    # By its name, when it is called: `bootstrap`, which alone makes runtimes, stands above.
    return importlib.import_module("awaken.bootstrap.evaluating").build_runtime(agents, options)


def compare(first: EvalResult, second: EvalResult) -> tuple[EvalComparison, ...]:
    """Compare the variants of a second eval with those of a first one, paired by case.

    Args:
        first: What is compared with, such as the baseline.
        second: What is judged.

    Raises:
        NotComparable: They were made in different modes or of different datasets, one has no
            sample, or nothing scored both.
    """
    found = compare_ended(_as_compared(first), _as_compared(second))
    return tuple(
        msgspec.structs.replace(it, warnings=(*found.warnings, *it.warnings))
        for it in found.comparisons
    )
