"""`awaken demo crash`: a worker dies inside a tool, and the order is charged once all the same."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.forked_python import run_python

from awaken.demo.crash import CrashStory


def demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "awaken", "demo", "crash", *options, env={"TMPDIR": str(tmp_path)})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str]:
    """The report of one demo that kept its folder, and what it told people."""
    done = demo(tmp_path_factory.mktemp("demo"), "--json", "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    return msgspec.json.decode(done.stdout), done.stderr


def test_the_run_is_finished_by_another_worker_and_its_effect_is_there_once(
    kept: tuple[Any, str],
) -> None:
    report, _ = kept
    assert report["is_good"]
    assert report["answer"] == "Done: order-1 is charged."
    assert report["effects"] == ["order-1"]
    folder = Path(report["folder"])
    assert (folder / "effects.txt").read_text("utf-8") == "order-1\n"
    assert (folder / "awaken.db").is_file()


def test_people_see_what_happens_in_order(kept: tuple[Any, str]) -> None:
    _, told = kept
    marks = ["is queued", "takes it", "written its line", "SIGKILL", "lease", "is done", "1 line"]
    places = [told.index(mark) for mark in marks]
    assert places == sorted(places)


def test_nothing_is_left_unless_it_is_asked_for(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the order was charged once" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "effects", "is_good"),
    [
        ("Done: order-1 is charged.", ("order-1",), True),
        ("Done: order-1 is charged.", ("order-1", "order-1"), False),
        ("Done: order-1 is charged.", (), False),
        ("Done: nobody knows.", ("order-1",), False),
        (None, ("order-1",), False),
    ],
)
def test_only_a_finished_run_and_one_effect_are_good(
    answer: str | None, effects: tuple[str, ...], is_good: bool
) -> None:
    assert CrashStory(folder="", answer=answer, effects=effects).is_good is is_good
