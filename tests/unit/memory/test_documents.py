"""Documents: read, cut along their structure, found with source and position, replaced whole."""

import asyncio
import io
import os
import re
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.server import server
from tests.postgres.stores import opened

from awaken import AgentRuntime
from awaken.errors import (
    EmbeddingFailed,
    InvalidInput,
    MemoryFull,
    UnknownDocument,
    UnreadableDocument,
)
from awaken.extensions.memory import (
    DocumentDraft,
    DocumentFormat,
    FactSource,
    MemoryLimits,
    knowledge_collection,
    user_memory,
)
from awaken.memory import pdf_process
from awaken.memory.documents import KnowledgeBase
from awaken.memory.fusion import fuse_rankings
from awaken.memory.passages import cut_markdown, cut_text
from awaken.memory.pdf_text import PdfReader
from awaken.memory.terms import query_terms, split_terms
from awaken.testing.store_conformance import MEMORY_CHECKS

DOCS = knowledge_collection("acme", "docs")
ROOT = Path(__file__).parents[3]
MARKDOWN = """# Handbook

Welcome.

## Leave

Parental leave is paid.

```python
def leave():
    return "# not a heading"
```

| kind | days |
|---|---|
| sick | 10 |

### Abroad

Ask first.
"""


def make_pdf(*pages: str, cmap: str = "") -> bytes:
    """A PDF with a text layer, as small as one can be; `cmap` says what its characters mean."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        meaning = f" /ToUnicode {3 + 2 * len(pages)} 0 R" if cmap else ""
        font = f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica{meaning} >>"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 {font} >> >> /Contents {4 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    if cmap:
        objects.append(f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream")
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode())
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    for place in places:
        out.write(f"{place:010d} 00000 n \n".encode())
    root = f"<< /Size {len(objects) + 1} /Root 1 0 R >>"
    out.write(f"trailer\n{root}\nstartxref\n{start}\n%%EOF".encode())
    return out.getvalue()


PDF_OF_TWO = DocumentDraft(data=make_pdf("a", "b"), format=DocumentFormat.PDF)


def on_runtime(scenario: Any, **options: Any) -> None:
    async def run() -> None:
        async with AgentRuntime(**options) as runtime:
            await scenario(runtime)

    asyncio.run(run())


def test_markdown_is_cut_at_its_headings_and_keeps_its_blocks_whole() -> None:
    found = list(cut_markdown(MARKDOWN, 200))
    assert [it.heading for it in found] == [
        "Handbook",
        "Handbook > Leave",
        "Handbook > Leave > Abroad",
    ]
    assert "# not a heading" in found[1].text
    assert "| sick | 10 |" in found[1].text
    assert all(MARKDOWN[it.start :].startswith(it.text) for it in found)


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_no_character_of_a_text_is_lost_and_no_passage_is_too_long(size: int) -> None:
    text = "One two. Three four!\n\nFive\nsix seven " + "x" * 90 + "\n\n" + "word " * 40
    found = list(cut_text(text, size))
    assert "".join("".join(it.text.split()) for it in found) == "".join(text.split())
    assert all(len(it.text) <= size for it in found)
    assert all(text[it.start :].startswith(it.text) for it in found)
    rejoined = "".join("".join(it.text.split()) for it in cut_markdown(text, size))
    assert rejoined == "".join(text.split())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_read_as_programs_save_it(encoding: str) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        draft = DocumentDraft(data="Grüner Tee\r\nist heiß.".encode(encoding), source="tee.txt")
        assert (await runtime.knowledge.ingest(DOCS, draft)).chars == 20
        (found,) = await runtime.knowledge.search(DOCS, "grüner")
        assert found.text == "Grüner Tee\nist heiß."

    on_runtime(scenario)


def test_only_the_blocks_of_a_markdown_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    from markdown_it.parser_inline import ParserInline  # noqa: PLC0415

    def parse(*_: Any) -> None:
        # A hundred thousand times `![` takes many seconds, in which nothing else executes.
        raise AssertionError

    monkeypatch.setattr(ParserInline, "parse", parse)
    (only,) = cut_markdown("# A *title*\n\n![ ![ [link](", 100)
    assert (only.heading, only.text) == ("A *title*", "# A *title*\n\n![ ![ [link](")


def test_a_passage_is_found_with_its_source_and_position() -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        draft = DocumentDraft(data=MARKDOWN, format=DocumentFormat.MARKDOWN, source="handbook.md")
        document = await runtime.knowledge.ingest(DOCS, draft)
        (found, *_) = await runtime.knowledge.search(DOCS, "Is PARENTAL leave paid?")
        assert (found.document_id, found.source, found.position) == (document.id, "handbook.md", 1)
        assert found.heading == "Handbook > Leave"
        assert MARKDOWN[found.start :].startswith(found.text[:20])
        again = await runtime.knowledge.ingest(DOCS, draft)
        assert (again.id, again.chunks) == (document.id, document.chunks)
        assert len((await runtime.knowledge.list_documents(DOCS)).items) == 1
        assert await runtime.knowledge.delete(DOCS, document.id) == again
        assert await runtime.knowledge.search(DOCS, "parental") == ()
        with pytest.raises(UnknownDocument):
            await runtime.knowledge.delete(DOCS, document.id)

    on_runtime(scenario)


def make_page_of_operators(count: int) -> bytes:
    """A small file whose one page takes a parser very long, and much memory."""
    content = zlib.compress(b"BT /F1 12 Tf 1 0 0 1 10 100 Tm (A) Tj ET\n" * count, 9)
    plain = make_pdf("x")
    start, end = plain.index(b"stream\n") + len(b"stream\n"), plain.index(b"endstream")
    head = re.sub(rb"/Length \d+", b"/Length %d /Filter /FlateDecode" % len(content), plain[:start])
    return head + content + b"\n" + plain[end:]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"pdf_ms": 2_000}, "within 2000 ms|time or memory"),
        ({"pdf_memory_bytes": 80_000_000, "pdf_ms": 20_000}, "memory"),
    ],
)
def test_a_pdf_that_takes_too_much_ends_with_its_process(
    limits: dict[str, int], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def start_process(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        assert all(it.returncode is not None for it in started), "one at a time"
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_process)

    async def scenario() -> None:
        reader = PdfReader(MemoryLimits(**limits))
        data = make_page_of_operators(400_000)
        assert len(data) < 200_000
        two = await asyncio.gather(reader.read(data), reader.read(data), return_exceptions=True)
        for error in two:
            assert isinstance(error, UnreadableDocument)
            assert re.search(problem, str(error))
        assert [it.returncode is not None for it in started] == [True, True]
        # It reads on; on a busy machine a process needs more than the limit to begin.
        reader._limits = MemoryLimits()
        assert await reader.read(make_pdf("Still reading"))

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_process_that_reads_a_pdf_has_no_secrets_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    start = asyncio.create_subprocess_exec

    async def start_process(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        seen.append(options["env"])
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_process)
    monkeypatch.setenv("VENDOR_KEY", "secret")
    assert asyncio.run(PdfReader(MemoryLimits()).read(make_pdf("Tea")))
    assert [set(it) for it in seen] == [{"PYTHONPATH"}]


def test_the_text_layer_of_a_pdf_is_found_by_its_page() -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        data = make_pdf("The first page is about tea", "The second page is about coffee")
        draft = DocumentDraft(data=data, format=DocumentFormat.PDF, source="a.pdf")
        assert (await runtime.knowledge.ingest(DOCS, draft)).chunks == 2
        (found,) = await runtime.knowledge.search(DOCS, "coffee")
        assert (found.page, found.position) == (2, 1)

    on_runtime(scenario)


def test_halves_of_characters_that_a_font_names_do_not_make_a_pdf_unreadable() -> None:
    cmap = "1 begincodespacerange\n<00> <FF>\nendcodespacerange\n2 beginbfchar\n"
    cmap += "<41> <D83D>\n<42> <DE00>\nendbfchar"
    pages = asyncio.run(PdfReader(MemoryLimits()).read(make_pdf("AB tea A", cmap=cmap)))
    assert pages == ["\U0001f600 tea \ufffd"]


def test_a_pdf_whose_cipher_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pypdf  # noqa: PLC0415

    def need_ciphers(*_: Any) -> None:
        raise pypdf.errors.DependencyError

    writer, data = pypdf.PdfWriter(), io.BytesIO()
    writer.add_blank_page(9, 9)
    writer.encrypt("", "owner", algorithm="RC4-128")
    writer.write(data)
    monkeypatch.setattr(pypdf.PdfReader, "decrypt", need_ciphers)
    assert "awaken[secrets]" in pdf_process._read_text(data.getvalue(), 9, 99)["problem"]


@pytest.mark.parametrize(
    ("draft", "limits", "problem"),
    [
        (DocumentDraft(data=""), {}, "no text"),
        (DocumentDraft(data=b"\xff\xfe\xfd"), {}, "UTF-8"),
        (DocumentDraft(data="x" * 50), {"document_bytes": 40}, "50 bytes"),
        (DocumentDraft(data="x" * 50), {"document_chars": 40}, "50 characters"),
        (DocumentDraft(data=b"%PDF-nonsense", format=DocumentFormat.PDF), {}, "no readable PDF"),
        (PDF_OF_TWO, {"pdf_pages": 1}, "2 pages"),
        (DocumentDraft(data=make_pdf(""), format=DocumentFormat.PDF), {}, "no text layer"),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_read_is_refused(
    draft: DocumentDraft, limits: dict[str, int], problem: str
) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        with pytest.raises(UnreadableDocument, match=problem):
            await runtime.knowledge.ingest(DOCS, draft)

    on_runtime(scenario, memory_limits=MemoryLimits(**limits))


def test_a_collection_that_is_full_keeps_the_document_that_it_has() -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        await runtime.knowledge.ingest(DOCS, DocumentDraft(data="tea", id="d"))
        with pytest.raises(MemoryFull):
            await runtime.knowledge.ingest(DOCS, DocumentDraft(data="word " * 100, id="d"))
        (found,) = await runtime.knowledge.search(DOCS, "tea")
        assert found.document_id == "d"

    on_runtime(scenario, memory_limits=MemoryLimits(chunks_per_collection=3, chunk_chars=20))


def test_a_document_of_too_many_passages_is_refused_before_anything_is_paid_for() -> None:
    async def main() -> None:
        limits = MemoryLimits(chunks_per_collection=3)
        # Neither an engine nor an embedding model is there to be asked.
        nothing: Any = None
        base = KnowledgeBase(nothing, nothing, nothing, limits)
        draft = DocumentDraft(data="# a\n" * 4, format=DocumentFormat.MARKDOWN, id="d")
        with pytest.raises(MemoryFull):
            await base.ingest(DOCS, draft)

    asyncio.run(main())


def test_words_are_split_alike_in_every_script() -> None:
    assert split_terms("Ann's CAFÉS, parties & glasses_2") == (
        "ann", "s", "cafe", "party", "glasse", "2",
    )  # fmt: skip
    assert split_terms("東京都 2026") == ("東京", "京都", "東", "京", "都", "2026")
    assert query_terms("東京都 2026 茶") == ("東京", "京都", "2026", "茶")
    assert split_terms("\" OR * NEAR( ) -- '; {} ^ :") == ("or", "near")
    assert len(query_terms(" ".join(f"w{n}" for n in range(99)))) == 32


def test_rankings_are_fused_by_their_places() -> None:
    assert fuse_rankings([["a", "b", "c"], ["c", "b"]], 9) == ["c", "b", "a"]
    assert fuse_rankings([["a"], []], 9) == ["a"]


class Directions:
    """An embedding model that knows the meaning of three words."""

    model = "directions/2"

    def __init__(self) -> None:
        self.is_broken = False

    async def embed(self, texts: Any) -> list[bytes]:
        from array import array  # noqa: PLC0415

        if self.is_broken:
            raise EmbeddingFailed(problem="it is broken")
        known = {"beverage": (1, 0), "espresso": (0.9, 0.1), "feline": (0, 1), "cat": (0.1, 0.9)}
        found = [next((v for k, v in known.items() if k in it.lower()), (0.5, 0.5)) for it in texts]
        return [array("f", it).tobytes() for it in found]

    async def close(self) -> None:
        return None


def test_with_embeddings_a_fact_is_found_by_its_meaning_and_without_them_by_its_words() -> None:
    embedder, ann = Directions(), user_memory("acme", "ann")

    async def scenario(runtime: AgentRuntime) -> None:
        await runtime.memory.remember(ann, ["Has a cat", "Likes espresso"], FactSource())
        (first, *_) = await runtime.memory.search(ann, "which beverage?")
        assert (first.fact.text, first.is_lexical, first.is_similar) == (
            "Likes espresso", False, True,
        )  # fmt: skip
        embedder.is_broken = True
        assert await runtime.memory.search(ann, "which beverage?") == ()
        await runtime.memory.remember(ann, ["Drinks a beverage"], FactSource())
        (found,) = await runtime.memory.search(ann, "beverages")
        assert (found.is_lexical, found.is_similar) == (True, False)

    on_runtime(scenario, embeddings=embedder)


def test_postgres_compares_vectors_where_the_extension_is() -> None:
    async def run() -> None:
        await server().sql("CREATE EXTENSION IF NOT EXISTS vector")
        async with opened(connect_timeout_ms=30_000) as store:
            engine = store.open_memory()
            assert (await engine.read_vector_support()).is_there
            checks = {check.__name__: check for check in MEMORY_CHECKS}
            await checks["a_vector_search_finds_the_nearest"](engine)
        async with opened(connect_timeout_ms=30_000) as store:
            await checks["partitions_have_nothing_in_common"](store.open_memory())

    asyncio.run(run())


LOADING_PYTHON = "/usr/bin/python3"
VECTOR_CHECKS = """
import asyncio, sys, tempfile
from pathlib import Path
from awaken.stores.sqlite.store import SqliteStore
from awaken.testing.store_conformance.memory_items import CHECKS

async def main():
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "a.db")
            await store.open()
            engine = store.open_memory()
            support = await engine.read_vector_support()
            assert support.is_there, support.reason
            await check(engine)
            await store.close()
    print("compared", len(CHECKS))

asyncio.run(main())
"""


def find_loading_python() -> str | None:
    """Why no Python of this machine can load extensions with this installation, or None."""
    if not os.path.exists(LOADING_PYTHON):
        return f"{LOADING_PYTHON} does not exist"
    asked = (
        "import sqlite3, sys; sqlite3.connect(':memory:').enable_load_extension;"
        " print(sys.version_info[:2])"
    )
    found = subprocess.run(
        [LOADING_PYTHON, "-c", asked], capture_output=True, text=True, check=False
    )
    if found.stdout.strip() != str(sys.version_info[:2]):
        return f"{LOADING_PYTHON} loads no extensions, or is another version"
    return None


def test_sqlite_compares_vectors_where_python_loads_extensions() -> None:
    if (reason := find_loading_python()) is not None:
        pytest.skip(reason)
    paths = [str(ROOT / "src"), sysconfig.get_paths()["purelib"]]
    done = subprocess.run(
        [LOADING_PYTHON, "-c", VECTOR_CHECKS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.startswith("compared"), done.stderr[-2000:]


@pytest.mark.parametrize("letter", ["e", "é", "\uff45"])
def test_a_long_text_is_kept_whole_without_its_secrets(letter: str) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    lines = [f"{letter * 60} line{number}." for number in range(20_000)]
    # Also where a piece of the text ends that is searched at once.
    lines[2_900:3_200:3] = [f"The key is {key} here." for _ in range(100)]
    text = "\n".join([*lines, "The last word is ARMADILLO."])

    async def run() -> None:
        async with AgentRuntime() as runtime:
            place = knowledge_collection("acme", "books")
            made = await runtime.knowledge.ingest(place, DocumentDraft(data=text, id="d"))
            assert made.chars > 1_200_000
            for word in ("ARMADILLO", "line19999", "line5000"):
                found = await runtime.knowledge.search(place, word)
                assert word in found[0].text
            found = await runtime.knowledge.search(place, "key", limit=100)
            assert found
            assert not any(key in it.text for it in found)

    asyncio.run(run())


def test_a_text_is_no_list_of_facts() -> None:
    async def run() -> None:
        async with AgentRuntime() as runtime:
            with pytest.raises(InvalidInput, match="a list of texts"):
                await runtime.memory.remember(user_memory(None, "ann"), "tea", FactSource())

    asyncio.run(run())
