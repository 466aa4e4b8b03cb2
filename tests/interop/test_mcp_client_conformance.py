"""The MCP conformance suite for clients against the extension `mcp`, in both eras."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NODE = Path(sys.executable).with_name("node")
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
FAILURES = ("FAILURE", "WARNING")

SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}


CASES = [(revision, name) for revision, names in SCENARIOS.items() for name in names]


@pytest.mark.parametrize(("revision", "name"), CASES)
def test_the_suite_passes_but_for_what_does_not_apply(
    revision: str, name: str, tmp_path: Path
) -> None:
    asyncio.run(judged(name, revision, tmp_path))
    checks = [(f"{name}:{check['id']}", check) for check in checks_of(tmp_path)]
    bad = [(id_, check) for id_, check in checks if check["status"] in FAILURES]
    expected = expected_failures() & {id_ for id_, _ in checks}
    assert {id_ for id_, _ in bad} == expected, [it.get("errorMessage") for _, it in bad]
    assert any(check["status"] == "SUCCESS" for _, check in checks)


async def judged(name: str, revision: str, folder: Path) -> None:
    """Let the suite write its judgement on one scenario into a folder."""
    command = f"{sys.executable} -P {HERE / 'mcp_conformance_client.py'}"
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(SUITE), "client", "--command", command, "--scenario", name,
        "--spec-version", revision, "-o", str(folder),
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        await asyncio.wait_for(process.communicate(), 50)
    finally:
        if process.returncode is None:
            # `node` may be a program that starts the real one.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def checks_of(folder: Path) -> list[Any]:
    """Every check that the suite made; what the client said is shown if it made none."""
    files = sorted(folder.glob("**/checks.json"))
    assert files, [it.read_text() for it in folder.glob("**/*.txt")]
    return [check for file in files for check in json.loads(file.read_text())]


def expected_failures() -> set[str]:
    """The checks that do not apply; each line has its reason."""
    lines = (HERE / "mcp" / "expected_client_failures.yml").read_text().splitlines()
    entries = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    assert all(reason for _, _, reason in entries)
    return {name for name, _, _ in entries}
