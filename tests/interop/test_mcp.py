"""The MCP conformance suite and the MCP Inspector against our server.

The suite's other half, for clients, is run where awaken is a client.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import serving, serving_app

from awaken import Agent, AgentRuntime
from awaken.testing import ScriptedModel

from .mcp.profile import profile, with_messages

HERE = Path(__file__).parent
NODE = Path(sys.executable).with_name("node")
PACKAGES = HERE / "node_modules" / "@modelcontextprotocol"
REVISIONS = ("2025-11-25", "2026-07-28")


def test_the_conformance_suite_passes_but_for_what_does_not_apply(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving_app(with_messages(profile().asgi())) as url:
            await asyncio.gather(*(judged(url, it, tmp_path / it) for it in REVISIONS))

    asyncio.run(scenario())
    checks = [check for it in REVISIONS for check in checks_of(tmp_path / it)]
    failed = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
    assert failed == expected_failures()
    assert sum(check["status"] == "SUCCESS" for check in checks) >= 200


def test_the_inspector_lists_and_calls() -> None:
    async def scenario() -> None:
        agent = Agent("helper", model=ScriptedModel(["Hi."], cycle=True), description="Helps.")
        async with serving(AgentRuntime([agent])) as url:
            tools = await inspected(url, "tools/list")
            assert [(it["name"], it["description"]) for it in tools["tools"]] == [
                ("helper", "Helps.")
            ]
            said = ("--tool-name", "helper", "--tool-arg", "message=hello")
            called = await inspected(url, "tools/call", *said)
            assert called["content"] == [{"type": "text", "text": "Hi."}]
            thread_id = called["structuredContent"]["thread_id"]
            listed = await inspected(url, "resources/list")
            assert [it["uri"] for it in listed["resources"]] == [f"awaken://threads/{thread_id}"]

    asyncio.run(scenario())


async def judged(url: str, revision: str, folder: Path) -> None:
    """Let the suite write its judgement into a folder."""
    suite = PACKAGES / "conformance" / "dist" / "index.js"
    wanted = ("--url", f"{url}/v1/mcp", "--requirements", revision, "-o", str(folder))
    await ran(str(suite), "server", *wanted)


async def inspected(url: str, method: str, *arguments: str) -> Any:
    """What the inspector shows."""
    client = HERE / "node_modules" / ".bin" / "mcp-inspector"
    place = ("--cli", f"{url}/v1/mcp", "--transport", "http", "--method", method)
    return json.loads(await ran(str(client.resolve()), *place, *arguments))


async def ran(*arguments: str) -> str:
    """What a Node program says, within its time."""
    environment = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), 55)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not output:
        pytest.fail(errors.decode())
    return output.decode()


def checks_of(folder: Path) -> list[Any]:
    """Every check that the suite made."""
    files = sorted(folder.glob("*/checks.json"))
    return [check for file in files for check in json.loads(file.read_text())]


def expected_failures() -> set[str]:
    """The checks that do not apply; each line has its reason."""
    lines = (HERE / "mcp" / "expected_failures.yml").read_text().splitlines()
    entries = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    assert all(reason for _, _, reason in entries)
    return {name for name, _, _ in entries}
