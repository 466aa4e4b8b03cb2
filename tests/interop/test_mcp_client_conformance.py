"""The MCP conformance suite for clients against the extension `mcp`, in both eras."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.interop.mcp_conformance_client import playing

HERE = Path(__file__).parent
NODE = Path(sys.executable).with_name("node")
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
FAILURES = ("FAILURE", "WARNING")
SKILLS = ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
RUNS = {
    "2025-11-25": [("--suite", "all", "--spec-version", "2025-11-25")],
    "2026-07-28": [("--suite", "all", "--spec-version", "2026-07-28")],
    "extensions": [
        ("--suite", "extensions"),
        *(("--scenario", f"sep-2640-client-{it}") for it in SKILLS),
    ],
}
SCENARIOS = {"2025-11-25": 19, "2026-07-28": 33, "extensions": 10}


@pytest.mark.parametrize("run", RUNS)
def test_the_suite_passes_but_for_what_does_not_apply(run: str, tmp_path: Path) -> None:
    asyncio.run(judged(RUNS[run], tmp_path))
    checks = list(checks_of(tmp_path))
    bad = {id_: check for id_, check in checks if is_bad(id_, check["status"])}
    expected = expected_failures() & {id_ for id_, _ in checks}
    assert bad.keys() == expected, [(id_, it.get("errorMessage")) for id_, it in bad.items()]
    assert len({id_.partition(":")[0] for id_, _ in checks}) == SCENARIOS[run]


def is_bad(id_: str, status: str) -> bool:
    # The suite skips the checks of an extension that a client does not speak.
    return status in FAILURES or (status == "SKIPPED" and id_.startswith("sep-2640"))


async def judged(runs: Iterable[tuple[str, ...]], folder: Path) -> None:
    """Let the suite write its judgement on its scenarios, which it plays at once, into a folder."""
    async with await asyncio.start_server(playing, "127.0.0.1") as player:
        port = player.sockets[0].getsockname()[1]
        command = f"{sys.executable} -I -S {HERE / 'mcp' / 'relay.py'} {port}"
        await asyncio.gather(*(suite(command, which, folder) for which in runs))


async def suite(command: str, which: tuple[str, ...], folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(SUITE), "client", "--command", command, *which, "-o", str(folder),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        await asyncio.wait_for(process.communicate(), 50)
    finally:
        if process.returncode is None:
            # `node` may be a program that starts the real one.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def checks_of(folder: Path) -> Any:
    """Every check that the suite made, by its scenario and its own name."""
    for file in sorted(folder.glob("**/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(file.parent.relative_to(folder)))
        for check in json.loads(file.read_text()):
            yield f"{scenario}:{check['id']}", check


def expected_failures() -> set[str]:
    """The checks that do not apply; each line has its reason."""
    lines = (HERE / "mcp" / "expected_client_failures.yml").read_text().splitlines()
    entries = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    assert all(reason for _, _, reason in entries)
    return {name for name, _, _ in entries}
