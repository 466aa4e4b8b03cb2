"""Routes of drafts: begin, edit, compare, validate, rebase, preview, publish."""

from typing import Any

import msgspec

from awaken.contracts.config.drafts import ConfigDraft, DeleteRecord, PatchRecord
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
    write_of,
    written_headers,
)


class DraftRoutes:
    """The operations on drafts of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._drafts = managed.drafts

    async def list_drafts(self, _call: RouteCall) -> Reply:
        """List the drafts, the latest edited first."""
        items = [self._show(it, is_whole=False) for it in await self._drafts.list_drafts()]
        return as_json({"items": items})

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
            {
                "ok": not problems,
                "problems": problems[:PROBLEMS_MAX],
                "problem_count": len(problems),
                "diagnostics": trial.compiled.diagnostics,
                "impact": describe_impact(trial),
            }
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
        return as_json({"publication": publication.no}, 201, (publication_header(publication.no),))

    async def publish_draft(self, call: RouteCall) -> Reply:
        """Make a draft live, and remove it."""
        body: PublishBody = call.body
        key = read_key(call)
        how = PublishDraft(
            author=author_of(call),
            message=body.message,
            expected_head=body.expected_head,
            canary=body.canary,
            is_over_canary=body.over_canary,
            is_required_of_all=body.require == "all",
            expected=read_revision(call),
            idempotency_key=key,
            request_hash=hash_request(call) if key else "",
        )
        published = await self._drafts.publish(call.path["draft_id"], how)
        publication = published.publication
        changes = [
            {"ns": it.namespace, "id": it.id, "revision": it.after.revision if it.after else 0}
            for it in publication.changes
        ]
        body_out = {
            "publication": publication.no,
            "parent": publication.parent,
            "changes": changes,
            "diagnostics": published.diagnostics,
        }
        return as_json(body_out, 201, written_headers(published))

    def _reply(self, draft: ConfigDraft, status: int = 200) -> Reply:
        headers = (etag(draft.revision), publication_header(draft.base))
        return as_json(self._show(draft), status, headers)

    def _show(self, draft: ConfigDraft, *, is_whole: bool = True) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(draft)
        shown.setdefault("base", None)
        shown["changes"] = [
            {"ns": namespace, "id": record_id, **self._show_change(namespace, record_id, change)}
            if is_whole
            else {"ns": namespace, "id": record_id, "type": change.__struct_config__.tag}
            for namespace, changes in draft.changes.items()
            for record_id, change in changes.items()
        ]
        return shown

    def _show_change(self, namespace: str, record_id: str, change: Any) -> dict[str, Any]:
        if isinstance(change, DeleteRecord):
            return {"type": "delete"}
        if isinstance(change, PatchRecord):
            return {"type": "patch", "overrides": change.body, "hidden": change.is_hidden}
        kind = self._managed.records.find_kind(namespace)
        meta = RecordMeta(namespace=namespace, id=record_id, source="user")
        return {"type": "put", "spec": kind.to_wire(change.body, meta)}
