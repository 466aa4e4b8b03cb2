"""Datasets as folders: what is written reads back equal, and broken folders are refused by name."""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size

from awaken.contracts.config.publications import hash_object
from awaken.contracts.evals.cases import (
    Case,
    CaseTurn,
    Expectation,
    RequiredCall,
)
from awaken.contracts.evals.errors import CannotReplay, InvalidDataset
from awaken.contracts.evals.recordings import BYTES_MAX
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import ScriptedCall, ScriptedTurn, ToolPolicy, ToolStub
from awaken.contracts.messages.message import TokenUsage, user
from awaken.evals import Dataset, dataset_files, scorers
from awaken.evals.case_documents import read_case, write_case
from awaken.evals.dataset_files import DatasetFolder, read_folder, write_folder
from awaken.evals.dataset_writes import DatasetDocument
from awaken.evals.recording_files import decode_recording

SETTINGS = settings(
    # Shrinking such documents takes minutes and tells little more.
    max_examples=choose_size(30, 300),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True).filter(lambda it: set(it) != {"."})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
CALLS = st.builds(ScriptedCall, name=TEXTS, arguments=VALUES, id=st.none() | TEXTS)
USAGE = st.none() | st.builds(TokenUsage, total_tokens=st.none() | st.integers(0, 99))
TURNS = st.builds(
    ScriptedTurn,
    text=TEXTS,
    reasoning=st.just("") | TEXTS,
    calls=st.lists(CALLS, max_size=2).map(tuple),
    usage=USAGE,
    stop=st.none() | TEXTS,
    error=st.none() | TEXTS,
    retry_after_ms=st.none() | st.integers(0, 1 << 40),
)
SCRIPTS = st.lists(TURNS, max_size=3).map(tuple)
SCORERS = st.builds(ScorerSpec, scorer=TEXTS, options=st.dictionaries(TEXTS, VALUES, max_size=2))
CASES = st.builds(
    Case,
    id=NAMES,
    description=TEXTS,
    user_input=TEXTS,
    history=st.lists(TEXTS.map(user), max_size=2).map(tuple),
    state=st.dictionaries(TEXTS, VALUES, max_size=2),
    context=st.none() | st.dictionaries(TEXTS, VALUES, max_size=2),
    continued_turns=st.lists(
        st.builds(CaseTurn, user_input=TEXTS, provider_script=SCRIPTS), max_size=2
    ).map(tuple),
    provider_script=SCRIPTS,
    tools=st.none()
    | st.builds(
        ToolPolicy,
        stubs=st.dictionaries(
            TEXTS, st.builds(ToolStub, when=VALUES, result=VALUES).map(lambda it: (it,)), max_size=1
        ),
    ),
    expect=st.none()
    | st.builds(
        Expectation,
        final_answer_contains=st.lists(TEXTS, max_size=2).map(tuple),
        required_tool_calls=st.builds(RequiredCall, name=TEXTS, args_subset=VALUES).map(
            lambda it: (it,)
        ),
    ),
    scorers=st.lists(SCORERS, max_size=1).map(tuple),
    expected=VALUES,
    tags=st.lists(TEXTS, max_size=2).map(tuple),
    weight=st.floats(0.01, 100),
    metadata=st.dictionaries(TEXTS, VALUES, max_size=2),
)
DOCUMENTS = st.builds(
    DatasetDocument,
    description=TEXTS,
    scorers=st.lists(SCORERS, max_size=1).map(tuple),
    gate=st.none() | st.dictionaries(TEXTS, VALUES, max_size=2),
    cases=st.lists(CASES, max_size=4, unique_by=lambda it: it.id).map(
        lambda cases: tuple(sorted(cases, key=lambda it: it.id))
    ),
)


@given(DOCUMENTS)
@SETTINGS
def test_any_dataset_reads_back_equal_from_its_files(document: DatasetDocument) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder) / "set", DatasetFolder(document=document))
        assert read_folder(Path(folder) / "set").document == document


@given(CASES)
@SETTINGS
def test_any_case_reads_back_equal_from_its_wire_form(case: Case) -> None:
    assert read_case(json.loads(json.dumps(write_case(case))), "case") == case


RUST = {
    "id": "01_greeting",
    "description": "Says hello",
    "user_input": "hello",
    "provider_script": [
        {"kind": "tool_call", "id": "c1", "name": "lookup", "arguments": {"q": 1},
         "tokens": {"prompt_tokens": 3, "total_tokens": 3}},
        {"kind": "error", "error_type": "rate_limit", "message": "slow down"},
        {"kind": "chat_response", "content": "Hi", "tokens": {"total_tokens": 9},
         "finish_reason": "end_turn"},
    ],
    "expect": {
        "final_answer_contains": ["Hi"],
        "tool_sequence": ["lookup"],
        "tool_sequence_mode": "ordered_subseq",
        "required_tool_calls": [
            {"name": "lookup", "args_subset": {"q": 1}, "count": {"op": "exactly", "n": 1}}
        ],
        "max_tokens_total": 50,
    },
    "continued_turns": [
        {"user_input": "more", "provider_script": [{"kind": "chat_response", "content": "Yes"}]}
    ],
}  # fmt: skip


def write_json(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def test_a_folder_of_rust_fixtures_is_read_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path, "b.json", RUST)
    old = {"id": "00_old", "user_input": "hi", "mock_response": {"kind": "text", "text": "12345"}}
    write_json(tmp_path, "a.json", old | {"expect": {}})
    write_json(tmp_path, ".hidden.json", {"broken": True})
    (tmp_path / "README.md").write_text("Not a fixture")
    found = read_folder(tmp_path)
    assert found.is_rust
    first, second = found.document.cases
    assert (first.id, second.id) == ("00_old", "01_greeting")
    (answer,) = first.provider_script
    # As Rust estimates them: one token of four characters.
    usage = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    assert (answer.text, answer.usage) == ("12345", usage)
    call, error, reply = second.provider_script
    assert call.calls == (ScriptedCall(name="lookup", arguments={"q": 1}, id="c1"),)
    assert (error.error, error.text) == ("rate_limit", "slow down")
    assert (reply.text, reply.stop) == ("Hi", "end_turn")
    assert write_case(second)["provider_script"] == RUST["provider_script"]
    assert write_case(second) == RUST


def test_parallel_calls_are_a_turn_of_their_own() -> None:
    calls = (ScriptedCall(name="a", id="1"), ScriptedCall(name="b", id="2"))
    case = Case(id="x", user_input="", provider_script=(ScriptedTurn(text="Both", calls=calls),))
    (event,) = write_case(case)["provider_script"]
    assert event["kind"] == "turn"
    assert read_case(write_case(case), "case") == case


def test_what_is_saved_is_loaded_with_its_gate_scorers_and_recordings(tmp_path: Path) -> None:
    data = b'{"run": {}}'
    saved = Dataset(
        cases=(Case(id="a", user_input="hi", recording=hash_object(data)),),
        id="late-parcels",
        scorers=(scorers.contains("yes"),),
        gate={"require": [{"scorer": "contains", "min_rate": 1.0}]},
        recordings={hash_object(data): data},
    )
    saved.save(tmp_path / "late-parcels")
    assert Dataset.load(tmp_path / "late-parcels") == saved
    with pytest.raises(InvalidDataset, match="no such folder"):
        Dataset.load(str(tmp_path / "nothing"))


def test_case_ids_that_are_no_good_file_names_are_kept(tmp_path: Path) -> None:
    ids = (".hidden", "A", "a", "x.yaml", "-")
    cases = tuple(Case(id=it, user_input=it) for it in sorted(ids))
    write_folder(tmp_path, DatasetFolder(document=DatasetDocument(cases=cases)))
    assert read_folder(tmp_path).document.cases == cases
    names = [it.name.lower() for it in (tmp_path / "cases").iterdir()]
    assert len(names) == len(set(names)) == len(ids)


def test_recordings_come_along_and_must_be_what_their_names_say(tmp_path: Path) -> None:
    data = b'{"run": {}}'
    name = hash_object(data)
    case = Case(id="a", user_input="", recording=name)
    content = DatasetFolder(document=DatasetDocument(cases=(case,)), recordings={name: data})
    assert write_folder(tmp_path, content) == (
        "cases/a.yaml", "dataset.yaml", f"recordings/{name}.json.gz",
    )  # fmt: skip
    assert read_folder(tmp_path) == content
    assert write_folder(tmp_path, content) == ()
    path = tmp_path / "recordings" / f"{name}.json.gz"
    path.write_bytes(gzip.compress(b"other"))
    with pytest.raises(InvalidDataset, match="it was changed"):
        read_folder(tmp_path)
    path.write_bytes(gzip.compress(b" " * (BYTES_MAX + 10)))
    with pytest.raises(InvalidDataset, match="more than"):
        read_folder(tmp_path)
    path.write_bytes(b"no gzip")
    with pytest.raises(InvalidDataset, match="cannot be read"):
        read_folder(tmp_path)
    path.write_bytes(gzip.compress(data)[:-6])
    with pytest.raises(InvalidDataset, match="it was changed"):
        read_folder(tmp_path)


def test_files_of_removed_cases_go_and_others_stay(tmp_path: Path) -> None:
    both = DatasetDocument(cases=(Case(id="a", user_input="1"), Case(id="b", user_input="2")))
    write_folder(tmp_path, DatasetFolder(document=both))
    (tmp_path / "README.md").write_text("Mine")
    (tmp_path / "cases" / "notes.txt").write_text("Mine")
    one = DatasetDocument(cases=both.cases[:1])
    assert write_folder(tmp_path, DatasetFolder(document=one)) == ("cases/b.yaml",)
    assert read_folder(tmp_path).document == one
    assert (tmp_path / "cases" / "notes.txt").exists()
    assert (tmp_path / "README.md").exists()


def test_a_folder_with_something_else_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print()")
    with pytest.raises(InvalidDataset, match="empty folder"):
        write_folder(tmp_path, DatasetFolder(document=DatasetDocument()))
    assert [it.name for it in tmp_path.iterdir()] == ["main.py"]


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{no}: &a{no} [{', '.join([f'*a{no - 1}'] * 10)}]" for no in range(1, 12)]
    return "\n".join([*lines, "id: bomb", "user_input: *a11"])


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("cases/a.yaml", "id: a\nuser_input: [", r"cases/a.yaml.*line"),
        ("cases/a.yaml", "id: a\nuser_input: x\ncolour: red", r"cases/a.yaml.*'a'.*colour"),
        ("cases/a.yaml", "id: a\nuser_input: x\nexpect: {colour: 1}", r"\$\.expect"),
        ("cases/a.yaml", "id: ..\nuser_input: x", r"letters, digits"),
        ("cases/a.yaml", "id: a\nuser_input: x\nweight: .nan", r"positive"),
        ("cases/a.yaml", "id: a\nuser_input: x\nweight: -1", r"positive"),
        ("cases/a.yaml", "- 1", r"object with fields"),
        ("cases/a.yaml", "", r"object with fields"),
        ("cases/a.yaml", bomb(), r"values, or contains itself"),
        ("cases/a.yaml", "id: &x [*x]", r"itself|line"),
        ("cases/a.yaml", "!!python/object/apply:os.system ['true']", r"line|tag"),
        ("cases/a.yaml", b"id: a\nuser_input: \xff\xfe\xfa", r"cases/a.yaml"),
        ("cases/a.json", b'{"id": "a", "user_input": "\xff"}', r"cases/a.json"),
        ("cases/a.json", b'{"id": "a", "user_input": "x", "weight": NaN}', r"malformed"),
        ("cases/a.json", b'{"id": "a", ' + b'"x": [' * 5000, r"cases/a.json"),
        ("cases/a.yaml", b"#" * (5 * 1024 * 1024), r"larger than"),
        ("dataset.yaml", "format: dataset/9", r"dataset.yaml.*dataset/9"),
        ("dataset.yaml", "scorers: {a: 1}", r"dataset.yaml.*scorers"),
        (
            "cases/a.json",
            json.dumps({"id": "a", "user_input": "", "provider_script": [{"kind": "boom"}]}),
            r"event 1.*boom",
        ),
        ("cases/a.yaml", "id: a\nuser_input: x\nrecording: ../../etc/passwd", r"no hash"),
    ],
)
def test_a_broken_file_is_refused_by_its_name(
    tmp_path: Path, name: str, content: str | bytes, problem: str
) -> None:
    (tmp_path / "cases").mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidDataset, match=problem):
        read_folder(tmp_path)


def test_a_duplicate_id_names_both_files(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_json(tmp_path, name, {"id": "same", "user_input": "x"})
    with pytest.raises(InvalidDataset, match=r"'b\.json': case id 'same' is in 'a\.json'"):
        read_folder(tmp_path)


def test_a_sparse_file_of_100_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    with (tmp_path / "cases" / "a.yaml").open("wb") as opened:
        opened.truncate(100 * 1024 * 1024)
    with pytest.raises(InvalidDataset, match="larger than"):
        read_folder(tmp_path)


@pytest.mark.parametrize("link", ["dataset.yaml", "cases", "cases/a.yaml", "recordings"])
def test_symbolic_links_are_refused(tmp_path: Path, link: str) -> None:
    name = hash_object(b"{}")
    folder, outside = tmp_path / "set", tmp_path / "outside"
    (folder / "cases").mkdir(parents=True)
    (folder / "cases" / "b.yaml").write_text(f"id: b\nuser_input: x\nrecording: {name}")
    outside.mkdir()
    (outside / "a.yaml").write_text("id: a\nuser_input: secret")
    path = folder / link
    if link == "cases":
        (folder / "cases" / "b.yaml").unlink()
        path.rmdir()
    path.symlink_to(outside / "a.yaml" if link.endswith("yaml") else outside)
    with pytest.raises(InvalidDataset, match="symbolic link"):
        read_folder(folder)


def test_a_folder_without_cases_or_none_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataset, match="no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(InvalidDataset, match="neither"):
        read_folder(tmp_path)


def test_ten_thousand_cases_are_read_in_bounded_time_and_one_more_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "cases").mkdir()
    for no in range(10_000):
        (tmp_path / "cases" / f"c{no:05}.json").write_text(f'{{"id":"c{no}","user_input":"{no}"}}')
    assert len(read_folder(tmp_path).document.cases) == 10_000
    (tmp_path / "cases" / "more.json").write_text('{"id":"more","user_input":""}')
    with pytest.raises(InvalidDataset, match="more than 10000 files"):
        read_folder(tmp_path)


def test_a_case_in_a_folder_below_is_refused_and_not_left_out(tmp_path: Path) -> None:
    below = tmp_path / "cases" / "more"
    below.mkdir(parents=True)
    (below / "a.yaml").write_text("id: a\nuser_input: hi\n", encoding="utf-8")
    with pytest.raises(InvalidDataset, match="more"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "id: a\nuser_input: hi\nuser_input: other\n",
        "id: a\nuser_input: hi\nexpect: {final_answer_contains: [a], final_answer_contains: [b]}\n",
        'id: a\nuser_input: hi\n"tags": [x]\ntags: [y]\n',
    ],
)
def test_a_key_that_is_there_twice_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidDataset, match="is there twice"):
        read_folder(tmp_path)


def test_recordings_of_a_folder_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {hash_object(it): it for it in (b"[%d]" % no + b" " * 100 for no in range(3))}
    cases = tuple(
        Case(id=f"c{no}", user_input="", recording=name) for no, name in enumerate(bodies)
    )
    content = DatasetFolder(document=DatasetDocument(cases=cases), recordings=bodies)
    write_folder(tmp_path, content)
    monkeypatch.setattr(dataset_files, "RECORDINGS_BYTES_MAX", sum(map(len, bodies.values())))
    assert read_folder(tmp_path) == content
    monkeypatch.setattr(dataset_files, "RECORDINGS_BYTES_MAX", 250)
    with pytest.raises(InvalidDataset, match="its recordings have more than 250 bytes together"):
        read_folder(tmp_path)


def test_a_recording_that_is_nested_too_deep_is_refused_as_damaged() -> None:
    data = b'{"format": "recording/1", "run": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(CannotReplay, match="it is damaged"):
        decode_recording(data)
