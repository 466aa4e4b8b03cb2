"""A sample that died in a tool with an effect does not execute it again when it is taken over."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .eval_effects import create_eval, finish_eval
from .eval_kills import use_store

SAMPLES = 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("on_postgres", [False, True], ids=["sqlite", "postgres"])
def test_an_effect_of_a_sample_happens_once_though_its_process_dies_in_it(
    tmp_path: Path, on_postgres: bool
) -> None:
    with use_store(on_postgres=on_postgres) as given:
        url = given or f"sqlite:///{tmp_path / 'store.db'}"
        eval_id = asyncio.run(create_eval(url, tmp_path, SAMPLES))
        command = [sys.executable, "-m", "tests.torture.eval_effects", url, str(tmp_path)]
        doomed = subprocess.run(command, timeout=120, check=False)
        assert doomed.returncode == -signal.SIGKILL
        (lost,) = (tmp_path / "sent.log").read_text().split("\n")[:-1]
        items = asyncio.run(finish_eval(url, tmp_path, eval_id))
    sent = (tmp_path / "sent.log").read_text().splitlines()
    assert sorted(sent) == [f"to {no}" for no in range(SAMPLES)]
    assert {it.case_id: it.status for it in items} == dict.fromkeys(
        [f"c{no}" for no in range(SAMPLES)], "scored"
    )
    # The model reads that nobody knows whether the letter was sent.
    failed = {it.case_id for it in items if it.failed_calls}
    assert failed == {f"c{lost.removeprefix('to ')}"}
