"""What holds for every test of the server: a route answers only what the document says."""

from typing import Any

import pytest

from awaken.server.endpoint import Endpoint
from awaken.server.exchange import HttpExchange


@pytest.fixture(autouse=True)
def documented_statuses(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Fail a test in which a route answered with a status that the OpenAPI document lacks."""
    answered: set[tuple[str, str, int]] = set()
    call = Endpoint.__call__

    async def watched(self: Endpoint, exchange: HttpExchange, receive: Any) -> None:
        sent = exchange._send

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status, route = message["status"], self.route
                if status < 400 and status not in (route.status, *route.statuses):
                    answered.add((route.method, route.path, status))
            await sent(message)

        exchange._send = send
        await call(self, exchange, receive)

    monkeypatch.setattr(Endpoint, "__call__", watched)
    yield
    assert answered == set(), "statuses that the document of the route lacks"
