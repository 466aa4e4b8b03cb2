"""Nodes, workers, models and budgets of the whole deployment."""

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.record import StrictRecord
from awaken.services.budget_status import list_budgets
from awaken.services.cluster import read_cluster, read_scale
from awaken.services.model_status import BreakerAction, ModelsHealth
from awaken.services.workers import list_workers
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .context import Id, OperatorContext, OperatorList, check_sees_all


class SetBreaker(StrictRecord, frozen=True, kw_only=True):
    """What to do with a breaker: `open`, `close` or `reset`."""

    action: BreakerAction


class BudgetsQuery(StrictRecord, frozen=True, kw_only=True):
    """Whose spending to show; a caller with a tenant sees its own."""

    tenant_id: Id | None = None


class SystemRoutes:
    """Shows nodes, workers, models and budgets, and sets breakers."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_workers(self, call: RouteCall) -> Reply:
        """List the processes that share the store and reported themselves in the last minute."""
        check_sees_all(call)
        services = self._context.services
        found = await list_workers(services.profile, await services.store.now_ms())
        # The figures are shown by agent, see `runtime-stats`.
        shown = tuple(msgspec.structs.replace(it, statistics=None) for it in found)
        return as_json(OperatorList(items=shown))

    async def get_cluster(self, call: RouteCall) -> Reply:
        """Show the nodes, what waits for them, and what is stuck."""
        check_sees_all(call)
        services = self._context.services
        bus = services.control.mailbox.services.bus
        return as_json(await read_cluster(services.store, services.profile, bus))

    async def get_scale(self, call: RouteCall) -> Reply:
        """Show how many slots there are and how many there should be, for autoscalers."""
        check_sees_all(call)
        services = self._context.services
        return as_json(await read_scale(services.store, services.profile))

    async def list_models(self, call: RouteCall) -> Reply:
        """List models with their breaker, and their calls in this process of the last day."""
        check_sees_all(call)
        models = self._context.statistics.summarize().models
        return as_json(OperatorList(items=await self._health.list(models)))

    async def set_breaker(self, call: RouteCall) -> Reply:
        """Open, close or reset the breaker of a model; other processes follow within seconds."""
        asked: SetBreaker = call.body
        model_id = call.path["model_id"]
        await self._health.check_known(model_id)
        await self._context.audit(
            call, AuditAction.BREAKER, f"models/{model_id}", set_to=asked.action.value
        )
        return as_json(await self._health.set_breaker(model_id, asked.action))

    async def list_budgets(self, call: RouteCall) -> Reply:
        """List the budgets of the runtime and its agents, and what a tenant has used of them."""
        asked: BudgetsQuery = call.query
        if asked.tenant_id not in (None, call.principal.tenant_id):
            check_sees_all(call)
        services = self._context.services
        found = await list_budgets(
            services.engine,
            services.profile,
            services.clock,
            call.principal.tenant_id or asked.tenant_id,
        )
        return as_json(OperatorList(items=found))

    @property
    def _health(self) -> ModelsHealth:
        services = self._context.services
        return ModelsHealth(services.engine, services.profile, services.clock)
