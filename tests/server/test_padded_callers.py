"""Callers whose ids differ in a space only: there are none, because runs trim the id of a user."""

import asyncio
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime
from awaken.errors import InvalidInput
from awaken.server import Principal, ServerConfig
from awaken.testing import ScriptedModel

from .in_process import ask, token


@pytest.mark.parametrize("id_", ["ann ", " ann", "ann\n", "", " "])
def test_no_token_and_no_login_has_a_padded_id(id_: str) -> None:
    with pytest.raises(InvalidInput, match="space"):
        token(id_)

    async def log_in(_: Any) -> Principal:
        return Principal(id=id_, access=frozenset({Access.READ}))

    async def main() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel([]))]) as runtime:
            app = runtime.asgi(ServerConfig(authenticate=log_in))
            answer = await ask(app, "GET", "/v1/runs")
            assert (answer.status, answer.json["code"]) == (503, "authentication_failed")

    asyncio.run(main())


def test_a_scope_that_no_token_has_is_named() -> None:
    with pytest.raises(InvalidInput, match="known"):
        token("ann", frozenset({Access.KNOWN, Access.READ}))
