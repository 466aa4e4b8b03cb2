"""Without any extra the package starts, and what needs an extra names it.

The processes here can import what a plain `pip install` brings and nothing else.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from tests.requirements import package_name, with_all_they_need

from .processes import WAIT_S, clean_environment

PLAIN = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())

from awaken.cli.main import app

app()
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@cache
def plain_program() -> str:
    """A program that is the `awaken` command after a plain install."""
    present = {package_name(it) for it in with_all_they_need(["awaken"])}
    absent = {
        module
        for module, packages in packages_distributions().items()
        if not present & {canonicalize_name(package) for package in packages}
    }
    assert {"mcp", "mcp_types", "acp", "starlette", "asyncpg", "jwt"} <= absent
    assert not {"awaken", "msgspec", "typer", "uvicorn", "aiohttp"} & absent
    return PLAIN.format(absent=absent)


@pytest.mark.parametrize("name", ["mcp", "acp"])
def test_a_command_without_its_extra_names_it_and_makes_no_store(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", plain_program(), name],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    problem = f"{name.upper()} needs the extra `{name}`: pip install 'awaken[{name}]'"
    assert done.stderr == f"awaken: {problem}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_server_runs_agents_and_answers_mcp_with_the_name_of_its_extra(tmp_path: Path) -> None:
    command = [sys.executable, "-c", plain_program(), "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            message = {"role": "user", "content": "RUN_WEATHER_TOOL"}
            run = {"agentId": "default", "messages": [message]}
            status, text = post(f"{url}/v1/runs", run)
            assert (status, '"run_finish"' in text) == (200, True)
            status, text = post(f"{url}/v1/mcp", HELLO)
            assert status == 501
            assert json.loads(text)["error"] == {
                "code": -32603,
                "message": "MCP needs the extra `mcp`: pip install 'awaken[mcp]'",
                "data": {"code": "missing_extra"},
            }
        finally:
            process.terminate()
    assert process.returncode == 0


def post(url: str, document: Any) -> tuple[int, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
