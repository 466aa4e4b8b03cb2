"""The benchmark page is of one version, its goals are computed, and its prose is not touched."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import page
import page_goals
import results
import trees
from page_goals import GOALS, KEPT, Goal
from results import MixedVersions, Run, Section
from sections import SECTIONS, add_statements, read_statements, share_of_plain

# In this folder `bench` is a module; for other tests it is the folder.
sys.path.pop()

VERSION = {"awaken": "1.0", "commit": "abc1234", "is_dirty": False, "source": "one"}


def save(folder: Path, name: str, titles: dict[str, str] | None = None, **fields: Any) -> None:
    """A result file as `results.save` writes it."""
    section = {"name": name, "rows": {}, "titles": titles or {}, "versions": {}, "notes": {}}
    document = {
        "section": section | {"skipped": {}, "took": 60.0},
        "version": VERSION,
        "before": None,
        "python": "3.11.7",
        "when": "2026-11-17 04:00",
        "cores": 2,
        "is_quick": False,
    }
    (folder / f"{name}.json").write_text(json.dumps(document | fields))


def load(folder: Path) -> Run:
    return results.load(SECTIONS, place=folder)


def measured(**rows: dict[str, list[float]]) -> Run:
    version = trees.Version(**VERSION)
    sections = {name: Section(name, values) for name, values in rows.items()}  # type: ignore[arg-type]
    return Run(version, None, "3.11.7", "2026-11-17 04:00", 2, False, sections)


@pytest.mark.parametrize(
    "other",
    [
        {"version": VERSION | {"source": "two"}},
        {"version": VERSION | {"source": "two", "is_dirty": True}},
        {"before": VERSION},
        {"python": "3.12.1"},
        {"is_quick": True},
    ],
    ids=lambda it: next(iter(it)),
)
def test_results_of_two_versions_do_not_make_a_page(tmp_path: Path, other: dict[str, Any]) -> None:
    save(tmp_path, "micro")
    save(tmp_path, "persist", **other)
    with pytest.raises(MixedVersions, match=f"differ in {next(iter(other))}.*micro.*persist"):
        load(tmp_path)


def test_a_commit_that_changes_no_measured_file_is_the_same_version(tmp_path: Path) -> None:
    save(tmp_path, "micro")
    later = {"version": VERSION | {"commit": "def5678"}, "when": "2026-11-17 05:00"}
    save(tmp_path, "persist", **later)
    assert load(tmp_path).version.commit == "def5678"


def test_a_row_has_the_same_title_in_every_section(tmp_path: Path) -> None:
    save(tmp_path, "micro", {"maf": "agent-framework"})
    save(tmp_path, "coldstart")
    assert load(tmp_path).sections["coldstart"].title("maf") == "agent-framework"


def test_an_uncommitted_change_makes_another_version(tmp_path: Path) -> None:
    package = tmp_path / "src" / "awaken"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('version = "1.2"\n')
    (package / "__init__.py").write_text("")
    first = trees.Version.of(tmp_path)
    (package / "__init__.py").write_text("changed = True\n")
    assert trees.Version.of(tmp_path).source != first.source
    assert first.awaken == "1.2"


def test_a_tree_that_changes_while_it_is_measured_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    before = replace(trees.this(), source="another")
    monkeypatch.setattr(trees, "this", lambda: before)
    with pytest.raises(MixedVersions, match="changed while micro was measured"):
        results.save(Section("micro"), is_quick=True)
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    saved = Section("micro", {"awaken": {"W1": [0.1, 0.2, 0.3]}}, took=1.5)
    results.save(saved, is_quick=True)
    run = results.load(SECTIONS, is_quick=True)
    assert run.sections == {"micro": saved}
    assert run.version == trees.this()
    assert results.shown(run.values("micro", "awaken", "W1")) == "0.200 ±50%"


def test_the_page_names_the_version_and_that_it_has_uncommitted_changes() -> None:
    run = measured(micro={})
    assert "awaken 1.0, commit abc1234 measured 2026-11-17" in page.version(run)
    dirty = replace(run, version=replace(run.version, is_dirty=True))
    assert "commit abc1234 with uncommitted changes measured" in page.version(dirty)


def test_only_what_is_between_the_markers_changes() -> None:
    text = "Before.\n\n<!-- measured:goals -->\nold\n<!-- /measured -->\n\nAfter.\n"
    run = measured(micro={"awaken": {"W1": [0.05]}})
    filled = page.fill(text, run, {"goals"})
    assert filled.startswith("Before.\n\n<!-- measured:goals -->\n\n| goal")
    assert filled.endswith("|\n\n<!-- /measured -->\n\nAfter.\n")
    assert "old" not in filled
    assert page.fill(filled, run, {"goals"}) == filled


@pytest.mark.parametrize("text", ["", "<!-- measured:no-such -->\n<!-- /measured -->"])
def test_a_page_whose_markers_are_not_its_tables_is_not_written(text: str) -> None:
    with pytest.raises(page.UnknownPart, match="goals"):
        page.fill(text, measured(micro={}), {"goals"})


def test_the_pages_have_a_marker_for_every_table(tmp_path: Path) -> None:
    written = page.write(measured(micro={}), tmp_path)
    assert [it.name for it in written] == ["benchmarks.md", "README.md"]
    assert "Not measured in this run." in written[0].read_text("utf-8")


@pytest.mark.parametrize(
    ("goal", "values", "is_met"),
    [
        (Goal("", "micro", "W1", 0.06), [0.05, 0.06, 0.09], True),
        (Goal("", "micro", "W1", 0.06), [0.05, 0.061, 0.07], False),
        (Goal("", "server", "runs/s", 900, is_least=True), [800, 900, 950], True),
        (Goal("", "server", "runs/s", 900, is_least=True), [800, 899, 950], False),
    ],
)
def test_a_goal_is_held_against_the_median(goal: Goal, values: list[float], is_met: bool) -> None:
    assert goal.is_met(values) is is_met


def test_the_table_of_goals_has_the_version_before_the_best_peer_and_a_verdict() -> None:
    rows = {
        "plain": {"W1": [0.001]},
        "awaken": {"W1": [0.05, 0.055, 0.06]},
        "awaken_before": {"W1": [0.14]},
        "agno": {"W1": [0.15]},
        "maf": {"W1": [0.13]},
    }
    lines = page_goals.goals(measured(micro=rows)).splitlines()
    assert "| W1 one turn | <= 0.06 ms | 0.140 | 0.055 ±9% | 0.130 maf | met |" in lines
    assert "| W2 ten tool rounds | <= 0.7 ms | - | - | - | not measured |" in lines


def test_the_part_of_plain_is_computed_of_each_round() -> None:
    rows = {"plain": {"runs/s": [2_000.0, 1_000.0]}, "awaken": {"runs/s": [1_700.0, 800.0]}}
    section = Section("server", rows)
    share_of_plain(section)
    assert section.rows["awaken"]["of plain"] == [0.85, 0.8]
    section.rows["agno"] = {"runs/s": [150.0]}
    share_of_plain(section)
    assert section.rows["agno"]["of plain"] == [0.1]


def test_the_table_of_statements_becomes_rows_of_its_version() -> None:
    section = Section("statements")
    text = """
| store | agent | statements | round trips | bytes |
|---|---|---|---|---|
| SQLite | plain | 19.0 | - | 1,600.5 |
| Postgres | plain | 12.5 | 9.0 | - |
"""
    for version in ("awaken", "awaken_before"):
        for found in read_statements(text):
            add_statements(section, version, found)
    assert section.rows["SQLite plain"] == {"statements": [19.0], "bytes": [1600.5]}
    assert section.rows["Postgres plain, before"] == {"statements": [12.5], "round trips": [9.0]}


def test_the_sentence_names_the_workloads_on_which_a_peer_is_cheaper() -> None:
    rows = {"awaken": {"W1": [0.2], "W2": [1.0]}, "agno": {"W1": [0.1], "W2": [2.0]}}
    told = page_goals.sentence(measured(micro=rows))
    assert "not the cheapest" in told
    assert "one turn (W1) (agno)" in told
    assert "ten tool rounds" not in told
    rows["awaken"]["W1"] = [0.05]
    assert "least CPU of all on each of the 2" in page_goals.sentence(measured(micro=rows))


def test_every_goal_is_of_a_section_that_is_measured() -> None:
    assert {goal.section for goal in (*GOALS, *KEPT)} <= set(SECTIONS)
