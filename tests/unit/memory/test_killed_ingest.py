"""A process that is killed while it ingests a PDF leaves the whole document, or nothing of it."""

import asyncio
from pathlib import Path

import pytest
from tests.forked_python import ForkedPython
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size, sampled

from awaken import AgentRuntime

from . import document_process
from .document_process import DOCS, make_store
from .test_documents import make_pdf

PAGES = [f"Page {number} is about tea{number}" for number in range(4)]
MOMENTS_MAX = 200


async def count_found(*place: str) -> tuple[int, int]:
    """How many documents are listed, and how many pages a search finds."""
    async with AgentRuntime(store=make_store(*place), has_worker=False) as runtime:
        listed = (await runtime.knowledge.list_documents(DOCS)).items
        found = [await runtime.knowledge.search(DOCS, f"tea{n}") for n in range(len(PAGES))]
        return len(listed), sum(map(len, found))


@sampled
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kill_at_any_statement_leaves_no_half_of_a_pdf(kind: str, tmp_path: Path) -> None:
    pdf = tmp_path / "a.pdf"
    pdf.write_bytes(make_pdf(*PAGES))
    step, seen = choose_size({"sqlite": 4, "postgres": 7}[kind], 1), set[tuple[int, int]]()
    for moment in range(1, MOMENTS_MAX, step):
        place = [str(tmp_path / f"{moment}.db")]
        if kind == "postgres":
            place = [server().url, new_schema()]
        process = ForkedPython(document_process.__file__, str(pdf), str(moment), *place)
        code = process.wait(60)
        assert code in (0, -9)
        seen.add(asyncio.run(count_found(*place)))
        if code == 0:
            break
    assert code == 0
    assert seen == {(0, 0), (1, len(PAGES))}
