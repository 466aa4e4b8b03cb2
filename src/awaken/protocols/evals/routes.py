"""Evals, scores and labels over HTTP, in one table."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from awaken.contracts.evals.eval_runs import EvalRecord, EvalSpec
from awaken.contracts.evals.scores import Score, ScoreSource, StoredScore
from awaken.contracts.evals.store import EvalQuery, ScoreQuery
from awaken.contracts.evals.verdicts import Calibration
from awaken.contracts.runs.records import RunRecord
from awaken.evals.calibrating import add_human_score, build_run_score, calibrate_judge
from awaken.evals.estimating import EvalEstimate, estimate_eval
from awaken.evals.preparing import prepare_eval
from awaken.evals.results import ComparedEvals, EvalFigures, compute_comparison, load_compared
from awaken.evals.runner import EvalRunner
from awaken.services.view import AppServices
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol, make_route

from . import views
from .effects import check_effects
from .figures import FigureRoutes
from .fixture_runs import FixtureRunRoutes
from .item_stream import ItemStream

FindEvals = Callable[[], EvalRunner]
"""Returns the evals of the process; they are loaded when it is first called."""
_EVAL = "/v1/evals/{eval_id}"


def evals_protocol(services: AppServices, find_evals: FindEvals) -> WireProtocol:
    """Make the routes of evals, scores and labels."""
    evals, scores = EvalRoutes(find_evals), ScoreRoutes(services, find_evals)
    fixtures, figures = FixtureRunRoutes(find_evals), FigureRoutes(find_evals)
    return WireProtocol(
        name="evals",
        routes=(
            *_eval_routes(evals),
            *_fixture_routes(fixtures),
            *_score_routes(scores),
            *_figure_routes(figures),
        ),
    )


_read = partial(make_route, Access.CONFIG, tag="evals")
_change = partial(make_route, Access.EVAL, tag="evals")


def _eval_routes(routes: "EvalRoutes") -> tuple[ApiRoute, ...]:
    return (
        _change("POST /v1/evals", routes.create, EvalRecord, body=EvalSpec, status=202),
        _read("GET /v1/evals", routes.list_evals, views.EvalList, query=views.EvalFilter),
        _change("POST /v1/evals/estimate", routes.estimate, EvalEstimate, body=EvalSpec),
        _read(f"GET {_EVAL}", routes.get, EvalRecord),
        _read(f"GET {_EVAL}/items", routes.list_items, views.ItemList, query=views.ItemFilter),
        _read(f"GET {_EVAL}/stream", routes.stream, bytes),
        _change(f"POST {_EVAL}/cancel", routes.cancel, EvalRecord),
        _read(f"GET {_EVAL}/compare/{{other_id}}", routes.compare, ComparedEvals),
    )


def _fixture_routes(routes: FixtureRunRoutes) -> tuple[ApiRoute, ...]:
    reply = views.FixtureRunReply
    return (
        _change(
            "POST /v1/eval/runs",
            routes.create,
            reply,
            body=views.FixtureRun,
            statuses={202: reply},
        ),
        _read(
            "GET /v1/eval/runs",
            routes.list_runs,
            views.FixtureRunList,
            query=views.FixtureRunListQuery,
        ),
        _read("GET /v1/eval/runs/{eval_id}", routes.get, reply, query=views.FixtureRunQuery),
        _change(
            "POST /v1/eval/online",
            routes.try_online,
            reply,
            body=views.OnlineEval,
            statuses={202: reply},
        ),
    )


def _score_routes(routes: "ScoreRoutes") -> tuple[ApiRoute, ...]:
    return (
        _change(
            "POST /v1/runs/{run_id}/scores",
            routes.add,
            StoredScore,
            body=views.NewScore,
            status=201,
        ),
        _read("GET /v1/runs/{run_id}/scores", routes.list_scores, views.ScoreList),
        _change(
            "POST /v1/eval/labels",
            routes.add_labels,
            views.ScoreList,
            body=views.NewLabels,
            status=201,
        ),
        _read("GET /v1/eval/scores", routes.find_scores, views.ScoreList, query=views.ScoreFilter),
        _read("GET /v1/eval/judges/{scorer}/calibration", routes.calibrate, Calibration),
    )


def _figure_routes(routes: FigureRoutes) -> tuple[ApiRoute, ...]:
    return (
        _read(f"GET {_EVAL}/figures", routes.get_figures, EvalFigures),
        _read("GET /v1/eval/forms", routes.describe_forms, views.EvalForms),
    )


class EvalRoutes:
    """Handles the routes of evals; what they do is loaded by the first request."""

    def __init__(self, find_evals: FindEvals) -> None:
        self._find = find_evals

    async def create(self, call: RouteCall) -> Reply:
        """Plan an eval and begin it."""
        runner = self._find()
        spec = await check_effects(call, runner, call.body)
        record = await runner.create(spec, by=call.actor)
        runner.start(record.eval_id)
        return as_json(record, 202)

    async def estimate(self, call: RouteCall) -> Reply:
        """Estimate what an eval would use, and check it; nothing is spent."""
        runner = self._find()
        prepared = await prepare_eval(runner.parts, call.body, by=call.actor)
        return as_json(await estimate_eval(runner.parts, prepared))

    async def list_evals(self, call: RouteCall) -> Reply:
        """List evals, newest first; without those of the demo data a page may be short."""
        asked: views.EvalFilter = call.query
        found = await self._find().parts.evals.list_evals(
            EvalQuery(
                dataset_id=asked.dataset_id,
                status=asked.status,
                before_no=asked.before,
                limit=asked.limit + 1,
            )
        )
        return as_json(views.list_evals(found, asked))

    async def get(self, call: RouteCall) -> Reply:
        """Get an eval with its figures, once it has ended."""
        return as_json(await self._find().load(call.path["eval_id"]))

    async def list_items(self, call: RouteCall) -> Reply:
        """List the items of an eval, in the order of the plan."""
        asked: views.ItemFilter = call.query
        runner = self._find()
        record = await runner.load(call.path["eval_id"])
        items = await runner.parts.evals.list_eval_items(
            record.eval_id, after=asked.after, limit=asked.limit
        )
        return as_json(views.ItemList(items=items))

    async def stream(self, call: RouteCall) -> Reply:
        """Stream the items of an eval as they are scored, and its record when it has ended."""
        runner = self._find()
        record = await runner.load(call.path["eval_id"])
        return ItemStream(runner, record.eval_id)

    async def cancel(self, call: RouteCall) -> Reply:
        """Cancel an eval and the runs of its samples."""
        return as_json(await self._find().cancel(call.path["eval_id"]))

    async def compare(self, call: RouteCall) -> Reply:
        """Compare two evals, paired by case."""
        parts = self._find().parts
        first = await load_compared(parts.evals, call.path["eval_id"])
        second = await load_compared(parts.evals, call.path["other_id"])
        return as_json(await compute_comparison(first, second))


class ScoreRoutes:
    """Handles the routes of scores and labels."""

    def __init__(self, services: AppServices, find_evals: FindEvals) -> None:
        self._services = services
        self._find = find_evals

    async def add(self, call: RouteCall) -> Reply:
        """Score a run, or one of its steps, as a person."""
        given: views.NewScore = call.body
        record = await call.view.stored_run(call.path["run_id"])
        score = Score(
            name=given.name,
            value=given.value,
            passed=given.value >= PASS,
            label=given.label,
            reason=given.comment,
        )
        stored = replace(self._build_score(call, record, score), step=given.step)
        return as_json(await add_human_score(self._find().parts.evals, stored), 201)

    async def list_scores(self, call: RouteCall) -> Reply:
        """List the scores of a run, newest first."""
        record = await call.view.stored_run(call.path["run_id"])
        found = await self._find().parts.evals.list_scores(ScoreQuery(run_id=record.run_id))
        return as_json(views.ScoreList(scores=found))

    async def find_scores(self, call: RouteCall) -> Reply:
        """Find scores of all runs, newest first: of people, of evals and of live scoring."""
        asked: views.ScoreFilter = call.query
        query = ScoreQuery(
            scorer=asked.scorer,
            source=asked.source,
            since=asked.since,
            below=asked.below,
            before_no=asked.before,
            limit=asked.limit,
        )
        return as_json(views.ScoreList(scores=await self._find().parts.evals.list_scores(query)))

    async def add_labels(self, call: RouteCall) -> Reply:
        """Label what judges have scored; labels calibrate them."""
        given: views.NewLabels = call.body
        made = []
        for it in given.labels:
            record = await call.view.stored_run(it.run_id)
            value = float(it.passed)
            score = Score(name=it.scorer, value=value, passed=it.passed, reason=it.comment)
            made.append(self._build_score(call, record, score))
        added = await self._find().parts.evals.add_scores(made)
        return as_json(views.ScoreList(scores=added), 201)

    async def calibrate(self, call: RouteCall) -> Reply:
        """Say how far a judge agrees with people."""
        evals = self._find().parts.evals
        return as_json(await calibrate_judge(evals, call.path["scorer"]))

    def _build_score(self, call: RouteCall, record: RunRecord, score: Score) -> StoredScore:
        """Build what a person says of a run; the reason is the person's comment."""
        now = self._services.clock.now_ms()
        stored = build_run_score(record, score, ScoreSource.HUMAN, now, by=call.actor)
        return replace(stored, comment=score.reason)


PASS = 0.5
"""A person's value from here on is a pass."""
