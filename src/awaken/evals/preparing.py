"""Prepares an eval: everything is loaded, compiled and checked before anything is spent."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError, DemoRecord
from awaken.contracts.evals.cases import Case, DatasetRevision
from awaken.contracts.evals.errors import InvalidEval, InvalidGate, UnknownDataset
from awaken.contracts.evals.eval_runs import EvalSpec
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.scores import ModelAsk, Scorer, ScorerSpec
from awaken.contracts.evals.store import EvalStore
from awaken.contracts.evals.worlds import ModelSource, Variant
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.record import Record
from awaken.runtime.resolution.registries import AgentSource
from awaken.runtime.resolution.resolver import DEFAULT_AGENT, ResolvedAgent
from awaken.scoring.expectations import list_expected_specs
from awaken.scoring.gates import GateTerms, parse_gate
from awaken.scoring.judged import NAMES as JUDGED
from awaken.scoring.judged import compares_variants
from awaken.scoring.registry import make_scorers
from awaken.services.control import RunControl

from .judging import JUDGE_AGENT, build_asked_agent
from .pins import PinnedConfig, SnapshotSource, has_changes
from .planning import (
    MODELS,
    SAMPLES_MAX,
    PlannedSample,
    check_case,
    list_simulated,
    plan_samples,
    select_cases,
)
from .recording import Recorder
from .samples import SampleCase, agent_of
from .terms import apply_terms
from .variants import apply_variant

T = TypeVar("T")

_PRICED = TokenUsage(prompt_tokens=1_000, completion_tokens=1_000)


class EvalLimits(Record, frozen=True, kw_only=True):
    """Bounds of the evals of one process."""

    samples_max: int = SAMPLES_MAX
    evals_at_once: int = 2
    lease_ms: int = 15_000
    """How long a driver that died holds its eval."""
    infra_retries: int = 2


class EvalParts(msgspec.Struct, frozen=True, kw_only=True):
    """What evals need of a runtime."""

    control: RunControl
    evals: EvalStore
    recorder: Recorder
    clock: Clock
    ids: IdSource
    snapshots: SnapshotSource | None = None
    """None without managed configuration."""
    modules: tuple[str, ...] = ()
    """Modules whose functions may score."""
    worker_id: str = "local"
    limits: EvalLimits = EvalLimits()


class PreparedEval(msgspec.Struct, frozen=True, kw_only=True):
    """An eval with everything that it names."""

    spec: EvalSpec
    revision: DatasetRevision
    cases: dict[str, SampleCase]
    samples: tuple[PlannedSample, ...]
    publications: dict[str, int]
    manifest_hash: str | None = None

    @property
    def gate(self) -> dict[str, Any] | None:
        """The gate of the eval, else of its dataset; an empty one is one, and is refused."""
        return self.revision.gate if self.spec.gate is None else self.spec.gate

    def scorers_of(self, case: Case, variant: str | None = None) -> tuple[ScorerSpec, ...]:
        """Return the scorers of a case: its own win over those of the eval and of the dataset.

        The first variant has none of those that compare the others with it.
        """
        expected = () if case.expect is None else list_expected_specs(case.expect, self.spec.judge)
        named: dict[str, ScorerSpec] = {}
        for it in (*self.revision.scorers, *self.spec.scorers, *case.scorers, *expected):
            named[it.shown_name] = it
        is_lead = variant == self.spec.variants[0].name
        return tuple(it for it in named.values() if not (is_lead and compares_variants(it)))

    def find_comparing(self) -> str | None:
        """Return the name of a scorer that compares variants with the first one, if one does."""
        specs = (it for given in self.cases.values() for it in self.scorers_of(given.case))
        return next((it.shown_name for it in specs if compares_variants(it)), None)

    def find_variant(self, name: str) -> Variant:
        """Return a variant by its name."""
        return next(it for it in self.spec.variants if it.name == name)


async def prepare_eval(
    parts: EvalParts, spec: EvalSpec, publications: dict[str, int] | None = None, by: str = ""
) -> PreparedEval:
    """Load, compile and check an eval; nothing is spent and nothing of it is written.

    What the spec does not say, the terms of its gate say.

    `publications` are those that the variants were pinned to when the eval was made.

    Raises:
        EvalError: Something that it names does not exist, does not compile, or is not enough.
    """
    revision = await parts.evals.load_dataset(spec.dataset_id, spec.revision)
    if revision is None or revision.is_deleted:
        detail = "" if revision is None else " any more"
        if revision is None and spec.revision is not None:
            newest = await parts.evals.load_dataset(spec.dataset_id)
            if newest is not None:
                detail = f" with a revision {spec.revision}; its newest is {newest.revision}"
        raise UnknownDataset(dataset_id=spec.dataset_id, detail=detail)
    if revision.is_demo:
        raise DemoRecord(record_id=spec.dataset_id)
    given_gate = revision.gate if spec.gate is None else spec.gate
    terms = GateTerms() if given_gate is None else parse_gate(given_gate).terms
    spec = apply_terms(spec, terms)
    cases = await load_cases(parts.evals, revision, select_cases(revision, spec))
    pins, manifest_hash = await _pin_variants(parts, spec, publications, by)
    prepared = PreparedEval(
        spec=spec,
        revision=revision,
        cases=cases,
        samples=(),
        publications=pins,
        manifest_hash=manifest_hash,
    )
    prepared = _plan(prepared, parts.limits.samples_max)
    for given in cases.values():
        has_scorers = bool(revision.scorers or spec.scorers)
        check_case(given.case, spec, has_scorers=has_scorers)
    check_gate(prepared)
    check_simulated(prepared)
    check_scorers(parts, prepared)
    await check_variants(parts, prepared)
    return prepared


def _plan(prepared: PreparedEval, samples_max: int) -> PreparedEval:
    spec, comparing = prepared.spec, prepared.find_comparing()
    if comparing is not None and len(spec.variants) < 2:
        problem = f"scorer '{comparing}' compares variants with the first one, and there is one; "
        raise InvalidEval(problem=problem + "give two variants, or set `against: reference`")
    cases = [it.case for it in prepared.cases.values()]
    samples = plan_samples(spec, cases, samples_max, has_lead=comparing is not None)
    return msgspec.structs.replace(prepared, samples=samples)


def check_simulated(prepared: PreparedEval) -> None:
    """Refuse a gate of the eval itself on simulated tools; the dataset's own cannot pass on them.

    Raises:
        InvalidEval: A case has simulated tools.
    """
    found = list_simulated(prepared.spec, [it.case for it in prepared.cases.values()])
    if found and prepared.spec.gate is not None:
        problem = f"the tools of case '{found[0]}' are simulated, and no gate passes on that; "
        raise InvalidEval(problem=problem + "leave the gate out, or give stubs or a recording")


def expects_failure(specs: Sequence[ScorerSpec]) -> bool:
    """Whether one of the scorers is passed by the way in which a run fails."""
    return any(
        it.scorer == "ended" or (it.scorer == "error_type" and it.options.get("expected"))
        for it in specs
    )


def check_gate(prepared: PreparedEval) -> None:
    """Read the gate, and refuse one that names what an eval of the whole dataset does not have.

    Raises:
        InvalidGate: It cannot be read, or no case has its scorer or tag; nothing was spent.
    """
    spec = prepared.spec
    if (given := prepared.gate) is None:
        return
    gate = parse_gate(given)
    if spec.cases or spec.tags or spec.split:
        return
    cases = [it.case for it in prepared.cases.values()]
    names = {it.shown_name for case in cases for it in prepared.scorers_of(case)}
    for name in (*(it.scorer for it in gate.require), *(it.scorer for it in gate.compare)):
        if name not in names:
            listed = ", ".join(sorted(names))
            raise InvalidGate(problem=f"no case has a scorer '{name}'; there are {listed}")
    wanted, tags = set(gate.cases.must_pass), {tag for case in cases for tag in case.tags}
    if wanted and wanted.isdisjoint(tags):
        listed = ", ".join(sorted(wanted))
        raise InvalidGate(problem=f"cases.must_pass: no case has a tag of {listed}")


async def load_cases(
    evals: EvalStore, revision: DatasetRevision, case_ids: Sequence[str]
) -> dict[str, SampleCase]:
    """Load cases and their recordings, in the given order.

    Raises:
        InvalidEval: A case or a recording was deleted, or cannot be read.
    """
    cases = await load_case_documents(evals, revision, case_ids)
    named = [it.recording for it in cases if it.recording is not None]
    recorded = await evals.load_eval_objects(named) if named else {}
    return {
        case.id: SampleCase(
            case=case,
            recording=None
            if case.recording is None
            else _decode(recorded.get(case.recording), Recording, f"recording of '{case.id}'"),
        )
        for case in cases
    }


async def load_case_documents(
    evals: EvalStore, revision: DatasetRevision, case_ids: Sequence[str]
) -> list[Case]:
    """Load cases without what they name, in the given order.

    Raises:
        InvalidEval: A case was deleted, or cannot be read.
    """
    hashes = {it.id: it.hash for it in revision.cases}
    bodies = await evals.load_eval_objects([hashes[it] for it in case_ids])
    return [_decode(bodies.get(hashes[it]), Case, f"case '{it}'") for it in case_ids]


def _decode(body: bytes | None, type_: type[T], what: str) -> T:
    if body is None:
        raise InvalidEval(problem=f"{what} was deleted")
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, AwakenError) as error:
        raise InvalidEval(problem=f"{what} cannot be read: {_say(error)}") from error


async def _pin_variants(
    parts: EvalParts, spec: EvalSpec, kept: dict[str, int] | None, by: str
) -> tuple[dict[str, int], str | None]:
    """Return the publication of each variant, and the manifest that the last one runs on."""
    if kept is not None:
        return kept, None
    if parts.snapshots is None:
        for variant in spec.variants:
            if variant.publication is not None or variant.draft_id is not None:
                problem = f"variant '{variant.name}' needs managed configuration"
                raise InvalidEval(problem=problem)
        return {}, None
    pins: dict[str, int] = {}
    first: str | None = None
    for variant in spec.variants:
        try:
            pinned = await _pin_variant(parts.snapshots, variant, by)
        except AwakenError as error:
            raise InvalidEval(problem=f"variant '{variant.name}': {_say(error)}") from error
        if pinned is None:
            continue
        pins[variant.name] = pinned.publication
        is_unchanged = not has_changes(variant) and variant.overrides is None
        if variant is spec.variants[-1] and is_unchanged:
            first = pinned.manifest_hash
    return pins, first


async def _pin_variant(snapshots: SnapshotSource, variant: Variant, by: str) -> PinnedConfig | None:
    if variant.draft_id is not None:
        return await snapshots.pin_draft(variant.draft_id, by)
    if variant.publication is not None:
        return await snapshots.pin_publication(variant.publication)
    return await snapshots.pin_live()


def _say(error: Exception) -> str:
    """Return the text of an error as a part of a sentence."""
    return str(error).rstrip(".")


class _NoAsk:
    async def ask(self, *_: object) -> "object":
        raise AssertionError


def check_scorers(parts: EvalParts, prepared: PreparedEval) -> None:
    """Compile the scorers of every case.

    Raises:
        InvalidScorer: One does not exist, or its options do not fit.
        InvalidEval: A judge names no model, and the eval has none for it.
    """
    ask: ModelAsk = _NoAsk()  # type: ignore[assignment]
    for given in prepared.cases.values():
        specs = prepared.scorers_of(given.case)
        make_scorers(specs, ask=ask, modules=parts.modules)
        named = [it.options.get("model_id") for it in specs if it.scorer in JUDGED]
        if given.case.user is not None:
            named.append(given.case.user.model_id)
        if named and not all(named) and prepared.spec.judge_model_id is None:
            problem = f"a judge or simulated user of case '{given.case.id}' names no model; "
            raise InvalidEval(problem=problem + "set judge_model_id")


async def check_variants(parts: EvalParts, prepared: PreparedEval) -> None:
    """Resolve the agents of every variant, with its changes, and check the prices of a money cap.

    Raises:
        InvalidEval: An agent does not compile, or a model has no price that a cap needs.
    """
    spec = prepared.spec
    seen: set[tuple[str, str, bool]] = set()
    models: dict[str, ModelSpec] = {}
    for variant in spec.variants:
        texts = set(variant.tool_descriptions)
        for given in prepared.cases.values():
            if given.recording is not None:
                texts -= {it.id for it in given.recording.config.tools}
            agent_id = agent_of(given, variant) or DEFAULT_AGENT
            policy = given.case.tools or spec.tools_or_recorded
            key = (variant.name, agent_id, policy.is_simulated)
            if key in seen:
                continue
            seen.add(key)
            publication = prepared.publications.get(variant.name)
            try:
                agent = await resolve_variant(parts, variant, agent_id, publication)
            except AwakenError as error:
                raise InvalidEval(problem=f"variant '{variant.name}': {_say(error)}") from error
            texts.difference_update(agent.tools)
            if not agent.models and policy.is_simulated:
                problem = f"agent '{agent_id}' has no model that could simulate tools; "
                raise InvalidEval(problem=problem + "give stubs or a recording")
            if MODELS[spec.mode_or_live] is ModelSource.LIVE:
                models |= {route.spec.id: route.spec for route in agent.models}
        if texts:
            await _check_texts(parts, variant, texts, prepared.publications.get(variant.name))
    models |= await check_judges(parts, prepared)
    budget = spec.budget
    if budget is None or budget.cost_usd is None:
        return
    prices = parts.control.engine.services.prices
    for name, model in sorted(models.items()):
        if prices.nanos(model, _PRICED) is None:
            problem = (
                f"a cap in dollars needs the price of model '{name}'; "
                "give its ModelSpec prices, or cap tokens"
            )
            raise InvalidEval(problem=problem)


async def _check_texts(
    parts: EvalParts, variant: Variant, texts: Collection[str], publication: int | None
) -> None:
    """Refuse texts of tools that no agent has: nothing would be tried.

    Raises:
        InvalidEval: There is such a tool.
    """
    pinned = await parts.control.engine.registry.pin(DEFAULT_AGENT, publication)
    missing = set(texts)
    for agent_id in pinned.registries.agents:
        try:
            missing.difference_update(pinned.resolve(agent_id).tools)
        except AwakenError:
            # It is none of those that are tried; they were resolved before.
            continue
    if missing:
        named = ", ".join(f"'{it}'" for it in sorted(missing))
        raise InvalidEval(problem=f"variant '{variant.name}': no agent has a tool {named}")


async def resolve_variant(
    parts: EvalParts, variant: Variant, agent_id: str, publication: int | None
) -> ResolvedAgent:
    """Resolve the agent of a variant with its changes.

    Raises:
        AwakenError: There is no such agent, or it does not compile.
    """
    pinned = await parts.control.engine.registry.pin(agent_id, publication)
    if not has_changes(variant):
        return pinned.resolve(agent_id)
    named = msgspec.structs.replace(variant, agent_id=agent_id)
    registries = apply_variant(pinned.registries, named, None)
    return pinned.with_registries(registries).resolve(agent_id)


async def check_judges(parts: EvalParts, prepared: PreparedEval) -> dict[str, ModelSpec]:
    """Resolve the models of judges and simulated users, and return them by id.

    Raises:
        InvalidEval: A model does not exist.
    """
    names: set[str] = set()
    for given in prepared.cases.values():
        for it in prepared.scorers_of(given.case):
            if it.scorer in JUDGED:
                names.add(it.options.get("model_id") or prepared.spec.judge_model_id or "")
        if given.case.user is not None:
            names.add(given.case.user.model_id or prepared.spec.judge_model_id or "")
    found: dict[str, ModelSpec] = {}
    for name in sorted(names):
        pinned = await parts.control.engine.registry.pin(JUDGE_AGENT)
        asked = AgentSource(spec=build_asked_agent(JUDGE_AGENT, name, ""))
        try:
            registries = pinned.registries.with_agent(asked)
            agent = pinned.with_registries(registries).resolve(JUDGE_AGENT)
        except AwakenError as error:
            raise InvalidEval(problem=f"judge '{name}': {_say(error)}") from error
        found |= {route.spec.id: route.spec for route in agent.models}
    return found


def make_case_scorers(
    parts: EvalParts, prepared: PreparedEval, case: Case, variant: str, ask: ModelAsk | None
) -> tuple[Scorer, ...]:
    """Make the scorers of a case for one variant; judges ask through `ask`."""
    return make_scorers(prepared.scorers_of(case, variant), ask=ask, modules=parts.modules)
