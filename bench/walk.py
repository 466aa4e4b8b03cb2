"""How far one run with one tool call goes through the code of awaken.

usage: python bench/walk.py [--list]

Counts, of the functions in `awaken` alone (without `awaken.testing`, which plays the model):
distinct functions, files, changes from one file to another, and the deepest stack of awaken's
frames. The first run of a process imports and compiles; the second one is counted.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "src")]

import awaken  # noqa: E402
from awaken import Agent, AgentRuntime, tool  # noqa: E402
from awaken.testing import ScriptedModel, ToolCalls  # noqa: E402

PACKAGE = str(Path(awaken.__file__).parent) + "/"
TEST_KIT = PACKAGE + "testing/"
TITLES = ("functions", "files", "changes of file", "stack depth")
GOALS = {"runtime.run": (220, 50, 330, 20), "POST /v1/runs": (320, 70, 500, 22)}


class Walk:
    """What a profile function sees between `start` and `stop`."""

    def __init__(self) -> None:
        self.functions: Counter[CodeType] = Counter()
        self.changes = 0
        self.depth = 0
        self._file = ""

    def see(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count a call of a function of awaken; a coroutine that goes on counts as a call."""
        code = frame.f_code
        name = code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or name.startswith(TEST_KIT):
            return
        self.functions[code] += 1
        if name != self._file:
            self.changes += 1
            self._file = name
        self.depth = max(self.depth, measure_stack(frame))

    def figures(self) -> tuple[int, int, int, int]:
        """Distinct functions, files, changes of file, depth."""
        files = {code.co_filename for code in self.functions}
        return len(self.functions), len(files), self.changes, self.depth


def measure_stack(frame: FrameType | None) -> int:
    """Frames of awaken from here to the bottom."""
    depth = 0
    while frame is not None:
        depth += frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    return depth


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


def build_agent() -> Agent:
    """An agent that calls one tool and answers."""
    calls = ToolCalls([("look_up", {"key": "a"})])
    return Agent("looks", model=ScriptedModel([calls, "Done."], cycle=True), tools=[look_up])


async def walk_run() -> Walk:
    """`runtime.run` on the memory store."""
    walk = Walk()
    async with AgentRuntime([build_agent()]) as runtime:
        await runtime.run("looks", "hello")
        sys.setprofile(walk.see)
        await runtime.run("looks", "hello")
        sys.setprofile(None)
    return walk


async def walk_request() -> Walk:
    """`POST /v1/runs`, from the ASGI call to the last byte of its stream."""
    from tests.server.in_process import Request

    walk = Walk()
    runtime = AgentRuntime([build_agent()])
    app = runtime.asgi()
    body = {"agent_id": "looks", "messages": [{"role": "user", "content": "hello"}]}
    async with runtime:
        await Request(app, "POST", "/v1/runs", body=body).task
        sys.setprofile(walk.see)
        await Request(app, "POST", "/v1/runs", body=body).task
        sys.setprofile(None)
    return walk


def main() -> None:
    """Print the figures beside the goals."""
    parser = argparse.ArgumentParser(prog="walk")
    parser.add_argument("--list", action="store_true", help="print each function that was passed")
    parser.add_argument("--json", action="store_true", help="the figures in one line as well")
    args = parser.parse_args()
    figures = {}
    print(f"{'':<16}{'functions':>10}{'files':>8}{'changes':>9}{'depth':>7}")
    for name, walk in (("runtime.run", walk_run), ("POST /v1/runs", walk_request)):
        seen = asyncio.run(walk())
        for title, row in ((name, seen.figures()), ("  goal", GOALS[name])):
            print(f"{title:<16}{row[0]:>10}{row[1]:>8}{row[2]:>9}{row[3]:>7}")
        for title, value in zip(TITLES, seen.figures(), strict=True):
            figures[f"{name}: {title}"] = value
        if args.list:
            for code, count in sorted(
                seen.functions.items(), key=lambda it: (it[0].co_filename, it[0].co_firstlineno)
            ):
                place = code.co_filename.removeprefix(PACKAGE)
                print(f"{count:>6}  {place}:{code.co_firstlineno} {code.co_qualname}")
    if args.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
