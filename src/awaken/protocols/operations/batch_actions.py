"""One action on many objects, each with its receipt."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.services.batches import (
    ITEMS_MAX,
    BatchAction,
    Batches,
    BatchFilter,
    BatchReceipt,
    BatchTargets,
)
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, RouteCall

from .context import Id, OperatorContext

_SCOPES = {
    BatchAction.CANCEL: Access.INVOKE,
    BatchAction.DECIDE: Access.DECIDE,
    BatchAction.REPLAY: Access.OPERATE,
    BatchAction.RETRY: Access.OPERATE,
    BatchAction.DELETE: Access.INVOKE,
}
"""The scope that the same action on one object needs."""


class BatchDecision(StrictRecord, frozen=True, kw_only=True):
    """The decision that every ticket gets."""

    action: DecisionAction = DecisionAction.RESUME
    result: Any = None
    reason: str | None = None
    arguments_hashes: dict[Id, str] | None = None
    """The hash of the arguments that the decider saw, by ticket; other ones are refused."""


class RunBatch(StrictRecord, frozen=True, kw_only=True):
    """The action, and either the ids of the objects or a filter.

    The ids are those of runs for `cancel`, of tickets for `decide`, of deliveries for `replay`, of
    outbox commands for `retry`, and of threads for `delete`.
    """

    action: BatchAction
    ids: Annotated[tuple[Id, ...], Meta(max_length=ITEMS_MAX)] | None = None
    filter: BatchFilter | None = None
    decision: BatchDecision | None = None
    """For `decide`."""
    dry_run: bool = False


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt for each object; `has_more` if the filter matches further ones."""

    action: BatchAction
    dry_run: bool
    items: tuple[BatchReceipt, ...]
    has_more: bool


class BatchRoutes:
    """Runs batches."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def run(self, call: RouteCall) -> Reply:
        """Cancel, decide, replay, retry or delete many objects at once, at most 1,000."""
        asked: RunBatch = call.body
        call.principal.check(_SCOPES[asked.action])
        if (asked.ids is None) == (asked.filter is None):
            raise InvalidInput(what="ids", problem="give either ids or a filter")
        decision = _decision(asked)
        batches = Batches(call.view, self._context.deliveries(call))
        if asked.filter is not None:
            targets = await batches.find(asked.action, asked.filter)
        else:
            targets = BatchTargets(ids=tuple(dict.fromkeys(asked.ids or ())))
        if asked.dry_run:
            items = tuple([await batches.check(asked.action, it) for it in targets.ids])
            return _reply(asked, items, 200, has_more=targets.has_more)
        if targets.ids:
            await self._context.audit(
                call,
                AuditAction.BATCH,
                f"batch/{asked.action}",
                ids=list(targets.ids),
                filter=msgspec.to_builtins(asked.filter),
            )
        hashes = None if asked.decision is None else asked.decision.arguments_hashes
        items = await batches.act(asked.action, targets.ids, decision, hashes)
        return _reply(asked, items, 202, has_more=targets.has_more)


def _decision(asked: RunBatch) -> ToolCallResume | None:
    if (asked.action is BatchAction.DECIDE) != (asked.decision is not None):
        problem = "it belongs to the action 'decide', and only to that"
        raise InvalidInput(what="decision", problem=problem)
    if asked.decision is None:
        return None
    given = asked.decision
    return ToolCallResume(
        decision_id="", action=given.action, result=given.result, reason=given.reason
    )


def _reply(
    asked: RunBatch, items: tuple[BatchReceipt, ...], status: int, *, has_more: bool
) -> Reply:
    result = BatchResult(action=asked.action, dry_run=asked.dry_run, items=items, has_more=has_more)
    return as_json(result, status)
