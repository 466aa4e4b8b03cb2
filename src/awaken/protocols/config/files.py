"""Routes of configuration as files: plan, apply and export."""

import msgspec

from awaken.contracts.config.errors import PROBLEMS_MAX
from awaken.managed.configuration import ManagedConfig
from awaken.managed.files import FileSet
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import ExportQuery, FilesBody
from .replies import author_of, written_headers
from .views import AppliedPlan, ExportedFiles, PlanView, describe_plan


class FileRoutes:
    """The operations on files of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._files = managed.files

    async def plan_files(self, call: RouteCall) -> Reply:
        """Show what files would change; nothing is written."""
        body: FilesBody = call.body
        plan = await self._files.plan(body.files, body.options, author_of(call))
        return as_json(PlanView(**describe_plan(plan, PROBLEMS_MAX)))

    async def apply_files(self, call: RouteCall) -> Reply:
        """Publish what files change, as one change set."""
        body: FilesBody = call.body
        plan, published = await self._files.apply(body.files, body.options, author_of(call))
        shown = describe_plan(plan, PROBLEMS_MAX)
        if published is None:
            return as_json(AppliedPlan(**shown, publication=plan.head, is_changed=False))
        number = published.publication.no
        reply = AppliedPlan(**shown, publication=number, is_changed=published.is_changed)
        return as_json(reply, 200, written_headers(published))

    async def export_files(self, call: RouteCall) -> Reply:
        """Export the records of a publication as files would have them; secrets are references."""
        query: ExportQuery = call.query
        number = query.publication
        if number is None:
            number = (await self._managed.heads.read_head()).publication
        files = choose_kinds(await self._files.export(number), query.kind)
        if query.kind and query.kind not in self._managed.parts.kinds:
            raise HttpError(400, "unknown_namespace", f"There is no kind '{query.kind[:80]}'.")
        shown = ExportedFiles(publication=number, records=files.records, overrides=files.overrides)
        return as_json(shown)


def choose_kinds(files: FileSet, kind: str | None) -> FileSet:
    """Return the records of one kind; None returns all."""
    if kind is None:
        return files
    return msgspec.structs.replace(
        files,
        records={name: it for name, it in files.records.items() if name == kind},
        overrides={name: it for name, it in files.overrides.items() if name == kind},
    )
