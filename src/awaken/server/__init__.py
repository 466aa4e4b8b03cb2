"""The server: one ASGI app made of the protocols' routes, with authentication and limits.

This module has its configuration, the rules of publishing, and what `runtime.asgi()`,
`runtime.view()` and `runtime.remembered` return. The package knows no concrete protocol, store or
agent; `bootstrap` puts them together.
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.contracts.suspension.remembered_answers import RememberedAnswer
    from awaken.managed.publish_rules import FreezeWindow, PublishRules, RequiredEval
    from awaken.server.app import (
        ServerApp,
    )
    from awaken.server.config import (
        AdminConfig,
        JwtConfig,
        RateLimit,
        ServerConfig,
        ServerLimits,
        TokenSpec,
    )
    from awaken.server.login_requests import AuthRequest
    from awaken.services.remembered_answers import RememberedAnswers
    from awaken.services.view import (
        TenantView,
    )
    from awaken.transport.routes import (
        Access,
        Principal,
    )

__all__ = [
    "Access",
    "AdminConfig",
    "AuthRequest",
    "FreezeWindow",
    "JwtConfig",
    "Principal",
    "PublishRules",
    "RateLimit",
    "RememberedAnswer",
    "RememberedAnswers",
    "RequiredEval",
    "ServerApp",
    "ServerConfig",
    "ServerLimits",
    "TenantView",
    "TokenSpec",
]

_HOMES = {
    "Access": "awaken.transport.routes",
    "AdminConfig": "awaken.server.config",
    "AuthRequest": "awaken.server.login_requests",
    "FreezeWindow": "awaken.managed.publish_rules",
    "JwtConfig": "awaken.server.config",
    "Principal": "awaken.transport.routes",
    "PublishRules": "awaken.managed.publish_rules",
    "RequiredEval": "awaken.managed.publish_rules",
    "RateLimit": "awaken.server.config",
    "RememberedAnswer": "awaken.contracts.suspension.remembered_answers",
    "RememberedAnswers": "awaken.services.remembered_answers",
    "ServerApp": "awaken.server.app",
    "ServerConfig": "awaken.server.config",
    "ServerLimits": "awaken.server.config",
    "TenantView": "awaken.services.view",
    "TokenSpec": "awaken.server.config",
}
"""The module that each name is imported from."""

if not TYPE_CHECKING:  # Type checkers see the imports above, and refuse every other name.
    __getattr__, __dir__ = defer_imports(__name__, _HOMES)
