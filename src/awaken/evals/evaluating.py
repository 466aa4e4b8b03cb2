"""`evaluate`: an eval in this process, on a store in memory, without a server."""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from awaken.contracts.config.publications import hash_object
from awaken.contracts.evals.cases import Case, CaseEntry, DatasetRevision
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.eval_runs import EvalBudget, EvalItem, EvalMode, EvalRecord, EvalSpec
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.store import encode_eval_object
from awaken.contracts.evals.verdicts import EvalComparison, GateResult
from awaken.contracts.evals.worlds import ToolPolicy, Variant
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.scoring import scorers as scorers

from .case_checks import check_scorers
from .driving import list_items
from .recording_files import encode_recording
from .results import (
    ComparedEval,
    EvalEvidence,
    EvalFigures,
    build_figures,
    compare_evals,
    hash_cases,
)

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.specs.agents import AgentSpec


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
        return bool(self.items) and all(
            not it.status.is_missing and it.scores and all(score.passed for score in it.scores)
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
            the mode is `scripted` if every case has a script, `recorded` if every case has a
            recording, else `live`.

    Raises:
        EvalError: The eval cannot be planned; nothing was spent.
    """
    given = dataset if isinstance(dataset, Dataset) else Dataset(cases=tuple(dataset))
    runtime = _build_runtime(agents, runtime_options or {})
    async with runtime:
        runner = runtime.evals
        revision = await keep_dataset(runner.parts.evals, given)
        spec = build_spec(given, _name_agents(variants, runtime), options)
        record = await runner.create(spec)
        if on_item is not None:
            runner.watch(record.eval_id, on_item)
        try:
            runner.start(record.eval_id)
            record = await runner.wait(record.eval_id)
        except asyncio.CancelledError:
            await runner.cancel(record.eval_id)
            raise
        finally:
            await runner.close()
        items = await list_items(runner.parts.evals, record.eval_id)
    result = EvalResult(
        record=record,
        items=tuple(items),
        figures=msgspec.convert(record.summary, EvalFigures),
        hashes=hash_cases(revision),
    )
    if baseline is None:
        return result
    evidence = EvalEvidence(
        own=_as_compared(result),
        baseline=_as_compared(baseline),
        gate=spec.gate or given.gate,
        tags={it.id: it.tags for it in given.cases},
    )
    return msgspec.structs.replace(result, figures=build_figures(evidence))


def _as_compared(result: EvalResult) -> ComparedEval:
    return ComparedEval(record=result.record, items=result.items, hashes=result.hashes)


def build_spec(
    dataset: Dataset, variants: Sequence[Variant], options: Mapping[str, Any]
) -> EvalSpec:
    """Build the spec of an eval from the arguments of `evaluate`."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("scorers", "cases", "tags"):
        if name in given:
            given[name] = tuple(given[name])
    given["mode"] = EvalMode(given.get("mode") or choose_mode(dataset.cases))
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


def _name_agents(variants: Sequence[Variant], runtime: Any) -> tuple[Variant, ...]:
    """Return the variants; those that name no agent are of the first one, without a default."""
    agents = runtime.registry.snapshot().registries.agents
    first = None if DEFAULT_AGENT in agents else next(iter(agents), None)
    return tuple(
        it if it.agent_id is not None else msgspec.structs.replace(it, agent_id=first)
        for it in variants or (Variant(name="default"),)
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
        NotComparable: They were made in different modes, or of different datasets.
    """
    return compare_evals(_as_compared(first), _as_compared(second))
