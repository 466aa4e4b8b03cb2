"""What tool patterns cost: many rules against many calls, and hostile expressions.

usage: patterns.py [--rules 1000] [--calls 500] [--rounds 5] [--size 102400]
Prints rules x calls per second of one core for each kind of rule set and each of the two questions,
Python's memory of the compiled rules, and the slowest of a corpus of hostile expressions on a text
of the given size. Process CPU time, best of the rounds; reading the calls is
part of the time, parsing the rules is not.
"""

import argparse
import json
import random
import time
import tracemalloc
from collections.abc import Callable

from awaken.patterns import (
    PatternCall,
    PatternError,
    PatternIndex,
    ToolPattern,
    call_of,
    parse_pattern,
)

TOOLS = [f"mcp__server{n % 20}__tool{n}" for n in range(100)]
WORDS = ["git", "npm", "pip", "curl", "rm", "ls", "cat", "make", "docker", "helm", "ssh", "psql"]
HOSTILE = [
    *(r"(a+)+$", r"(a*)*$", r"(a|a)*$", r"(a|aa)+$", r"(.*)*x", r"(.*a){12}", r"(\w+\s?)+$"),
    *(r"^(a+)+b", r"(x+x+)+y", r"([a-zA-Z]+)*$", r"(a|b|ab)*c", r"(.+)+;", r"(\d+)+!", r"a*a*a*b"),
    *(r"(a?){30}a{30}b", r"(a|b)*a(a|b){12}c", r"(a|b)*a(a|b){100}c", r".*a.{8}b.{8}c"),
    *(
        r".*a.{60}b.{60}c",
        r"(a{30}){30}b",
        r"\w*[a-f]\w{60}!",
        r"(?i)(.*a){30}z",
        r"\C*\C*\C*q",
    ),
    *(r"(?s)(.+)(.+)(.+)(.+)$z", r"[ab]*a" + "." * 480 + "c", r"(\p{L}+)+\pN", r"(é|e)*\p{L}{40}!"),
    *(
        r"(a.*b.*c.*d.*e.*f)+z",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(?:a{1,40}){1,20}x",
        r"(ab|a)*(b|$)z",
    ),
    *(r"(.*?,){25}P", r"\b(\w+)\b(\s+\w+)*\bz", r"(?i)(\x{17F}|s|S)+(ß|ss)+k", r"(ab?c?)*d"),
]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100 * 1024)
    parser.add_argument("--json", action="store_true", help="the figures in one line as well")
    args = parser.parse_args()
    random.seed(7)
    figures: dict[str, float] = {}
    for name, make in RULE_SETS.items():
        figures |= matching(name, make, args)
    figures |= hostile(args.size, args.rounds)
    if args.json:
        print(json.dumps(figures))


def matching(name: str, make: Callable[[int], str], args: argparse.Namespace) -> dict[str, float]:
    """One line: how fast calls are compared with a set of rules."""
    texts = [make(n) for n in range(args.rules)]
    tracemalloc.start()
    index = PatternIndex([(parse_pattern(text), n) for n, text in enumerate(texts)])
    kib = tracemalloc.get_traced_memory()[0] / 1024
    tracemalloc.stop()
    calls = [(random.choice(TOOLS), arguments()) for _ in range(args.calls)]

    def ask(question: Callable[[PatternCall], list[int]]) -> float:
        def once() -> None:
            for tool_id, given in calls:
                question(call_of(tool_id, given))

        return len(calls) * len(texts) / best(once, args.rounds)

    may, must = ask(index.may_match), ask(index.must_match)
    print(f"{name:<22}{may / 1e6:>8.1f} M/s may{must / 1e6:>8.1f} M/s must{kib:>8.0f} KiB")
    return {f"{name}: M/s may": may / 1e6, f"{name}: M/s must": must / 1e6, f"{name}: KiB": kib}


def arguments() -> dict[str, object]:
    """What a model would send."""
    command = f"{random.choice(WORDS)} {random.choice(WORDS)} --flag /srv/{random.random()}"
    return {"command": command, "timeout": 30, "options": {"cwd": "/srv", "tags": ["a", "b"]}}


def hostile(size: int, rounds: int) -> dict[str, float]:
    """How long the slowest expression takes, asked both ways, as a rule and as a tool's name."""
    texts = ["a" * size, "".join(random.choices("ab", k=size)), "é€ab1 " * (size // 9)]
    worst, slowest, refused = 0.0, "", 0
    for source in HOSTILE:
        value = source.replace("\\", "\\\\").replace('"', '\\"')
        try:
            pattern = parse_pattern(f'Bash(command =~ "{value}")')
        except PatternError:
            refused += 1
            continue
        for text in texts:
            seconds = best(lambda p=pattern, t=text: both(p, t), rounds)
            if seconds > worst:
                worst, slowest = seconds, source
    print(f"hostile: {len(HOSTILE)} expressions x {size / 1024:.0f} KiB, {refused} refused unread")
    print(f"slowest {worst * 1e3:.1f} ms for both questions, reading included: {slowest[:60]}")
    return {"hostile ms": worst * 1e3}


def both(pattern: ToolPattern, text: str) -> tuple[bool, bool]:
    call = call_of("Bash", {"command": text})
    return pattern.may_match(call), pattern.must_match(call)


def best(action: Callable[[], object], rounds: int) -> float:
    """The least CPU time that the action took."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def _mixed(n: int) -> str:
    return [_conditions, _globs, _names][n % 3](n)


def _conditions(n: int) -> str:
    return f'{TOOLS[n % 100]}(command ~ "{WORDS[n % 12]} *{n}*", timeout = "30")'


def _globs(n: int) -> str:
    return f"mcp__server{n % 20}__*(*{WORDS[n % 12]} {n}*)"


def _names(n: int) -> str:
    return TOOLS[n % 100] if n % 2 else f"/server{n % 20}__tool{n}$/"


def _one_tool(n: int) -> str:
    return f'mcp__*(command ~ "{WORDS[n % 12]}{n} *")'


def _one_tool_regex(n: int) -> str:
    return f'*(command =~ "\\b{WORDS[n % 12]} +{n}\\b")'


def _one_tool_gaps(n: int) -> str:
    return f'*(command =~ "{WORDS[n % 12]}.*{WORDS[n * 7 % 11]}.*{n}")'


RULE_SETS: dict[str, Callable[[int], str]] = {
    "mixed rules": _mixed,
    "all meet, glob": _one_tool,
    "all meet, regex": _one_tool_regex,
    "all meet, regex, gaps": _one_tool_gaps,
}


if __name__ == "__main__":
    main()
