"""Evals with the paths and the shapes of Awaken for Rust."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.evals.cases import Case, Expectation
from awaken.contracts.evals.errors import DatasetConflict, InvalidEval, NotComparable
from awaken.contracts.evals.eval_runs import EvalBudget, EvalMode, EvalRecord, EvalSpec
from awaken.contracts.evals.store import EvalQuery
from awaken.contracts.evals.worlds import OnMiss, ToolPolicy, Variant
from awaken.evals.driving import list_items
from awaken.evals.evaluating import Dataset, keep_dataset
from awaken.evals.fixture_reports import build_aggregates, build_run, build_summary, diff_items
from awaken.evals.results import check_tried
from awaken.evals.runner import EvalRunner
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from . import views
from .effects import check_effects

WAIT_MS = 30_000
"""How long a request waits for the end of its eval."""
CELL_MS = 600_000
ONLINE = ":online"
"""The dataset of inputs that were tried once; each is a revision. People's datasets have no colon
at the front of their ids."""
_TRIES = 5


class FixtureRunRoutes:
    """Handles the routes; what they do is loaded by the first request."""

    def __init__(self, find_evals: Callable[[], EvalRunner]) -> None:
        self._find = find_evals

    async def create(self, call: RouteCall) -> Reply:
        """Try a dataset; waits up to 30 seconds for the end."""
        given: views.FixtureRun = call.body
        runner = self._find()
        agent_id = await _choose_agent(runner, given.agent_id)
        spec = await check_effects(call, runner, _build_spec(given, agent_id))
        record = await runner.create(spec, by=call.actor)
        return await self._await(runner, record, given.baseline_run_id)

    async def try_online(self, call: RouteCall) -> Reply:
        """Try one input with several models; waits up to 30 seconds for the end."""
        given: views.OnlineEval = call.body
        runner = self._find()
        try:
            expect = msgspec.convert(given.expectations, Expectation)
        except msgspec.ValidationError as error:
            raise InvalidEval(problem=f"expectations: {error}") from error
        case = Case(id="input", user_input=given.user_input, expect=expect)
        revision = await self._keep_online(runner, case)
        spec = EvalSpec(
            dataset_id=ONLINE,
            revision=revision,
            variants=_list_variants(
                given.models, await _choose_agent(runner, given.agent_id), given.agent_overrides
            ),
            mode=EvalMode.LIVE,
            repeats=given.samples,
            cell_timeout_ms=_measure_limit(given.max_walltime_secs),
            budget=_build_budget(given.max_total_tokens),
            **_describe_judge(given.judge),
        )
        return await self._await(runner, await runner.create(spec, by=call.actor), None)

    async def list_runs(self, call: RouteCall) -> Reply:
        """List evals, newest first, with how many of their samples passed."""
        asked: views.FixtureRunListQuery = call.query
        evals = self._find().parts.evals
        query = EvalQuery(dataset_id=asked.dataset_id, limit=asked.limit)
        found = [it for _, it in await evals.list_evals(query) if not it.is_demo]
        runs = [build_summary(it, await list_items(evals, it.eval_id)) for it in found]
        return as_json(views.FixtureRunList(runs=tuple(runs)))

    async def get(self, call: RouteCall) -> Reply:
        """Get an eval with the reports of its fixtures, and its difference from a baseline."""
        asked: views.FixtureRunQuery = call.query
        runner = self._find()
        record = await runner.load(call.path["eval_id"])
        has_aggregates = asked.aggregate == "samples"
        return as_json(
            await self._show(runner, record, asked.baseline, has_aggregates=has_aggregates)
        )

    async def _await(self, runner: EvalRunner, record: EvalRecord, baseline: str | None) -> Reply:
        runner.start(record.eval_id)
        status = 200
        try:
            record = await runner.wait(record.eval_id, WAIT_MS)
        except TimeoutError:
            record, status = await runner.load(record.eval_id), 202
        return as_json(await self._show(runner, record, baseline, has_aggregates=True), status)

    async def _show(
        self,
        runner: EvalRunner,
        record: EvalRecord,
        baseline: str | None,
        *,
        has_aggregates: bool,
    ) -> views.FixtureRunReply:
        items = await list_items(runner.parts.evals, record.eval_id)
        run, diff = build_run(record, items), None
        # What has not been tried yet is not missing.
        if baseline is not None and record.status.is_terminal:
            other = await runner.load(baseline)
            _check_comparable(other, record)
            before = await list_items(runner.parts.evals, baseline)
            check_tried(other, before, record)
            entries = [msgspec.to_builtins(it) for it in diff_items(before, items)]
            diff = views.FixtureDiff(entries=tuple(entries))
        aggregates = tuple(build_aggregates(record)) if has_aggregates else None
        return views.FixtureRunReply(run=run, diff=diff, aggregates=aggregates)

    async def _keep_online(self, runner: EvalRunner, case: Case) -> int:
        for attempt in range(_TRIES):
            try:
                kept = await keep_dataset(runner.parts.evals, Dataset(cases=(case,), id=ONLINE))
            except DatasetConflict:
                if attempt == _TRIES - 1:
                    raise
            else:
                return kept.revision
        raise AssertionError


async def _choose_agent(runner: EvalRunner, agent_id: str | None) -> str | None:
    """Return the agent that was named; without a default one, the only one there is."""
    agents = (await runner.parts.control.engine.registry.pin(DEFAULT_AGENT)).registries.agents
    if agent_id is not None or DEFAULT_AGENT in agents or len(agents) != 1:
        return agent_id
    return next(iter(agents))


def _describe_judge(judge: views.FixtureJudge | None) -> dict[str, Any]:
    if judge is None:
        return {}
    options = {"model_id": judge.model_id, "rubric": judge.rubric}
    return {"judge_model_id": judge.model_id, "judge": options}


def _measure_limit(seconds: int | None) -> int:
    return CELL_MS if seconds is None else seconds * 1000


def _build_spec(given: views.FixtureRun, agent_id: str | None) -> EvalSpec:
    try:
        mode = EvalMode(given.mode)
    except ValueError as error:
        raise InvalidEval(problem=f"mode '{given.mode}' is not scripted or live") from error
    if mode is EvalMode.LIVE and not given.models:
        raise InvalidEval(problem="the mode live needs models")
    return EvalSpec(
        id=given.id,
        dataset_id=given.dataset_id,
        variants=_list_variants(given.models, agent_id, given.agent_overrides),
        mode=mode,
        # Tools of a fixture that has no answers for them fail, as they do there.
        tools=ToolPolicy(on_miss=OnMiss.ERROR),
        repeats=given.samples,
        cell_timeout_ms=_measure_limit(given.max_walltime_secs),
        budget=_build_budget(given.max_total_tokens),
        **_describe_judge(given.judge),
    )


def _build_budget(tokens: int | None) -> EvalBudget | None:
    return None if tokens is None else EvalBudget(tokens=tokens)


def _list_variants(
    models: tuple[str, ...], agent_id: str | None, overrides: dict[str, Any]
) -> tuple[Variant, ...]:
    if not models:
        return (Variant(name="default", agent_id=agent_id, changes=overrides),)
    return tuple(
        Variant(
            name=re.sub(r"[^A-Za-z0-9._-]", "-", it)[:128],
            agent_id=agent_id,
            model_id=it,
            changes=overrides,
        )
        for it in models
    )


def _check_comparable(first: EvalRecord, second: EvalRecord) -> None:
    same = (first.spec.dataset_id, first.revision) == (second.spec.dataset_id, second.revision)
    if not same:
        problem = "they are of different datasets or revisions"
        raise NotComparable(first=first.eval_id, second=second.eval_id, problem=problem)
