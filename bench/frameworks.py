"""Which frameworks are measured, which Python runs each, and why one is skipped.

Standard library only: the worker imports this file inside every peer's environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import trees

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("BENCH_ROOT") or Path.home() / ".cache" / "awaken-bench")
RESULTS, LOGS, SCRATCH = ROOT / "results", ROOT / "logs", ROOT / "tmp"

OWN = "own"  # the interpreter that runs the bench, the one that has awaken
BASE = "base"  # the environment of our own baselines; OWN stands in when it is missing
BASELINES = ("plain", "floor")
SUITES = ("micro", "conc", "persist", "http")


@dataclass(frozen=True, slots=True)
class Framework:
    """One row of the tables."""

    name: str
    adapter: str  # module in adapters/, or on PYTHONPATH
    venv: str  # OWN, a folder of ROOT/venvs, or the path of a Python
    suites: tuple[str, ...]  # where it takes part unless asked for by name
    import_line: str | None = None  # what a user imports first
    needs: tuple[str, ...] = ()  # modules to check when OWN runs it
    env: Mapping[str, str] = field(default_factory=dict)
    tree: Path | None = None  # of our own rows: the checkout that awaken is imported from

    @property
    def python(self) -> Path:
        """The interpreter that runs this framework's worker."""
        if self.venv == OWN:
            return Path(sys.executable)
        if "/" in self.venv:
            return Path(self.venv)
        python = ROOT / "venvs" / self.venv / "bin" / "python"
        if self.venv == BASE and not python.exists():
            return Path(sys.executable)
        return python

    def missing(self) -> str | None:
        """Why it cannot be measured here, or None."""
        if not self.python.exists():
            if self.venv == BASE or "/" in self.venv:
                return f"there is no {self.python}"
            return f"not installed (bench/install_peers.sh {self.venv})"
        if self.python == Path(sys.executable):
            for module in self.needs:
                if find_spec(module) is None:
                    if module == self.adapter:
                        return f"there is no bench/{module}.py"
                    return f"{sys.executable} cannot import {module}"
        return None

    def environment(self) -> dict[str, str]:
        """Variables for its processes.

        Our own rows import awaken from their tree; PYTHONPATH of the caller reaches only outsiders.
        Byte code is cached for everybody, outside of the repository, or import times would be
        those of the compiler.
        """
        path = str(HERE)
        if self.venv == OWN:
            path = os.pathsep.join((str((self.tree or trees.ROOT) / "src"), path))
        elif "/" in self.venv:
            path = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
        pycache = str(ROOT / "pycache")
        variables = {**os.environ, **self.env, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": pycache}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        return variables


IN_MEMORY = ("micro", "conc")
EVERYWHERE = ("micro", "conc", "persist", "http")

_KNOWN = (
    Framework("plain", "plain", BASE, (*IN_MEMORY, "persist"), "import asyncio, json, sqlite3"),
    Framework(
        "floor", "floor", BASE, (*IN_MEMORY, "persist"), "import pydantic", needs=("pydantic",)
    ),
    Framework(
        "awaken",
        "awaken_adapter",
        OWN,
        EVERYWHERE,
        "from awaken import Agent, AgentRuntime, tool",
        needs=("awaken", "awaken_adapter"),
    ),
    Framework(
        "awaken_once",
        "awaken_once_adapter",
        OWN,
        ("persist",),
        needs=("awaken", "awaken_once_adapter"),
    ),
    Framework(
        "agno",
        "agno_",
        "agno",
        EVERYWHERE,
        "from agno.agent import Agent",
        env={"AGNO_TELEMETRY": "false"},  # it would post to agno's API
    ),
    Framework("maf", "maf", "maf", EVERYWHERE, "from agent_framework import Agent"),
    Framework(
        "strands", "strands_", "strands", (*IN_MEMORY, "persist"), "from strands import Agent"
    ),
    Framework("strands_message", "strands_message", "strands", ("persist",)),
    Framework("strands_client", "strands_client", "strands", ("http",)),
    Framework(
        "langgraph",
        "langgraph_",
        "langgraph",
        EVERYWHERE,
        "from langchain.agents import create_agent",
        env={"LANGSMITH_TRACING": "false"},
    ),
    Framework("langgraph_exit", "langgraph_exit", "langgraph", ("persist",)),
    Framework("langgraph_delta", "langgraph_delta", "langgraph", ("persist",)),
    Framework(
        "openai_agents",
        "openai_agents_",
        "openai_agents",
        EVERYWHERE,
        "from agents import Agent, Runner",
        env={"OPENAI_API_KEY": "x"},
    ),
    Framework(
        "openai_agents_notrace",
        "openai_agents_notrace",
        "openai_agents",
        IN_MEMORY,
        env={"OPENAI_API_KEY": "x"},
    ),
    Framework(
        "pydantic_ai", "pydantic_ai_", "pydantic_ai", EVERYWHERE, "from pydantic_ai import Agent"
    ),
    Framework(
        "adk",
        "adk",
        "adk",
        EVERYWHERE,
        "from google.adk.agents import LlmAgent; from google.adk.runners import Runner",
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # offline
    ),
    Framework("adk_sqlite", "adk_sqlite", "adk", ("persist",)),
    Framework("plain_httpx", "plain_httpx", BASE, ("http",), needs=("httpx",)),
    Framework("plain_httpx2", "plain_httpx2", BASE, ("http",), needs=("httpx2",)),
    Framework("plain_aiohttp", "plain_aiohttp", BASE, ("http",), needs=("aiohttp",)),
    Framework("plain_openai", "plain_openai", BASE, ("http",), needs=("openai",)),
)


BEFORE = "awaken_before"


def _before() -> Iterable[Framework]:
    """The version before, with the adapter of this one, where `BEFORE` names its checkout."""
    if tree := trees.before():
        awaken = next(framework for framework in _KNOWN if framework.name == "awaken")
        yield replace(awaken, name=BEFORE, tree=tree)


def _outsiders() -> Iterable[Framework]:
    """BENCH_PEERS="name=/path/to/python,name2=...": adapters found through PYTHONPATH."""
    for entry in filter(None, os.environ.get("BENCH_PEERS", "").split(",")):
        name, _, python = entry.partition("=")
        yield Framework(name, name, str(Path(python).absolute()), SUITES)


FRAMEWORKS = {framework.name: framework for framework in (*_KNOWN, *_before(), *_outsiders())}


def lookup(name: str) -> Framework:
    """Find by name or by adapter module."""
    for framework in FRAMEWORKS.values():
        if name in (framework.name, framework.adapter):
            return framework
    raise SystemExit(f"unknown framework {name!r}; known: {', '.join(FRAMEWORKS)}")


def select(suite: str, only: str | None = None) -> tuple[list[Framework], dict[str, str]]:
    """What to measure, and the rest as name -> reason. `only` is a comma-separated list."""
    if only:
        wanted = [lookup(name.strip()) for name in only.split(",")]
    else:
        wanted = [framework for framework in FRAMEWORKS.values() if suite in framework.suites]
    present, skipped = [], {}
    for framework in wanted:
        if reason := framework.missing():
            skipped[framework.name] = reason
        else:
            present.append(framework)
    return present, skipped
