"""Makes and removes the demo data of a new server."""

from awaken.contracts.config.audit import AuditAction
from awaken.services.demo_data import DemoData
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .context import OperatorContext

RESOURCE = "system/demo-data"


class DemoRoutes:
    """The routes of the demo data."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def get_status(self, _call: RouteCall) -> Reply:
        """Tell whether the server has demo data."""
        return as_json(await self._demo.read_status())

    async def fill(self, call: RouteCall) -> Reply:
        """Make demo data: threads with runs of several outcomes; what is there stays."""
        demo = self._demo
        await self._context.audit(call, AuditAction.CREATE, RESOURCE)
        return as_json(await demo.fill())

    async def remove(self, call: RouteCall) -> Reply:
        """Remove the demo data whole."""
        demo = self._demo
        await self._context.audit(call, AuditAction.DELETE, RESOURCE)
        return as_json(await demo.remove())

    @property
    def _demo(self) -> DemoData:
        demo = self._context.services.demo
        if demo is None:
            raise HttpError(404, "not_found", "This server makes no demo data.")
        return demo
