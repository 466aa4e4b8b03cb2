"""Routes of drafts: begin, edit, compare, validate, rebase, preview, publish."""

from typing import Any, Literal

from awaken.contracts.config.drafts import (
    Change,
    ConfigDraft,
    DeleteRecord,
    PatchRecord,
    PutRecord,
)
from awaken.contracts.config.errors import PROBLEMS_MAX
from awaken.contracts.config.kinds import RecordMeta
from awaken.managed.configuration import ManagedConfig
from awaken.managed.drafts import PublishDraft, reaches_out
from awaken.managed.impact import describe_impact
from awaken.managed.records import list_problems
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, RouteCall

from .bodies import DraftRecord, NewDraft, PublishBody, RebaseBody
from .replies import (
    author_of,
    etag,
    hash_request,
    publication_header,
    read_key,
    read_revision,
    request_key,
    require_revision,
    write_of,
    written_headers,
)
from .views import (
    CheckedDraft,
    DeleteView,
    DraftChange,
    DraftHead,
    DraftList,
    DraftSummary,
    DraftView,
    NamedChange,
    PatchView,
    PreviewedDraft,
    PublishedDraft,
    PublishedRecord,
    PutView,
)


class DraftRoutes:
    """The operations on drafts of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._drafts = managed.drafts

    async def list_drafts(self, _call: RouteCall) -> Reply:
        """List the drafts, the latest edited first."""
        return as_json(DraftList(items=tuple(map(summarize, await self._drafts.list_drafts()))))

    async def create_draft(self, call: RouteCall) -> Reply:
        """Begin a draft on what is live."""
        body: NewDraft = call.body
        draft = await self._drafts.create(author_of(call), body.title, read_key(call))
        return self._reply(draft, 201)

    async def get_draft(self, call: RouteCall) -> Reply:
        """Get a draft."""
        return self._reply(await self._drafts.get_draft(call.path["draft_id"]))

    async def edit_draft(self, call: RouteCall) -> Reply:
        """Give a draft another title."""
        body: NewDraft = call.body
        draft = await self._drafts.rename(
            call.path["draft_id"], body.title, author_of(call), read_revision(call)
        )
        return self._reply(draft)

    async def discard_draft(self, call: RouteCall) -> Reply:
        """Discard a draft."""
        await self._drafts.discard(call.path["draft_id"], read_revision(call))
        live = self._managed.live.head.publication
        return Bytes(204, headers=(publication_header(live),))

    async def put_record(self, call: RouteCall) -> Reply:
        """Write a record in a draft: whole, as overrides, or its deletion."""
        body: DraftRecord = call.body
        given = (body.spec is not None, body.overrides is not None, body.delete)
        if sum(given) != 1:
            message = "Send exactly one of 'spec', 'overrides' and 'delete'."
            raise HttpError(400, "invalid_config", message)
        write = write_of(call, call.path["namespace"], call.path["record_id"])
        draft = await self._drafts.put_record(
            call.path["draft_id"],
            write,
            body.spec if body.overrides is None else body.overrides,
            is_patch=body.overrides is not None,
            is_hidden=body.hidden,
        )
        return self._reply(draft)

    async def drop_record(self, call: RouteCall) -> Reply:
        """Take a record out of a draft."""
        place = (call.path["namespace"], call.path["record_id"])
        draft = await self._drafts.drop_record(
            call.path["draft_id"], place, author_of(call), read_revision(call)
        )
        return self._reply(draft)

    async def compare_draft(self, call: RouteCall) -> Reply:
        """Compare a draft with what is live, and with what it was begun on."""
        return as_json(await self._drafts.compare(call.path["draft_id"]))

    async def validate_draft(self, call: RouteCall) -> Reply:
        """Compile a draft without publishing it."""
        trial = await self._drafts.validate(call.path["draft_id"], author_of(call))
        problems = list_problems(trial)
        return as_json(
            CheckedDraft(
                ok=not problems,
                problems=problems[:PROBLEMS_MAX],
                problem_count=len(problems),
                diagnostics=trial.compiled.diagnostics,
                impact=describe_impact(trial),
            )
        )

    async def get_impact(self, call: RouteCall) -> Reply:
        """Show what a draft changes: agents, tools, runs, past calls, cost and secrets."""
        trial = await self._drafts.validate(call.path["draft_id"], author_of(call))
        return as_json(await self._managed.inspection.impact.report(trial))

    async def rebase_draft(self, call: RouteCall) -> Reply:
        """Bring a draft onto what is live."""
        body: RebaseBody = call.body
        draft = await self._drafts.rebase(
            call.path["draft_id"],
            author_of(call),
            read_revision(call),
            body.prefer,
            body.fields,
        )
        return self._reply(draft)

    async def preview_draft(self, call: RouteCall) -> Reply:
        """Write an ephemeral publication of a draft, on which runs can be tried."""
        draft = await self._drafts.get_draft(call.path["draft_id"])
        if reaches_out(draft):
            # Its programs would start, and its addresses would get secrets, as if it were live.
            call.require(Access.PUBLISH)
        publication = await self._drafts.preview(
            draft.id, author_of(call), request_key(call), draft.revision
        )
        number = publication.no
        return as_json(PreviewedDraft(publication=number), 201, (publication_header(number),))

    async def publish_draft(self, call: RouteCall) -> Reply:
        """Make a draft live as the caller read it, and remove it."""
        body: PublishBody = call.body
        require_revision(call)
        key = read_key(call)
        how = PublishDraft(
            author=author_of(call),
            message=body.message,
            expected_head=body.expected_head,
            canary=body.canary,
            over_canary=body.over_canary,
            is_required_of_all=body.require == "all",
            expected=read_revision(call),
            idempotency_key=key,
            request_hash=hash_request(call) if key else "",
        )
        published = await self._drafts.publish(call.path["draft_id"], how)
        publication = published.publication
        changes = (
            PublishedRecord(
                ns=it.namespace, id=it.id, revision=it.after.revision if it.after else 0
            )
            for it in publication.changes
        )
        shown = PublishedDraft(
            publication=publication.no,
            parent=publication.parent,
            changes=tuple(changes),
            diagnostics=published.diagnostics,
        )
        return as_json(shown, 201, written_headers(published))

    def _reply(self, draft: ConfigDraft, status: int = 200) -> Reply:
        headers = (etag(draft.revision), publication_header(draft.base))
        return as_json(self._show(draft), status, headers)

    def _show(self, draft: ConfigDraft) -> DraftView:
        changes = (
            self._show_change(namespace, record_id, change)
            for namespace, changes in draft.changes.items()
            for record_id, change in changes.items()
        )
        return DraftView(**_describe(draft), changes=tuple(changes))

    def _show_change(self, namespace: str, record_id: str, change: Change) -> DraftChange:
        match change:
            case DeleteRecord():
                return DeleteView(ns=namespace, id=record_id)
            case PatchRecord(body=body, is_hidden=is_hidden):
                return PatchView(ns=namespace, id=record_id, overrides=body, hidden=is_hidden)
            case PutRecord(body=body):
                kind = self._managed.records.find_kind(namespace)
                meta = RecordMeta(namespace=namespace, id=record_id, source="user")
                return PutView(ns=namespace, id=record_id, spec=kind.to_wire(body, meta))


def summarize(draft: ConfigDraft) -> DraftSummary:
    """A draft as a list shows it: what it changes, without the bodies."""
    changes = (
        NamedChange(ns=namespace, id=record_id, type=_name_change(change))
        for namespace, changes in draft.changes.items()
        for record_id, change in changes.items()
    )
    return DraftSummary(**_describe(draft), changes=tuple(changes))


def _name_change(change: Change) -> Literal["put", "patch", "delete"]:
    match change:
        case PutRecord():
            return "put"
        case PatchRecord():
            return "patch"
        case DeleteRecord():
            return "delete"


def _describe(draft: ConfigDraft) -> dict[str, Any]:
    """The fields of a `DraftHead`."""
    return {name: getattr(draft, name) for name in DraftHead.__struct_fields__}
