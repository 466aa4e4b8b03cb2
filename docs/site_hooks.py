"""Hooks of MkDocs: the navigation is `index.md`, and each public module has a page."""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "awaken"
_LEAVING = re.compile(r"\[(?P<text>[^\]]+)\]\((?:\.\./)+(?P<target>[^)#]+)(?:#[^)]*)?\)")
_FOR_TESTS = re.compile(r"^(?P<fence>```python) (?:no-run|theirs=\w+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- \[(?P<title>.+?)\]\((?P<page>[^)#]+\.md)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index, so that a page is listed in one place."""
    nav: list[Any] = [{"Home": "index.md"}]
    text = (Path(config.docs_dir) / "index.md").read_text(encoding="utf-8")
    group: list[Any] = nav
    section: list[Any] = nav
    for line in text.splitlines():
        if line.startswith("## "):
            group = section = []
            nav.append({line.removeprefix("## "): section})
        elif line.startswith("### "):
            group = []
            section.append({line.removeprefix("### "): group})
        elif entry := _ENTRY.match(line):
            group.append({entry["title"]: entry["page"]})
    modules = [{name: f"api/{name}.md"} for name in _list_public()]
    config.nav = [*nav[:-1], {"Python API": modules}, nav[-1]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each public module; its docstrings are the text."""
    for module, place in _list_public().items():
        entries = "".join(f"::: {module}.{name}\n\n" for name in _names_in(place))
        text = f"# `{module}`\n\n{ast.get_docstring(_parse(place))}\n\n{entries}"
        files.append(File.generated(config, f"api/{module}.md", content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """List all versions that stand beside this one, newest first, and lead to the newest."""
    here = Path(config.site_dir)
    if here.name != read_version():
        return
    found = sorted((it.name for it in here.parent.iterdir() if it.is_dir()), key=_key, reverse=True)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if name == found[0] else []}
        for name in found
    ]
    missing = here / "404.html"
    # It is shown for addresses of any depth, so its links are absolute: below the version.
    text = re.sub(r'((?:href|src)=")/(?!/)', rf"\1/{here.name}/", missing.read_text("utf-8"))
    missing.write_text(text, encoding="utf-8")
    (here.parent / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    lead = f'<!doctype html><meta http-equiv="refresh" content="0; url={found[0]}/index.html">'
    (here.parent / "index.html").write_text(lead, encoding="utf-8")


def read_version() -> str:
    """The version of the package, as its project file says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Name files of the repository that are no pages, and leave out what a fence says for tests."""

    def name_file(link: re.Match[str]) -> str:
        place = (ROOT / "docs" / page.file.src_uri).parent / link[0].partition("](")[2].rstrip(")")
        target = Path(str(place).partition("#")[0]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        return f"{link['text']} (`{target.relative_to(ROOT)}` of the repository)"

    return _FOR_TESTS.sub(r"\g<fence>", _LEAVING.sub(name_file, markdown))


def _list_public() -> dict[str, Path]:
    """The public modules, as their page of the reference lists them, with their files."""
    page = (ROOT / "docs/reference/public-modules.md").read_text(encoding="utf-8")
    return {name: _find_file(name) for name in re.findall(r"^### (awaken\S*)$", page, re.MULTILINE)}


def _find_file(module: str) -> Path:
    place = SOURCE.parent.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _names_in(place: Path) -> list[str]:
    for statement in _parse(place).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as names):
                return sorted(ast.literal_eval(names), key=str.lower)
    return []


@cache
def _parse(place: Path) -> ast.Module:
    return ast.parse(place.read_text(encoding="utf-8"))
