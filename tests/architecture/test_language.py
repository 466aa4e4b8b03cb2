"""Functions are named by verbs, and the text names the actor: both are counted over the package."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
PARTICIPLES_MAX = 0.02
VAGUE_ACTORS_MAX = 2
"""In 10,000 words."""
IRREGULAR = {
    "begun",
    "estimate_steps",
    "bought",
    "broken",
    "brought",
    "built",
    "caught",
    "chosen",
    "cut",
    "done",
    "drawn",
    "run_without_suspending",
    "fallen",
    "felt",
    "found",
    "given",
    "gone",
    "grown",
    "heard",
    "held",
    "hidden",
    "kept",
    "known",
    "laid",
    "led",
    "left",
    "lent",
    "lost",
    "made",
    "meant",
    "met",
    "paid",
    "put",
    "read",
    "run",
    "said",
    "seen",
    "sent",
    "set",
    "shown",
    "shut",
    "spent",
    "spoken",
    "split",
    "spread",
    "stolen",
    "stood",
    "struck",
    "taken",
    "taught",
    "thought",
    "thrown",
    "told",
    "torn",
    "turned",
    "understood",
    "undone",
    "woken",
    "won",
    "worn",
    "written",
}
BARE_VERBS = {"cut", "put", "read", "run", "set", "shut", "split", "spread"}
"""Participles that are also the verb itself."""
NOT_PARTICIPLES = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "shed", "bed"}
NOUNS = {"ring", "string", "thing", "king", "spring", "ping", "bring", "sing"}
_VAGUE = re.compile(r"\b(?:whoever|somebody|nobody)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_participle(word: str) -> bool:
    if word in BARE_VERBS | NOT_PARTICIPLES | NOUNS:
        return False
    return word in IRREGULAR or (len(word) > 3 and word.endswith(("ed", "ing")))


def is_named_by_participle(name: str) -> bool:
    """Whether the name starts with a participle, as in `told` or `_loaded_run`."""
    return not name.startswith("__") and is_participle(name.strip("_").split("_")[0])


def list_functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def read_prose(path: Path) -> str:
    """Every comment and docstring of a file."""
    text = path.read_text(encoding="utf-8")
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return "\n".join([*comments, *strings])


def test_functions_are_named_by_verbs() -> None:
    functions = [(path, node.name) for path in FILES for node in list_functions(path)]
    offenders = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in functions
        if is_named_by_participle(name)
    ]
    assert len(offenders) <= PARTICIPLES_MAX * len(functions), "\n".join(offenders)


def test_texts_name_the_actor() -> None:
    texts = {path: read_prose(path) for path in FILES}
    offenders = [
        f"{path.relative_to(ROOT)}: {word}"
        for path, text in texts.items()
        for word in _VAGUE.findall(text)
    ]
    words = sum(len(_WORD.findall(text)) for text in texts.values())
    assert len(offenders) <= VAGUE_ACTORS_MAX * words / 10_000, "\n".join(offenders)
