"""SKILL.md: the reference validator's verdict, every key, and nothing that blows up."""

import unicodedata
from pathlib import Path

import pytest
import skills_ref
from tests.extensions.skill_folders import write_document

from awaken.contracts.specs.skills import SkillArgument, SkillContext
from awaken.extensions.skills.documents import parse_skill
from awaken.extensions.skills.folders import FolderSkills
from awaken.extensions.skills.problems import InvalidSkill

UNKNOWN_KEY = "Unexpected fields in frontmatter"
"""The validator refuses keys it does not know; the platform has some more and ignores the rest."""

NAMES = {
    "pdf": "pdf", "a": "a", "a1-b2": "a1-b2", "long": "x" * 64, "digits": "42", "i18n": "résumé",
    "cjk": "技能", "too-long": "x" * 65, "upper": "Pdf", "space": "my pdf", "underscore": "my_pdf",
    "dot": "my.pdf", "leading": "-pdf", "trailing": "pdf-", "double": "my--pdf", "bang": "pdf!",
    "ligature": "ﬁle", "full-width": "\uff50\uff44\uff46", "emoji": "pdf🙂",
    "yes": "yes", "null": "null", "true": "true", "float": "1.5",
}  # fmt: skip

HEADS = {
    "plain": "name: {n}\ndescription: It helps.",
    "all keys": (
        "name: {n}\ndescription: It helps.\nlicense: MIT\ncompatibility: Linux\n"
        "allowed-tools: Read Bash(git *)\nmetadata:\n  author: me\n  version: 1.0"
    ),
    "quoted": "name: '{n}'\ndescription: \"It: helps.\"",
    "folded": "name: {n}\ndescription: >\n  It helps\n  a lot.",
    "literal": "name: {n}\ndescription: |\n  It helps\n  a lot.",
    "comment": "# about\nname: {n} # its name\ndescription: It helps.",
    "padded name": "name: '  {n}  '\ndescription: It helps.",
    "reversed": "description: It helps.\nname: {n}",
    "longest description": "name: {n}\ndescription: " + "d" * 1024,
    "description too long": "name: {n}\ndescription: " + "d" * 1025,
    "wide description": "name: {n}\ndescription: " + "é" * 1024,
    "no description": "name: {n}",
    "empty description": "name: {n}\ndescription:",
    "blank description": "name: {n}\ndescription: '   '",
    "null description": "name: {n}\ndescription: null",
    "tilde description": "name: {n}\ndescription: ~",
    "list description": "name: {n}\ndescription:\n  - one",
    "mapping description": "name: {n}\ndescription:\n  one: two",
    "no name": "description: It helps.",
    "empty name": "name:\ndescription: It helps.",
    "list name": "name:\n  - {n}\ndescription: It helps.",
    "other name": "name: other\ndescription: It helps.",
    "longest compatibility": "name: {n}\ndescription: d\ncompatibility: " + "c" * 500,
    "compatibility too long": "name: {n}\ndescription: d\ncompatibility: " + "c" * 501,
    "list compatibility": "name: {n}\ndescription: d\ncompatibility:\n  - one",
    "empty compatibility": "name: {n}\ndescription: d\ncompatibility:",
    "nested metadata": "name: {n}\ndescription: d\nmetadata:\n  a:\n    b: c",
    "text metadata": "name: {n}\ndescription: d\nmetadata: text",
    "flow metadata": "name: {n}\ndescription: d\nmetadata: {{a: b}}",
    "flow tools": "name: {n}\ndescription: d\nallowed-tools: [Read, Write]",
    "listed tools": "name: {n}\ndescription: d\nallowed-tools:\n  - Read\n  - Write",
    "unclosed tools": "name: {n}\ndescription: d\nallowed-tools: Bash(git",
    "duplicate key": "name: {n}\ndescription: one\ndescription: two",
    "anchor": "name: &n {n}\ndescription: d",
    "alias": "name: &n {n}\ndescription: *n",
    "tag": "name: !!str {n}\ndescription: d",
    "merge key": "name: {n}\ndescription: d\nmetadata:\n  <<: x",
    "bad indentation": "name: {n}\n description: d",
    "tab": "name: {n}\n\tdescription: d",
    "unclosed quote": "name: '{n}\ndescription: d",
    "no mapping": "- name\n- description",
    "plain text": "just words",
    "empty": "",
    "number description": "name: {n}\ndescription: 42",
    "boolean description": "name: {n}\ndescription: true",
    "date description": "name: {n}\ndescription: 2024-01-01",
    "colon in description": "name: {n}\ndescription: use: it",
    "unknown key": "name: {n}\ndescription: d\nwhen-to-use: often\nmodel: big",
    "empty license": "name: {n}\ndescription: d\nlicense:",
    "unicode": "name: {n}\ndescription: 日本語 — très bien",
}  # fmt: skip

FRAMES = {
    "no frontmatter": "Just a body.",
    "not at the start": "\n---\nname: pdf\ndescription: d\n---\nBody",
    "never closed": "---\nname: pdf\ndescription: d\nBody",
    "no body": "---\nname: pdf\ndescription: d\n---",
    "carriage returns": "---\r\nname: pdf\r\ndescription: d\r\n---\r\nBody",
    "rule in the body": "---\nname: pdf\ndescription: d\n---\nBody\n---\nMore",
    "byte order mark": "\ufeff---\nname: pdf\ndescription: d\n---\nBody",
    "empty file": "",
}


def documents() -> list[tuple[str, str, str]]:
    """A label, a directory and a document each."""
    named = [
        (f"name: {label}", name, f"---\nname: {name}\ndescription: d\n---\nBody")
        for label, name in NAMES.items()
    ]
    heads = [
        (label, "pdf", f"---\n{head.format(n='pdf')}\n---\nBody") for label, head in HEADS.items()
    ]
    return [*named, *heads, *((label, "pdf", text) for label, text in FRAMES.items())]


@pytest.mark.parametrize(
    ("label", "directory", "text"), documents(), ids=[label for label, _, _ in documents()]
)
def test_the_loader_and_the_reference_validator_give_the_same_verdict(
    tmp_path: Path, label: str, directory: str, text: str
) -> None:
    where = write_document(tmp_path, directory, text)
    refusals = [it for it in skills_ref.validate(where) if not it.startswith(UNKNOWN_KEY)]
    source = FolderSkills(tmp_path)
    assert bool(source.skills()) == (not refusals), (label, refusals, source.problems)
    if source.skills():
        theirs = skills_ref.read_properties(where)
        ours = source.skills()[0]
        assert ours.name == unicodedata.normalize("NFKC", theirs.name)
        assert ours.description == theirs.description


def test_the_corpus_is_large_and_has_both_verdicts(tmp_path: Path) -> None:
    verdicts = []
    for number, (_, directory, text) in enumerate(documents()):
        where = write_document(tmp_path / str(number), directory, text)
        verdicts.append(not skills_ref.validate(where))
    assert len(verdicts) >= 60
    assert verdicts.count(True) >= 20
    assert verdicts.count(False) >= 20


FULL = """---
name: report
description: Writes reports.
license: MIT
compatibility: Needs a printer
metadata:
  author: me
  version: 1.10
allowed-tools: Read Bash(git log *) mcp__docs__* Edit(path ~ "a b/*")
when-to-use: When a report is asked for
arguments:
  - name: title
    description: The title
    required: true
  - name: page-count
argument-hint: "[title] [pages]"
user-invocable: false
disable-model-invocation: true
model: large
context: fork
agent: writer
paths: |
  *.md, docs/**
  *.txt
anything: else
---
Body text.
"""


def test_every_key_is_read() -> None:
    skill = parse_skill(FULL, "report")
    assert skill.metadata == {"author": "me", "version": "1.10"}
    assert (skill.license, skill.compatibility) == ("MIT", "Needs a printer")
    assert skill.allowed_tools == (
        "Read", "Bash(git log *)", "mcp__docs__*", 'Edit(path ~ "a b/*")',
    )  # fmt: skip
    assert skill.when_to_use == "When a report is asked for"
    assert skill.arguments == (
        SkillArgument(name="title", description="The title", required=True),
        SkillArgument(name="page-count"),
    )
    assert (skill.argument_hint, skill.model, skill.agent) == ("[title] [pages]", "large", "writer")
    assert (skill.user_invocable, skill.model_invocable) == (False, False)
    assert (skill.context, skill.paths) == (SkillContext.FORK, ("*.md", "docs/**", "*.txt"))
    assert skill.body == "Body text."
    assert len(skill.content_hash) == 64


@pytest.mark.parametrize(
    "line",
    [
        "disable-model-invocation: maybe", "user-invocable:\n  - no", "context: sideways",
        "arguments: title", "arguments:\n  - required: true", "arguments:\n  - name: a b",
        "arguments:\n  - name: a\n  - name: a", "arguments:\n  - name: a-b\n  - name: A_B",
        "paths:\n  - one", "model:\n  - one", "arguments:\n  - name: a\n    required: perhaps",
    ],
)  # fmt: skip
def test_a_key_that_means_nothing_sensible_is_a_problem_not_a_default(line: str) -> None:
    with pytest.raises(InvalidSkill):
        parse_skill(f"---\nname: pdf\ndescription: d\n{line}\n---\nBody", "pdf")


def bombs() -> dict[str, str]:
    """Small documents that ask for much."""
    laughs = "a: &a x\n" + "".join(f"k{i}: &b{i}\n  - *a\n  - *a\n" for i in range(20))
    deep = "".join("  " * level + f"k{level}:\n" for level in range(200))
    return {
        "aliases": laughs, "flow": "a: " + "[" * 20_000, "deep": deep,
        "long": "a: " + "x" * 70_000, "object": "a: !!python/object/apply:os.system [id]",
        "many documents": "a: b\n--- c",
    }  # fmt: skip


@pytest.mark.parametrize("bomb", bombs())
def test_a_document_that_asks_for_much_is_refused(bomb: str) -> None:
    text = f"---\nname: pdf\ndescription: d\n{bombs()[bomb]}\n---\nBody"
    with pytest.raises(InvalidSkill):
        parse_skill(text, "pdf")
