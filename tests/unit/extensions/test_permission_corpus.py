"""The ways around permission rules that are known, each of them closed."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.extensions.permission.config import PermissionConfig
from awaken.extensions.permission.rule_compiler import compile_rules
from awaken.extensions.permission.rules import decide, find_hidden_tools
from awaken.patterns import call_of

FILE = Path(__file__).parents[2] / "extensions" / "permission_corpus.toml"
CORPUS = tomllib.loads(FILE.read_text(encoding="utf-8"))
SETS = {
    name: msgspec.convert(
        {"default_behavior": given["default"], "rules": given["rules"]}, PermissionConfig
    )
    for name, given in CORPUS["sets"].items()
}


class Attack(NamedTuple):
    kind: str
    set: str
    tool: str
    arguments: str
    expected: str


ATTACKS = [
    Attack(kind=kind, **attack) for kind, attacks in CORPUS["attacks"].items() for attack in attacks
]
HONEST = [
    ("listed", "Bash", {"command": "git status"}),
    ("listed", "Bash", {"command": "ls -l -a"}),
    ("contains", "Bash", {"command": "git status"}),
    ("exact", "Bash", {"command": "rm -rf /tmp/x"}),
    ("searched", "Bash", {"command": "farm x"}),
    ("asked", "Bash", {"command": "ls"}),
    ("files", "Read", {"path": "/srv/public/a/b.txt"}),
    ("nested", "Http", {"request": {"url": "http://example.com"}, "hops": []}),
    ("mail", "Mail", {"body": "hello", "to": "boss@example.com"}),
    ("tools", "mcp__files__read", {}),
    ("closed", "Read", {"path": "/"}),
]


@pytest.mark.parametrize(
    "attack", ATTACKS, ids=lambda it: f"{it.kind}-{it.set}-{it.arguments}"[:60]
)
def test_no_disguise_of_a_call_gets_around_a_rule(attack: Attack) -> None:
    rules = compile_rules(SETS[attack.set]).rules
    # As a provider reads it: of a key that is there twice, the last value.
    arguments: Any = msgspec.json.decode(attack.arguments)
    verdict = decide(rules, call_of(attack.tool, arguments))
    assert verdict.behavior == ToolBehavior(attack.expected)
    assert verdict.behavior is not ToolBehavior.ALLOW


@pytest.mark.parametrize(("name", "tool_id", "arguments"), HONEST)
def test_the_rules_of_the_corpus_let_honest_calls_pass(
    name: str, tool_id: str, arguments: Any
) -> None:
    rules = compile_rules(SETS[name]).rules
    assert decide(rules, call_of(tool_id, arguments)).behavior is ToolBehavior.ALLOW
    assert find_hidden_tools(rules, [tool_id]) == ()


def test_the_corpus_is_large_and_of_many_kinds() -> None:
    assert len(set(ATTACKS)) == len(ATTACKS) >= 120
    kinds = Counter(attack.kind for attack in ATTACKS)
    assert {"case", "nfkc", "unseen", "space", "flags", "wrapper", "path", "chain"} <= set(kinds)
    assert {"glob", "shape", "nested", "keys", "repeated", "escape", "tool"} <= set(kinds)
