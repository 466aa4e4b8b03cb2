"""Embeddings over HTTP, against a server of this process."""

import asyncio
import base64
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import EmbeddingSpec
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.outbound.pool import HttpPool
from awaken.providers.openai_embeddings import HttpEmbedder

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY = "sk-very-secret"


async def embed(handler: Handler, *texts: str, timeout_ms: int = 5_000) -> list[list[float]]:
    """Ask a server for vectors of two dimensions."""
    app = web.Application()
    app.router.add_post("/v1/embeddings", handler)
    # It does not wait for the handler that never answers.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    provider = ProviderSpec(
        id="local", adapter="openai", base_url=f"http://{host}:{port}/v1", timeout_ms=timeout_ms
    )
    wanted = EmbeddingSpec(provider_id="local", model="small", dimensions=2)
    pool = HttpPool()
    embedder = HttpEmbedder(wanted, provider, pool, lambda: RedactedString(KEY))
    try:
        return [array("f", it).tolist() for it in await embedder.embed(texts)]
    finally:
        await pool.session().close()
        await runner.cleanup()


def answer(*vectors: Any, status: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        data = [{"index": place, "embedding": it} for place, it in enumerate(vectors)]
        # In another order than the texts: the index counts.
        return web.json_response({"data": data[::-1]}, status=status)

    return handle


def test_each_text_gets_its_vector_and_the_request_says_what_is_wanted() -> None:
    asked: list[Any] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append((request.headers["authorization"], await request.json()))
        packed = base64.b64encode(array("f", [3.0, 4.0]).tobytes()).decode()
        return await answer([1.0, 2.0], packed)(request)

    assert asyncio.run(embed(handle, "tea", "coffee")) == [[1.0, 2.0], [3.0, 4.0]]
    ((key, body),) = asked
    assert key == f"Bearer {KEY}"
    assert (body["model"], body["dimensions"], body["input"]) == ("small", 2, ["tea", "coffee"])


async def answer_nonsense(_: web.Request) -> web.Response:
    return web.Response(text="<html>")


async def never_answer(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (answer([1.0, 2.0, 3.0]), "the vectors have 3 dimensions, not 2"),
        (answer([1.0, 2.0], [1.0, 2.0]), "not one vector for each text"),
        (answer([]), "0 dimensions"),
        (answer("!"), "malformed"),
        (answer([1.0, 2.0], status=429), "status 429"),
        (answer_nonsense, "DecodeError"),
        (never_answer, "Timeout"),
    ],
)
def test_what_does_not_fit_is_a_typed_error_without_the_key(handler: Handler, problem: str) -> None:
    with pytest.raises(EmbeddingFailed) as caught:
        asyncio.run(embed(handler, "tea", timeout_ms=300))
    assert problem in str(caught.value)
    assert KEY not in repr(caught.value)
