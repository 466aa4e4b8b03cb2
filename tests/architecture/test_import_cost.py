"""What a program loads that declares an agent, and one that runs it in memory.

Every module costs each process time at its start. The numbers only fall, as in `turn_cost.toml`.
"""

import json
import subprocess
import sys

DECLARES = "from awaken import Agent, AgentRuntime, tool"
RUNS = f"""
import asyncio
{DECLARES}
from awaken import TextDelta
from awaken.models import Stop, StopReason

class Model:
    name = "model"

    async def stream(self, request):
        yield TextDelta(delta="Hello.")
        yield Stop(reason=StopReason.END_TURN)

async def main():
    async with AgentRuntime([Agent("a", model=Model())]) as runtime:
        assert (await runtime.run("a", "hi")).text == "Hello."

asyncio.run(main())
"""
MODULES_TO_DECLARE = 83
MODULES_TO_RUN = 288
NEVER = (
    # Packages of others.
    "aiohttp", "asyncpg", "httpx", "jsonschema_rs", "opentelemetry", "pydantic", "re2", "starlette",
    "uvicorn", "watchfiles",
    # The standard library; asyncio itself imports ssl and subprocess.
    "email", "html", "http", "importlib.metadata", "multiprocessing", "sqlite3", "tempfile",
    "unittest", "urllib.request", "xml",
    # Parts of awaken that a run in memory does not use.
    "awaken.backends.a2a", "awaken.backends.acp", "awaken.buses.postgres", "awaken.cli",
    "awaken.demo", "awaken.extensions", "awaken.mailbox.worker", "awaken.outbound",
    "awaken.patterns", "awaken.protocols", "awaken.providers.http", "awaken.redaction.detectors",
    "awaken.runtime.remote.remote_run", "awaken.server", "awaken.services.view",
    "awaken.stores.postgres", "awaken.stores.sql", "awaken.stores.sqlite", "awaken.testing",
    "awaken.transport",
)  # fmt: skip
ONLY_TO_RUN = (
    # asyncio is a third of what a program would load that only declares an agent.
    "asyncio",
    "hashlib",
    "logging",
    "urllib.parse",
    "awaken.runtime.engine",
    "awaken.stores",
    "awaken.services",
    "awaken.mailbox.mailbox",
)


def list_modules(program: str) -> set[str]:
    report = "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", program + report]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def find_parts(modules: set[str], names: tuple[str, ...]) -> list[str]:
    """The modules that are one of the named packages or inside one."""
    return sorted(it for it in modules if any(f"{it}.".startswith(f"{name}.") for name in names))


def count_own(modules: set[str]) -> int:
    return len(find_parts(modules, ("awaken",)))


def test_declaring_an_agent_loads_no_engine_and_nothing_that_few_programs_use() -> None:
    modules = list_modules(DECLARES)
    assert find_parts(modules, NEVER + ONLY_TO_RUN) == []
    assert count_own(modules) <= MODULES_TO_DECLARE


def test_a_run_in_memory_loads_nothing_that_few_programs_use() -> None:
    modules = list_modules(RUNS)
    assert find_parts(modules, NEVER) == []
    assert count_own(modules) <= MODULES_TO_RUN
