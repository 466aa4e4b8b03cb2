"""How long permission rules take: compiled once, asked in every step and at every call.

    python bench/policy.py

Prints one line per figure, with its bound.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from awaken.contracts.identity import RunIdentity
from awaken.contracts.plugins.plugin import BeforeInferenceContext
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import Snapshot
from awaken.contracts.suspension.policy import PastCall
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.permission import PermissionConfig, PermissionPlugin, RuleConfig
from awaken.extensions.permission.gate import PreparedPolicy, hide_denied_tools
from awaken.extensions.permission.policy import policy_diff
from awaken.extensions.permission.remembered_rules import RememberedRules
from awaken.extensions.permission.rule_compiler import compile_rules
from awaken.extensions.permission.rules import decide
from awaken.patterns import call_of

CALLS, RULES, TOOLS = 10_000, 1_000, 1_000
ROUNDS = 5
BEHAVIORS = ("allow", "ask", "deny")


def rules(count: int, shift: int = 0) -> list[dict[str, str]]:
    """Rules of every kind, some by name, some by glob, some by regular expression."""
    texts: dict[str, None] = {}
    for number in itertools.count():
        kinds = (
            f"tool_{number % TOOLS}",
            f'tool_{number % TOOLS}(command ~ "git *{number}*")',
            f"tool_{number}*",
            f'tool_{number % 50}(path =~ "^/srv/{number}/[a-z]+$")',
            f"/^tool_{number}[0-9]$/",
        )
        texts[kinds[number % len(kinds)]] = None
        if len(texts) == count:
            break
    return [
        {"tool": text, "behavior": BEHAVIORS[(number + shift) % 3]}
        for number, text in enumerate(texts)
    ]


def calls() -> list[PastCall]:
    """Calls of many tools with the arguments that agents use."""
    return [
        PastCall(
            thread_id=f"t{number // 50}",
            run_id=f"r{number // 10}",
            call_id=f"c{number}",
            tool=f"tool_{number % 100}",
            arguments={
                "command": f"git commit -m 'change number {number}' --no-verify",
                "path": f"/srv/{number % 300}/readme.md",
            },
        )
        for number in range(CALLS)
    ]


def best_ms(work: Callable[[], object]) -> float:
    """The fastest of some rounds, in milliseconds."""
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        found.append((time.perf_counter() - begin) * 1000)
    return min(found)


def section(count: int, shift: int = 0) -> PermissionConfig:
    return PermissionConfig(
        rules=tuple(RuleConfig(**it) for it in rules(count, shift))  # type: ignore[arg-type]
    )


def diff_ms(count: int) -> float:
    """Both rule sets compiled anew, and every call decided by both."""
    past = calls()
    old, new = section(count), section(count, 1)
    return best_ms(lambda: policy_diff(compile_rules(old).rules, compile_rules(new).rules, past))


def prepared() -> PreparedPolicy:
    open_schema: dict[str, Any] = {"type": "object"}
    tools = {
        f"tool_{it}": ToolDescriptor(id=f"tool_{it}", parameters=open_schema) for it in range(TOOLS)
    }
    written = [it for it in rules(RULES) if it["behavior"] == "deny"]
    written += [{**it, "behavior": "deny"} for it in rules(RULES) if it["behavior"] != "deny"]
    spec = AgentSpec(id="a", model_id="m", sections={"permission": {"rules": written}})
    return PermissionPlugin().prepare(spec, tools)


def step_ms(made: PreparedPolicy) -> float:
    """What one step pays for hiding tools."""
    standing = RememberedRules()
    context = BeforeInferenceContext(
        snapshot=Snapshot(0, {}),
        agent=AgentSpec(id="a", model_id="m"),
        run=RunIdentity(run_id="r", thread_id="t", agent_id="a"),
        messages=(),
        own=standing,
        prepared=made,
        tool_ids=tuple(f"tool_{it}" for it in range(TOOLS)),
    )

    async def steps() -> None:
        for _ in range(100):
            await hide_denied_tools(context)

    return best_ms(lambda: asyncio.run(steps())) / 100


def main() -> None:
    """Measure and print."""
    made = prepared()
    some = [call_of(it.tool, it.arguments) for it in calls()[:1000]]
    figures = SimpleNamespace(
        diff_100=diff_ms(100),
        diff_1000=diff_ms(RULES),
        prepare=best_ms(prepared),
        step=step_ms(made),
        gate=best_ms(lambda: [decide(made.rules, call) for call in some]) / len(some),
    )
    print(f"policy diff, {CALLS} calls,  100 rules: {figures.diff_100:8.1f} ms (bound 1000)")
    print(f"policy diff, {CALLS} calls, {RULES} rules: {figures.diff_1000:8.1f} ms (bound 1000)")
    print(f"prepare, {RULES} rules x {TOOLS} tools:   {figures.prepare:8.1f} ms, once per publish")
    print(f"hide tools, per step:               {figures.step:8.3f} ms (bound 5)")
    print(f"decide, per call, {RULES} rules:       {figures.gate:8.4f} ms")
    if "--json" in sys.argv:
        print(json.dumps({f"policy {name} ms": value for name, value in vars(figures).items()}))


if __name__ == "__main__":
    main()
