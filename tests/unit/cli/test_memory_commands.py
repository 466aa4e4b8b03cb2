"""`awaken memory` and `awaken knowledge`: what they say of what they could not do, or left."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awaken import AgentRuntime
from awaken.cli.knowledge import app as knowledge
from awaken.cli.memory import app as memory
from awaken.contracts.evals.store import (
    EvalObjectSource,
    ObjectKind,
    encode_eval_object,
    open_eval_store,
)
from awaken.extensions.memory import FactSource, user_memory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWAKEN_STORE", f"sqlite:///{tmp_path / 'awaken.db'}")
    return tmp_path


def test_a_file_that_cannot_be_ingested_is_named_with_those_that_were(folder: Path) -> None:
    (folder / "tea.txt").write_text("Tea is hot.")
    (folder / "broken.pdf").write_bytes(b"no pdf")
    done = CliRunner().invoke(knowledge, ["add", "drinks", "tea.txt", "broken.pdf"])
    assert done.exit_code == 1
    assert "broken.pdf: it is no readable PDF" in done.output
    assert "(1 files before it were added)" in done.output
    assert "Tea is hot." in CliRunner().invoke(knowledge, ["search", "drinks", "tea"]).stdout


def test_every_document_of_a_collection_is_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.txt" for number in range(5)]
    for name in names:
        (folder / name).write_text(f"Document {name}.")
    CliRunner().invoke(knowledge, ["add", "drinks", *names])
    monkeypatch.setattr("awaken.cli.knowledge.PAGE", 2)
    listed = json.loads(CliRunner().invoke(knowledge, ["list", "drinks", "--json"]).stdout)
    assert [it["title"] for it in listed["items"]] == names


def test_forgetting_tells_of_transcripts_and_of_the_cases_made_from_them(folder: Path) -> None:
    async def remember() -> str:
        async with AgentRuntime(store=f"sqlite:///{folder}/awaken.db") as runtime:
            name, body = encode_eval_object({"said": "Ann drinks tea"})
            source = EvalObjectSource(hash=name, kind=ObjectKind.CASE, thread_id="t")
            await open_eval_store(runtime.store).put_eval_objects({name: body}, [source])
            owner = user_memory(None, "ann")
            said = FactSource(thread_id="t")
            (fact,) = await runtime.memory.remember(owner, ["Ann drinks tea"], said)
            return fact.id

    forgotten = CliRunner().invoke(memory, ["forget", asyncio.run(remember()), "--user", "ann"])
    assert "Forgotten: Ann drinks tea" in forgotten.stdout
    wanted = "Still in thread t, and 1 cases and recordings of evals were made from it"
    assert wanted in " ".join(forgotten.stdout.split())


def test_a_text_that_the_terminal_garbled_is_refused_and_not_shortened(folder: Path) -> None:
    done = CliRunner().invoke(memory, ["add", "caf\udce9", "--user", "ann"])
    assert done.exit_code == 2
    assert "no UTF-8" in done.output
    assert not (folder / "awaken.db").exists() or "caf" not in (
        CliRunner().invoke(memory, ["list", "--user", "ann"]).output
    )
