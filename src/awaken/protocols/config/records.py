"""Routes of records: list, read, write, delete, validate, override, restore."""

from typing import Any

from msgspec import UNSET

from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.kinds import RecordMeta
from awaken.managed.configuration import ManagedConfig
from awaken.managed.impact import describe_impact
from awaken.managed.publishing import CandidateTrial, Published
from awaken.managed.records import CODE, RecordView, RecordWrite, list_problems
from awaken.managed.strict_servers import check_connects
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import RecordPaging, RemovalQuery, RestoreBody, ValidateQuery, WriteQuery
from .replies import reply_written, write_of, written_headers
from .views import (
    BuiltinSource,
    CheckedRecord,
    FactsPage,
    ListedFacts,
    LiveDiagnostics,
    ProviderRemoval,
    RecordFacts,
    RecordPage,
    UserSource,
)


class RecordRoutes:
    """The operations on records of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._records = managed.records
        self._version = managed.parts.version

    async def list_records(self, call: RouteCall) -> Reply:
        """List the records of a namespace."""
        namespace, page = call.path["namespace"], _page(call)
        found = await self._records.list_records(namespace)
        shown = [it.wire for it in found if not it.meta.is_hidden]
        items = tuple(shown[page.offset : page.offset + page.limit])
        return as_json(
            RecordPage(namespace=namespace, items=items, offset=page.offset, limit=page.limit)
        )

    async def create_record(self, call: RouteCall) -> Reply:
        """Create a record."""
        record_id = call.body.get("id")
        if not isinstance(record_id, str) or not record_id.strip():
            raise HttpError(400, "invalid_config", "missing 'id' field in body")
        query: WriteQuery = call.query
        write = write_of(call, call.path["namespace"], record_id, query.message)
        if query.strict:
            await self._check_connects(write, call.body)
        if query.dry_run:
            return await self._reply_trial(call, record_id)
        published = await self._records.create(write, call.body)
        return await self._reply_written(call.path["namespace"], record_id, published, 201)

    async def get_record(self, call: RouteCall) -> Reply:
        """Get a record."""
        view = await self._records.get_record(call.path["namespace"], call.path["record_id"])
        headers = ((b"etag", f'"{view.meta.revision}"'.encode()),)
        return as_json(view.wire, 200, headers)

    async def put_record(self, call: RouteCall) -> Reply:
        """Write a whole record, over one of the same id."""
        record_id, named = call.path["record_id"], call.body.get("id", call.path["record_id"])
        if named != record_id:
            message = f"path id '{record_id}' does not match body id '{named}'"
            raise HttpError(400, "invalid_config", message)
        query: WriteQuery = call.query
        write = write_of(call, call.path["namespace"], record_id, query.message)
        if query.strict:
            await self._check_connects(write, call.body)
        if query.dry_run:
            return await self._reply_trial(call, record_id)
        published = await self._records.put(write, call.body)
        return await self._reply_written(call.path["namespace"], record_id, published)

    async def delete_record(self, call: RouteCall) -> Reply:
        """Delete a record; one of the code is hidden."""
        query: RemovalQuery = call.query
        write = write_of(call, call.path["namespace"], call.path["record_id"], query.message)
        published = await self._records.delete(write, is_forced=query.force)
        return Bytes(204, headers=written_headers(published))

    async def validate_record(self, call: RouteCall) -> Reply:
        """Compile a record without publishing it."""
        query: ValidateQuery = call.query
        record_id = query.id or call.body.get("id")
        if not isinstance(record_id, str) or not record_id.strip():
            raise HttpError(400, "invalid_config", "missing 'id' field in body")
        return await self._reply_trial(call, record_id)

    async def get_schema(self, call: RouteCall) -> Reply:
        """Get the JSON Schema of the records of a namespace, in HTTP form."""
        return as_json(dict(self._records.find_kind(call.path["namespace"]).wire_schema))

    async def list_meta(self, call: RouteCall) -> Reply:
        """List what is known of the records of a namespace besides their bodies."""
        namespace, page = call.path["namespace"], _page(call)
        found = await self._records.list_records(namespace)
        items = tuple(
            ListedFacts(id=it.meta.id, **describe_facts(it, self._version))
            for it in found[page.offset : page.offset + page.limit]
        )
        return as_json(
            FactsPage(namespace=namespace, items=items, offset=page.offset, limit=page.limit)
        )

    async def get_meta(self, call: RouteCall) -> Reply:
        """Get what is known of a record besides its body."""
        view = await self._records.get_record(call.path["namespace"], call.path["record_id"])
        return as_json(RecordFacts(**describe_facts(view, self._version)))

    async def try_overrides(self, call: RouteCall) -> Reply:
        """Compile overrides of a record of the code without publishing them."""
        fields, cleared, _ = _read_overrides(call)
        namespace, record_id = _overridden(call)
        write = write_of(call, namespace, record_id)
        await self._check_overridable(namespace, record_id)
        normalized, trial = await self._records.try_patch(write, fields, cleared=cleared)
        return _reply_compiled(normalized, trial)

    async def patch_overrides(self, call: RouteCall) -> Reply:
        """Change overrides of a record of the code."""
        fields, cleared, is_hidden = _read_overrides(call)
        namespace, record_id = _overridden(call)
        await self._check_overridable(namespace, record_id)
        write = write_of(call, namespace, record_id, call.query.message)
        published = await self._records.patch(write, fields, cleared=cleared, is_hidden=is_hidden)
        return await self._reply_written(namespace, record_id, published)

    async def drop_overrides(self, call: RouteCall) -> Reply:
        """Remove the overrides of a record of the code, or one of them."""
        namespace, record_id = _overridden(call)
        view = await self._check_overridable(namespace, record_id)
        fields = [call.path["field"]] if "field" in call.path else list(view.overrides or {})
        is_hidden = None if "field" in call.path else False
        write = write_of(call, namespace, record_id, call.query.message)
        published = await self._records.patch(write, {}, cleared=fields, is_hidden=is_hidden)
        return await self._reply_written(namespace, record_id, published)

    async def restore_record(self, call: RouteCall) -> Reply:
        """Write a record as it was in an earlier version."""
        body: RestoreBody = call.body
        namespace, record_id = call.path["namespace"], call.path["record_id"]
        write = write_of(call, namespace, record_id, body.message)
        published = await self._records.restore(write, str(body.version))
        return await self._reply_written(namespace, record_id, published)

    async def get_diagnostics(self, _call: RouteCall) -> Reply:
        """List warnings and problems of the live configuration in this process."""
        applied = self._managed.live.applied
        return as_json(
            LiveDiagnostics(
                publication=applied.publication,
                unusable=dict(applied.unusable),
                diagnostics=tuple(self._managed.live.diagnostics),
            )
        )

    async def preview_removal(self, call: RouteCall) -> Reply:
        """List the models and agents that removing a provider would affect."""
        provider = call.path["record_id"]
        await self._records.get_record("providers", provider)
        models = [
            name
            for namespace, name in await self._records.list_users("providers", provider)
            if namespace == "models"
        ]
        affected: dict[str, list[str]] = {"models": models, "model-pools": [], "agents": []}
        for model in models:
            for namespace, name in await self._records.list_users("models", model):
                if name not in affected.setdefault(namespace, []):
                    affected[namespace].append(name)
        return as_json(
            ProviderRemoval(
                provider=provider,
                models=tuple(affected["models"]),
                model_pools=tuple(affected["model-pools"]),
                agents=tuple(affected["agents"]),
            )
        )

    async def _check_connects(self, write: RecordWrite, body: dict[str, Any]) -> None:
        managed = self._managed
        connections = managed.inspection.connections
        await check_connects(managed.parts, self._records, connections, write, body)

    async def _reply_written(
        self, namespace: str, record_id: str, published: Published, status: int = 200
    ) -> Reply:
        view = await self._records.get_record(namespace, record_id)
        return reply_written(view, published, status)

    async def _reply_trial(self, call: RouteCall, record_id: str) -> Reply:
        write = write_of(call, call.path["namespace"], record_id)
        normalized, trial = await self._records.validate(write, call.body)
        return _reply_compiled(normalized, trial)

    async def _check_overridable(self, namespace: str, record_id: str) -> RecordView:
        view = await self._records.get_record(namespace, record_id)
        if view.meta.source == "user":
            message = f"{namespace}/{record_id} is no record of the code; write the whole record."
            raise HttpError(422, "not_overridable", message)
        return view


def describe_facts(view: RecordView, version: str) -> dict[str, Any]:
    """The fields of `RecordFacts`."""
    meta: RecordMeta = view.meta
    is_code = meta.source in (CODE, "override")
    return {
        "source": BuiltinSource(binary_version=version) if is_code else UserSource(),
        "hidden": meta.is_hidden,
        "created_at": meta.created_at or 0,
        "updated_at": meta.updated_at or 0,
        "revision": meta.revision,
        "owner": meta.owner,
        "drift": meta.has_drift,
        "publication": meta.publication,
        "hash": meta.hash or None,
        "updated_by": meta.updated_by or None,
        "user_overrides": UNSET if view.overrides is None else view.overrides,
    }


def _reply_compiled(normalized: dict[str, Any], trial: CandidateTrial) -> Reply:
    problems = list_problems(trial)
    if problems:
        raise InvalidConfig(problems=problems)
    return as_json(
        CheckedRecord(
            normalized=normalized,
            diagnostics=trial.compiled.diagnostics,
            impact=describe_impact(trial),
        )
    )


def _page(call: RouteCall) -> RecordPaging:
    page: RecordPaging = call.query
    return page


def _overridden(call: RouteCall) -> tuple[str, str]:
    """The record whose overrides a path names."""
    return call.path["namespace"], call.path["record_id"]


def _read_overrides(call: RouteCall) -> tuple[dict[str, Any], list[str], bool | None]:
    """Split the body of an override into fields, fields to inherit again, and `hidden`."""
    body = dict(call.body)
    cleared, is_hidden = body.pop("_clear", []), body.pop("hidden", None)
    if not isinstance(cleared, list) or not all(isinstance(it, str) for it in cleared):
        raise HttpError(400, "invalid_config", "'_clear' is a list of field names.")
    if is_hidden is not None and not isinstance(is_hidden, bool):
        raise HttpError(400, "invalid_config", "'hidden' is true or false.")
    return body, cleared, is_hidden
