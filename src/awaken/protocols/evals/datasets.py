"""Datasets over HTTP, with the paths of Awaken for Rust; a tenant sees its own."""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import structs

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.evals.store import open_eval_store
from awaken.evals.capture import (
    CapturedCase,
    CaptureFilter,
    Captures,
    RunRecordings,
    capture_many,
    keep_recordings,
)
from awaken.evals.case_documents import read_case, write_case
from awaken.evals.dataset_writes import ChangedDataset, DatasetChange, WriteOptions
from awaken.evals.datasets import Datasets
from awaken.evals.importers import import_cases, tell_left_out
from awaken.services.view import AppServices
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol, make_route

from . import dataset_views as views

LISTED_MAX = 1_000
FindRecordings = Callable[[], RunRecordings]
"""Returns what records runs; it is loaded when it is first called."""
_DATASETS = "/v1/eval/datasets"
_DATASET = f"{_DATASETS}/{{dataset_id}}"


def datasets_protocol(services: AppServices, find_recordings: FindRecordings) -> WireProtocol:
    """Make the routes of datasets."""
    routes = DatasetRoutes(services, find_recordings)
    return WireProtocol(name="datasets", routes=(*_dataset_routes(routes), *_case_routes(routes)))


_read = partial(make_route, Access.CONFIG, tag="datasets")
_change = partial(make_route, Access.EVAL, tag="datasets", headers=("X-Awaken-Actor",))


def _dataset_routes(routes: "DatasetRoutes") -> tuple[ApiRoute, ...]:
    shown = views.DatasetView
    return (
        _read(
            f"GET {_DATASETS}",
            routes.list_datasets,
            views.DatasetList,
            query=views.DatasetFilter,
        ),
        _change(
            f"POST {_DATASETS}",
            routes.create,
            shown,
            body=views.NewDataset,
            query=views.NewDatasetQuery,
            status=201,
        ),
        _read(f"GET {_DATASET}", routes.get, shown, query=views.RevisionQuery),
        _change(f"PUT {_DATASET}", routes.replace, shown, body=views.DatasetReplacement),
        _change(
            f"DELETE {_DATASET}", routes.delete, None, query=views.ExpectedRevision, status=204
        ),
        _read(
            f"GET {_DATASET}/revisions",
            routes.list_revisions,
            views.RevisionList,
            query=views.RevisionFilter,
        ),
    )


def _case_routes(routes: "DatasetRoutes") -> tuple[ApiRoute, ...]:
    shown = views.DatasetView
    return (
        _read(
            f"GET {_DATASET}/cases/{{case_id}}",
            routes.get_case,
            views.CaseView,
            query=views.RevisionQuery,
        ),
        _change(f"POST {_DATASET}/items", routes.capture, shown, body=views.NewItem, status=201),
        _change(f"POST {_DATASET}/fixtures", routes.add, shown, body=views.NewFixture, status=201),
        _change(
            f"POST {_DATASET}/import-traces",
            routes.import_runs,
            views.TraceImportReply,
            body=views.TraceImport,
        ),
        _change(
            f"POST {_DATASET}/import-dialogue",
            routes.import_dialogue,
            views.DialogueImportReply,
            body=views.DialogueImport,
        ),
        _change(
            f"POST {_DATASET}/import",
            routes.import_file,
            views.FileImportReply,
            body=bytes,
            query=views.FileImport,
        ),
    )


class DatasetRoutes:
    """Handles the routes; datasets belong to the tenant of the caller."""

    def __init__(self, services: AppServices, find_recordings: FindRecordings) -> None:
        self._services = services
        self._find_recordings = find_recordings

    async def list_datasets(self, call: RouteCall) -> Reply:
        """List datasets by id."""
        asked: views.DatasetFilter = call.query
        begin, limit = max(asked.offset, 0), min(max(asked.limit, 0), LISTED_MAX)
        found = await self._datasets(call).list_datasets(limit=begin + limit, with_demo=asked.demo)
        return as_json(views.list_datasets(found[begin:]))

    async def create(self, call: RouteCall) -> Reply:
        """Create a dataset; equal inputs are kept and reported."""
        body: views.NewDataset = call.body
        dataset_id = body.id or call.query.id or self._services.ids.new_id()
        document = views.read_spec(body.spec)
        await call.audit(AuditAction.CREATE, _name(dataset_id))
        options = WriteOptions(redact=body.redact, keeps_duplicates=True)
        changed = await self._datasets(call).create(dataset_id, document, options)
        return await self._show(call, changed, 201)

    async def get(self, call: RouteCall) -> Reply:
        """Get a dataset with its cases, the newest revision unless another is named."""
        dataset_id = call.path["dataset_id"]
        found = await self._datasets(call).load(dataset_id, call.query.revision)
        return as_json(views.show_dataset(found))

    async def replace(self, call: RouteCall) -> Reply:
        """Replace what a dataset says by a new revision."""
        body: views.DatasetReplacement = call.body
        dataset_id = call.path["dataset_id"]
        document = views.read_spec(body.spec)
        await call.audit(AuditAction.UPDATE, _name(dataset_id))
        options = WriteOptions(redact=body.redact, keeps_duplicates=True)
        changed = await self._datasets(call).replace(
            dataset_id, document, body.expected_revision, options
        )
        return await self._show(call, changed)

    async def delete(self, call: RouteCall) -> Reply:
        """Delete a dataset; evals can still read its old revisions."""
        dataset_id = call.path["dataset_id"]
        await call.audit(AuditAction.DELETE, _name(dataset_id))
        await self._datasets(call).delete(dataset_id, call.query.expected_revision)
        return Bytes(204)

    async def list_revisions(self, call: RouteCall) -> Reply:
        """List the revisions of a dataset, newest first."""
        asked: views.RevisionFilter = call.query
        found = await self._datasets(call).list_revisions(
            call.path["dataset_id"], before=asked.before, limit=min(asked.limit, LISTED_MAX)
        )
        return as_json(views.list_revisions(found))

    async def get_case(self, call: RouteCall) -> Reply:
        """Get one case of a dataset."""
        revision, case = await self._datasets(call).load_case(
            call.path["dataset_id"], call.path["case_id"], call.query.revision
        )
        return as_json(views.CaseView(revision=revision.revision, case=write_case(case)))

    async def add(self, call: RouteCall) -> Reply:
        """Add a case; an equal input is kept and reported."""
        body: views.NewFixture = call.body
        dataset_id = call.path["dataset_id"]
        case = read_case(body.fixture, "fixture")
        datasets = self._datasets(call)
        base = await datasets.load(dataset_id)
        if any(it.id == case.id for it in base.revision.cases):
            message = f"Dataset '{dataset_id}' has a case '{case.id}' already."
            raise HttpError(409, "fixture_exists", message)
        await call.audit(AuditAction.UPDATE, _name(dataset_id), case=case.id)
        options = WriteOptions(redact=body.redact, keeps_duplicates=True)
        changed = await datasets.change(
            dataset_id, DatasetChange(put=(case,)), body.expected_revision, options
        )
        return await self._show(call, changed, 201)

    async def capture(self, call: RouteCall) -> Reply:
        """Make a case of a run; without an expectation it is a draft with a proposal."""
        body: views.NewItem = call.body
        plan = structs.replace(
            views.build_plan(body),
            case_id=body.fixture_id,
            description=body.description,
            user_input=body.user_input,
            allow_unused_provider_script=body.allow_unused_provider_script,
        )
        made = await self._captures(call).capture(body.from_run_id, plan)
        changed = await self._add_captured(call, [made], body.expected_revision)
        return await self._show(call, changed, 201)

    async def import_runs(self, call: RouteCall) -> Reply:
        """Make cases of runs that fit a filter: a random sample of them."""
        body: views.TraceImport = call.body
        await self._check_revision(call, body.expected_revision)
        plan = views.build_plan(body)
        wanted = CaptureFilter(
            agent_id=body.agent_id,
            ended=body.ended,
            since=None if body.since_secs is None else body.since_secs * 1000,
            score_below=body.score_below,
            scorer=body.scorer,
            thumbs_down=body.thumbs_down,
            cost_above=body.cost_above,
            sample=body.max_count,
            seed=body.seed,
        )
        captures = self._captures(call)
        found = await captures.find_runs(wanted)
        made, skipped = await capture_many(captures, found, plan, skips=body.skip_uncuratable)
        if not made:
            return as_json(
                views.TraceImportReply(
                    imported_count=0,
                    skipped_count=len(skipped),
                    dataset_revision=body.expected_revision,
                    skipped=tuple(skipped),
                )
            )
        changed = await self._add_captured(call, made, body.expected_revision)
        return as_json(
            views.TraceImportReply(
                imported_count=len(changed.added),
                skipped_count=len(found) - len(changed.added),
                dataset_revision=changed.revision.revision,
                skipped=tuple(skipped),
                duplicates=changed.duplicates,
            )
        )

    async def import_dialogue(self, call: RouteCall) -> Reply:
        """Make one case with several turns of runs that followed each other."""
        body: views.DialogueImport = call.body
        await self._check_revision(call, body.expected_revision)
        plan = structs.replace(
            views.build_plan(body), case_id=body.fixture_id, description=body.description
        )
        made = await self._captures(call).capture_dialogue(body.run_ids, plan)
        changed = await self._add_captured(call, [made], body.expected_revision)
        return as_json(
            views.DialogueImportReply(
                fixture_id=made.case.id,
                dataset_revision=changed.revision.revision,
                duplicates=changed.duplicates,
            )
        )

    async def import_file(self, call: RouteCall) -> Reply:
        """Add the cases of another tool's file; what cannot be carried over is listed."""
        asked: views.FileImport = call.query
        dataset_id = call.path["dataset_id"]
        # A large file takes seconds, in which others are served.
        imported = await asyncio.to_thread(import_cases, asked.source, call.body)
        await call.audit(AuditAction.UPDATE, _name(dataset_id), source=str(asked.source))
        options = WriteOptions(redact=asked.redact, is_scored_by_eval=asked.scored_by_eval)
        change = DatasetChange(put=imported.cases)
        with tell_left_out(imported.left_out):
            changed = await self._datasets(call).change(
                dataset_id, change, asked.expected_revision, options
            )
        return as_json(
            views.FileImportReply(
                added=changed.added,
                replaced=changed.replaced,
                duplicates=changed.duplicates,
                left_out=imported.left_out,
                dataset_revision=changed.revision.revision,
            )
        )

    async def _add_captured(
        self, call: RouteCall, made: list[CapturedCase], expected: int | None
    ) -> ChangedDataset:
        dataset_id, datasets = call.path["dataset_id"], self._datasets(call)
        base = await datasets.load(dataset_id)
        known = {it.id for it in base.revision.cases}
        fresh = [it for it in made if it.case.id not in known]
        if not fresh:
            message = f"Dataset '{dataset_id}' has a case '{made[0].case.id}' already."
            raise HttpError(409, "fixture_exists", message)
        await call.audit(AuditAction.UPDATE, _name(dataset_id), captured=len(fresh))
        await keep_recordings(datasets, fresh)
        # The recording is redacted; what only the case has, such as a given input, is as well.
        change = DatasetChange(put=tuple(it.case for it in fresh))
        return await datasets.change(dataset_id, change, expected, WriteOptions(redact=True))

    async def _check_revision(self, call: RouteCall, expected: int) -> None:
        """Refuse a caller whose revision is old before runs are read."""
        await self._datasets(call).check_revision(call.path["dataset_id"], expected)

    async def _show(self, call: RouteCall, changed: ChangedDataset, status: int = 200) -> Reply:
        it = changed.revision
        found = await self._datasets(call).load(it.dataset_id, it.revision)
        return as_json(views.show_dataset(found, changed), status)

    def _datasets(self, call: RouteCall) -> Datasets:
        return Datasets(
            open_eval_store(self._services.store),
            self._services.clock,
            tenant_id=call.principal.tenant_id,
            by=call.actor,
        )

    def _captures(self, call: RouteCall) -> Captures:
        store = self._services.store
        return Captures(
            store, open_eval_store(store), self._find_recordings(), call.principal.tenant_id
        )


def _name(dataset_id: str) -> str:
    """Return what the audit calls a dataset."""
    return f"eval_datasets/{dataset_id:.140}"
