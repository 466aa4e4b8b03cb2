"""What a caller may do when it makes no request: schedules and triggers ask it each time."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from awaken.contracts.storage.schedules import Creator
from awaken.transport.routes import Access, Principal

from .auth import LOCAL
from .config import ServerConfig


def build_judge(config: ServerConfig) -> Callable[[Creator], Awaitable[str | None]]:
    """Make the function that says why a creator may start no run; None if it may.

    It fails closed: a creator that the config does not know may start none.
    """

    async def find_problem(creator: Creator) -> str | None:
        principal = await _find_principal(config, creator)
        if principal is None:
            return "its token or login is gone"
        if principal.tenant_id != creator.tenant_id:
            return "it belongs to another tenant now"
        if not principal.may(Access.INVOKE):
            return f"it has lost the scope '{Access.INVOKE.value}'"
        return None

    return find_problem


async def _find_principal(config: ServerConfig, creator: Creator) -> Principal | None:
    if not config.requires_authentication:
        return LOCAL if creator.principal_id == LOCAL.id else None
    for it in config.tokens:
        if it.id == creator.principal_id:
            return Principal(id=it.id, access=it.access, tenant_id=it.tenant_id)
    if config.find_principal is None:
        return None
    async with asyncio.timeout(config.limits.login_ms / 1000):
        found = config.find_principal(creator.principal_id or "", creator.tenant_id)
        return await found if isawaitable(found) else found
