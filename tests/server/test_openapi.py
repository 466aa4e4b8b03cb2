"""The OpenAPI document: true to the types, sound by its own rules, and kept by the server."""

import asyncio
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from awaken import Access

from .native_client import native, talking

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
NATIVE = ("runs", "threads", "tickets", "agents", "server", "operators")
ENDLESS = ("/v1/threads/{thread_id}/events/stream", "/v1/activity/stream")


async def fetched() -> tuple[Any, Any]:
    runtime = talking()
    async with native(runtime) as client:
        return await client.get("/openapi.json"), runtime.asgi().routes


def test_the_document_has_every_route_with_its_types() -> None:
    document, routes = asyncio.run(fetched())
    assert document["openapi"] == "3.1.0"
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert described == {(route.method, route.path.replace(":path}", "}")) for route in routes}
    ids = [it["operationId"] for item in document["paths"].values() for it in item.values()]
    assert len(ids) == len(set(ids))
    start = document["paths"]["/v1/runs"]["post"]
    body = start["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/StartRun"}
    assert document["components"]["schemas"]["StartRun"]["required"] == ["agent_id"]
    kinds = list(start["responses"]["200"]["content"])
    assert kinds == ["text/event-stream", "application/json"]
    assert {"200", "202"} < set(start["responses"])
    assert start["security"] == [{"bearer": ["invoke"]}]
    assert [it["name"] for it in start["parameters"]] == ["Idempotency-Key", "Accept"]
    listing = document["paths"]["/v1/threads/{thread_id}/events"]["get"]["parameters"]
    assert [(it["name"], it["in"], it["required"]) for it in listing] == [
        ("thread_id", "path", True),
        ("cursor", "query", False),
        ("limit", "query", False),
    ]
    assert (listing[2]["schema"]["minimum"], listing[2]["schema"]["maximum"]) == (1, 200)
    assert document["paths"]["/openapi.json"]["get"]["security"] == []
    assert all(route.access is Access.OPEN for route in routes if route.path == "/openapi.json")


def test_every_schema_of_the_document_is_sound_and_every_reference_leads_somewhere() -> None:
    document, _ = asyncio.run(fetched())
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )
    for reference in references(document):
        target: Any = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"].endswith(".")
            assert {"4XX", "5XX"} < set(operation["responses"])
    # The loader checks the document as a whole.
    assert schemathesis.openapi.from_dict(document).validate() is None


@pytest.mark.timeout(120)
def test_the_server_keeps_what_the_document_promises() -> None:
    asked: list[str] = []

    def attack(url: str) -> None:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        schema = schema.include(tag_regex="|".join(NATIVE)).exclude(path=list(ENDLESS))
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                try:
                    hold(operation, mode, url)
                except Unsatisfiable:
                    # Whatever is sent to a route without parameters fits.
                    assert mode is GenerationMode.NEGATIVE
                asked.append(operation.label)

    async def main() -> None:
        async with asyncio.timeout(110), native(talking()) as client:
            await client.run("t")
            await asyncio.to_thread(attack, client.url)

    asyncio.run(main())
    assert len(set(asked)) >= 49


def hold(operation: Any, mode: GenerationMode, url: str) -> None:
    """Ask an operation whatever fits, or does not fit, its description."""

    @hypothesis.settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def kept(case: Any) -> None:
        reply = case.call(base_url=url, timeout=40)
        case.validate_response(reply, checks=CHECKS)

    kept()


def references(value: Any) -> list[str]:
    """Every reference in a document."""
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    # What a discriminator says are references, too.
    mapped = value.get("mapping", {}).values() if "propertyName" in value else ()
    return [*own, *mapped, *(found for item in value.values() for found in references(item))]
