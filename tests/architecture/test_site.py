"""The site of the documentation: it builds offline, is connected, and asks no other server."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

# The first test waits for the whole site; the process that builds it has a limit of its own.
pytestmark = pytest.mark.timeout(450)
ROOT = Path(__file__).parents[2]
NAMES: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "public_names.toml").read_text(encoding="utf-8")
)
_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}
"""What a browser loads by itself; a link to another site is followed by a person."""


class Page(HTMLParser):
    """The links of a page, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif tag == "a" and name == "href" and value:
                self.links.append(value)
            elif (tag, name) in _LOADED and value:
                self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a network; a warning of MkDocs fails the build."""
    folder = tmp_path_factory.mktemp("sites") / version("awaken")
    # A proxy at which nothing answers: what asks for another server fails.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **closed, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return folder


def follow(site: Path, at: Path, link: str) -> Iterator[tuple[Path, str]]:
    """Yield the file of the site that a link leads to, and its anchor."""
    parts = urlsplit(link)
    if not parts.scheme and not parts.netloc:
        path = unquote(parts.path)
        target = (at.parent / path).resolve() if path else at
        yield (target / "index.html" if target.is_dir() else target), unquote(parts.fragment)


def test_every_page_is_reached_from_the_first_and_every_link_leads_somewhere(site: Path) -> None:
    pages: dict[Path, Page] = {}
    links: list[tuple[Path, Path, str]] = []
    waiting = [site / "index.html"]
    while waiting:
        at = waiting.pop()
        if at in pages or at.suffix != ".html":
            continue
        pages[at] = Page(at)
        for link in pages[at].links:
            for target, anchor in follow(site, at, link):
                assert target.exists(), f"{at.relative_to(site)} links to {link}"
                links.append((at, target, anchor))
                waiting.append(target)
    broken = [
        f"{at.relative_to(site)}: {target.relative_to(site)}#{anchor}"
        for at, target, anchor in links
        if anchor and target in pages and anchor not in pages[target].anchors
    ]
    assert broken == []
    written = {it.relative_to(ROOT / "docs").with_suffix("") for it in ROOT.glob("docs/**/*.md")}
    assert written <= {it.relative_to(site).with_suffix("") for it in pages}


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    foreign = [
        f"{path.relative_to(site)}: {address}"
        for path in site.rglob("*.html")
        for address in Page(path).loaded
        if urlsplit(address).netloc
    ]
    assert foreign == []
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert "url(http" not in text
        assert "url(//" not in text
        assert "@import" not in text


def test_no_fence_is_shown_as_text(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "migrating").glob("*.html")]
    assert len(pages) == 4
    assert [page for page in pages if "theirs=" in page] == []


def test_the_versions_are_listed_and_the_newest_is_shown_first(site: Path) -> None:
    listed = json.loads((site.parent / "versions.json").read_text(encoding="utf-8"))
    assert [it["version"] for it in listed] == [site.name]
    assert f"url={site.name}/index.html" in (site.parent / "index.html").read_text(encoding="utf-8")


def test_the_search_needs_no_other_server(site: Path) -> None:
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_has_its_place_in_the_api(site: Path, module: str) -> None:
    anchors = Page(site / "api" / f"{module}.html").anchors
    assert [name for name in NAMES[module] if f"{module}.{name}" not in anchors] == []


METHODS = (
    "Agent.run", "Agent.run_sync", "AgentRuntime.run", "AgentRuntime.run_sync",
    "AgentRuntime.stream_text",
    "AgentRuntime.decide_all", "AgentRuntime.list_runs", "RunResult.is_waiting", "RunHandle.cancel",
    "ToolContext.suspend", "ToolContext.emit_output",
)  # fmt: skip


def test_the_methods_of_public_classes_are_in_the_api_those_they_inherit_too(site: Path) -> None:
    anchors = Page(site / "api" / "awaken.html").anchors
    assert [name for name in METHODS if f"awaken.{name}" not in anchors] == []


def test_nothing_is_published_that_is_no_page(site: Path) -> None:
    assert [it for it in site.rglob("*") if it.suffix in {".py", ".pyc"}] == []


def test_the_page_for_missing_addresses_leads_into_its_version(site: Path) -> None:
    text = (site / "404.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="(/[^"]*)"', text)
    assert links
    assert [it for it in links if not it.startswith(f"/{site.name}/")] == []
