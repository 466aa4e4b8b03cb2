"""Datasets in folders: `dataset.yaml`, `cases/*.yaml|json`, `recordings/*.json.gz`.

A folder of Rust fixtures, `*.json` beside each other, is read as it is. Symbolic links are refused,
and nothing that a file says becomes a path. Everything is checked before the first file is written.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.recordings import BYTES_MAX
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.record import Record, StrictRecord
from awaken.services.document_files import decode_document, format_document, read_bytes

from .case_documents import read_case, write_case
from .dataset_writes import CASES_MAX, DatasetDocument

HEAD = "dataset.yaml"
CASES = "cases"
RECORDINGS = "recordings"
FORMAT = "dataset/1"
TOTAL_BYTES_MAX = 256 * 1024 * 1024
"""How much the cases of a folder may have together."""
RECORDINGS_BYTES_MAX = 512 * 1024 * 1024
"""How much the recordings of a folder may have together, unpacked."""
RECORDING_TAIL = ".json.gz"
_DOCUMENTS = (".yaml", ".yml", ".json")
_HASH = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)


class DatasetFolder(Record, frozen=True, kw_only=True):
    """A dataset as files: what it says, and the recordings of its cases by hash."""

    document: DatasetDocument
    recordings: dict[str, bytes] = {}  # noqa: RUF012 - msgspec copies an empty default
    is_rust: bool = False
    """Whether it was read from fixtures of Awaken for Rust."""


class _Head(StrictRecord, frozen=True, kw_only=True):
    """The file `dataset.yaml`."""

    format: str = FORMAT
    description: str = ""
    scorers: tuple[ScorerSpec, ...] = ()
    gate: dict[str, Any] | None = None


def read_folder(folder: Path) -> DatasetFolder:
    """Read a dataset from a folder.

    Raises:
        InvalidDataset: There is none, or a file is broken, too large or a symbolic link; names the
            file and the field.
    """
    if not folder.is_dir():
        raise _refuse(folder, "there is no such folder")
    if not (folder / HEAD).exists() and not (folder / CASES).exists():
        document = DatasetDocument(cases=_read_cases(folder, folder, (".json",)))
        if not document.cases:
            raise _refuse(folder, f"it has neither {HEAD} nor *.json with fixtures")
        return DatasetFolder(document=document, is_rust=True)
    head = _read_head(folder)
    cases = _read_cases(folder, folder / CASES, _DOCUMENTS)
    document = DatasetDocument(
        description=head.description, scorers=head.scorers, gate=head.gate, cases=cases
    )
    named = {it.recording: it.id for it in cases if it.recording is not None}
    return DatasetFolder(document=document, recordings=_read_recordings(folder, named))


def write_folder(folder: Path, content: DatasetFolder) -> tuple[str, ...]:
    """Write a dataset into a folder, and remove files of cases that it has no more.

    Returns the names of the files that changed. Reading the folder gives an equal dataset.

    Raises:
        InvalidDataset: The folder holds something else, or a symbolic link; nothing was written.
        OSError: A file could not be written; it has its old or its new contents.
    """
    _check_target(folder)
    files = dict(_render(content))
    stale = [it for it in _list_written(folder) if it not in files]
    for part in (CASES, RECORDINGS):
        if any(name.startswith(f"{part}/") for name in files):
            (folder / part).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    changed = [name for name, data in files.items() if _write_file(folder / name, data)]
    for name in stale:
        (folder / name).unlink()
    return tuple(sorted([*changed, *stale]))


def _render(content: DatasetFolder) -> Iterator[tuple[str, bytes]]:
    document = content.document
    head = _Head(description=document.description, scorers=document.scorers, gate=document.gate)
    body = {"format": FORMAT} | msgspec.json.decode(msgspec.json.encode(head))
    tail, data = _encode_document(body, HEAD)
    if tail not in HEAD:
        raise InvalidDataset(what=f"file '{HEAD}'", problem="its contents have no YAML form")
    yield HEAD, data
    taken: set[str] = set()
    for case in document.cases:
        tail, data = _encode_document(write_case(case), f"case '{case.id}'")
        yield f"{CASES}/{_choose_name(case.id, taken)}{tail}", data
    for name, data in content.recordings.items():
        if not _HASH.fullmatch(name):
            raise InvalidDataset(what=f"recording '{name:.80}'", problem="its name is no hash")
        yield f"{RECORDINGS}/{name}{RECORDING_TAIL}", gzip.compress(data, 6, mtime=0)


def _choose_name(case_id: str, taken: set[str]) -> str:
    """Return a file name for a case; files whose names differ in case only may be one file."""
    name = case_id
    if not _NAME.fullmatch(name) or name.lower() in taken:
        name = f"case-{hash_object(case_id.encode())}"
    taken.add(name.lower())
    return name


def _encode_document(document: dict[str, Any], what: str) -> tuple[str, bytes]:
    """Return a document as YAML, or as JSON if YAML would not give it back; and its file's tail."""
    try:
        text = format_document(document).encode()
        if decode_document(text, "case.yaml") == document:
            return ".yaml", text
    except (InvalidSpec, UnicodeEncodeError):
        pass
    try:
        data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        msgspec.json.decode(data)
    except (TypeError, ValueError) as error:
        raise InvalidDataset(what=what, problem=f"it has no JSON form: {error}") from error
    return ".json", data


def _write_file(path: Path, data: bytes) -> bool:
    """Replace a file as a whole, if it differs."""
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return False
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return True


def _check_target(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise _refuse(folder, "it is no folder")
    for part in (HEAD, CASES, RECORDINGS):
        if (folder / part).is_symlink():
            raise _refuse(folder / part, "it is a symbolic link")
    is_other = not (folder / HEAD).exists() and any(
        not it.name.startswith(".") for it in folder.iterdir()
    )
    if is_other:
        raise _refuse(folder, f"it has files and no {HEAD}; give an empty folder")


def _list_written(folder: Path) -> list[str]:
    found = []
    for part, tails in ((CASES, _DOCUMENTS), (RECORDINGS, (RECORDING_TAIL,))):
        if (folder / part).is_dir():
            found += [f"{part}/{it.name}" for it in _list_files(folder / part, tails)]
    return found


def _list_files(folder: Path, tails: tuple[str, ...]) -> list[Path]:
    """Return the files with these endings, by name; hidden ones are skipped."""
    found: list[Path] = []
    if folder.is_symlink():
        raise _refuse(folder, "it is a symbolic link")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.lower().endswith(tails):
                continue
            if entry.is_symlink() or not entry.is_file():
                raise _refuse(Path(entry.path), "it is no plain file, or a symbolic link")
            found.append(Path(entry.path))
            if len(found) > CASES_MAX:
                raise _refuse(folder, f"it has more than {CASES_MAX} files")
    return sorted(found, key=lambda it: it.name)


def _read_head(folder: Path) -> _Head:
    path = folder / HEAD
    if not path.exists():
        return _Head()
    if path.is_symlink():
        raise _refuse(path, "it is a symbolic link")
    document = _read_document(path, HEAD)
    try:
        head = msgspec.convert({} if document is None else document, _Head)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidDataset(what=f"file '{HEAD}'", problem=str(error).rstrip(".")) from error
    if head.format != FORMAT:
        problem = f"its format is '{head.format:.40}', and this release reads '{FORMAT}'"
        raise InvalidDataset(what=f"file '{HEAD}'", problem=problem)
    return head


def _read_cases(root: Path, folder: Path, tails: tuple[str, ...]) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    places: dict[str, str] = {}
    total = 0
    if not folder.is_dir():
        return ()
    if folder != root and (below := next((it for it in folder.iterdir() if it.is_dir()), None)):
        raise _refuse(below, f"it is a folder; the files of all cases stand in {CASES} itself")
    for path in _list_files(folder, tails):
        name = path.relative_to(root).as_posix()
        total += path.stat().st_size
        if total > TOTAL_BYTES_MAX:
            raise _refuse(folder, f"its cases have more than {TOTAL_BYTES_MAX} bytes")
        case = read_case(_read_document(path, name), f"file '{name}'")
        if case.id in cases:
            problem = f"case id '{case.id}' is in '{places[case.id]}' as well"
            raise InvalidDataset(what=f"file '{name}'", problem=problem)
        cases[case.id], places[case.id] = case, name
    return tuple(cases[it] for it in sorted(cases))


def _read_document(path: Path, name: str) -> Any:
    try:
        return decode_document(read_bytes(path, name), name)
    except InvalidSpec as error:
        what, _, problem = str(error).partition(": ")
        raise InvalidDataset(what=what.lower(), problem=problem.rstrip(".")) from error


def _read_recordings(folder: Path, named: dict[str, str]) -> dict[str, bytes]:
    """Read the recordings that cases name; other files are left alone."""
    found: dict[str, bytes] = {}
    total = 0
    for name, case_id in named.items():
        what = f"case '{case_id}'"
        if not _HASH.fullmatch(name):
            problem = f"its recording '{name:.80}' is no hash"
            raise InvalidDataset(what=what, problem=problem)
        path = folder / RECORDINGS / f"{name}{RECORDING_TAIL}"
        if path.is_symlink() or (folder / RECORDINGS).is_symlink():
            raise _refuse(path, "it is a symbolic link")
        if path.is_file():
            found[name] = _unpack_recording(path, name)
            total += len(found[name])
        if total > RECORDINGS_BYTES_MAX:
            problem = f"its recordings have more than {RECORDINGS_BYTES_MAX} bytes together"
            raise _refuse(folder, problem)
    return found


def _unpack_recording(path: Path, name: str) -> bytes:
    what = f"file '{RECORDINGS}/{path.name}'"
    try:
        with path.open("rb") as opened:
            packed = opened.read(BYTES_MAX + 1)
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(packed, BYTES_MAX + 1)
    except (OSError, zlib.error) as error:
        raise InvalidDataset(what=what, problem=f"it cannot be read: {error}") from error
    if len(data) > BYTES_MAX or len(packed) > BYTES_MAX:
        raise InvalidDataset(what=what, problem=f"it has more than {BYTES_MAX} bytes")
    if not unpacker.eof or hash_object(data) != name:
        raise InvalidDataset(what=what, problem="it was changed: its name is not its hash")
    return data


def _refuse(path: Path, problem: str) -> InvalidDataset:
    return InvalidDataset(what=f"'{path.name}'", problem=problem)
