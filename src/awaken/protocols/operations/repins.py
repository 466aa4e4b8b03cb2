"""Repins runs that cannot go on as they are configured."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.errors import ConfigNotEnabled
from awaken.contracts.record import StrictRecord
from awaken.services.repins import check_repin, repin
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .context import OperatorContext


class RepinRun(StrictRecord, frozen=True, kw_only=True):
    """The publication that a run goes on with: a number, or `live`."""

    publication: Annotated[int, Meta(ge=1, le=2**53)] | Literal["live"]


class RepinnedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and the publication that it goes on with."""

    run_id: str
    thread_id: str
    status: str
    publication: int | None
    before: int | None


class RepinRoutes:
    """Lets runs go on with another publication."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def repin(self, call: RouteCall) -> Reply:
        """Let a run that waits, or is queued, go on with another publication."""
        asked: RepinRun = call.body
        services, config = self._context.services, call.view.config
        if config is None:
            raise ConfigNotEnabled
        run = await call.view.stored_run(call.path["run_id"])
        wanted = asked.publication
        publication = await config.find_live() if wanted == "live" else wanted
        await check_repin(services.engine, run, publication)
        await self._context.audit(
            call,
            AuditAction.REPIN,
            f"runs/{run.run_id}",
            before=run.publication,
            after=publication,
        )
        pinned = await repin(services.control, run, publication)
        shown = RepinnedRun(
            run_id=pinned.run_id,
            thread_id=pinned.thread_id,
            status=pinned.status.value,
            publication=pinned.publication,
            before=run.publication,
        )
        return as_json(shown, 202)
