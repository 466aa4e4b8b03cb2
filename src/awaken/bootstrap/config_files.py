"""Reads configuration from a folder or a file, and writes it there.

Only files inside the folder are read: a symlink that leads out of it is a problem.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.errors import AwakenError, InvalidInput, InvalidSpec
from awaken.managed.documents import (
    OVERRIDES,
    SECTION_OF,
    MergedDocuments,
    SourceDocument,
    merge_documents,
    split_documents,
)
from awaken.managed.files import FileSet
from awaken.services.document_files import decode_document, format_document, read_bytes

FILES_MAX = 20_000
PROMPT_FILE = "system_prompt_file"
_ENDINGS = (".yaml", ".yml", ".json")
_SKILL = "SKILL.md"
_SKILL_FOLDERS = ("references", "assets")
_SKILL_FIELDS = (
    "description", "body", "when_to_use", "arguments", "argument_hint", "allowed_tools",
    "user_invocable", "model_invocable", "model", "context", "agent", "paths",
)  # fmt: skip


def name_origin(path: Path) -> str:
    """The name under which files own records unless another is given: that of the folder."""
    return path.resolve().stem[:64] or "files"


def read_config_files(
    path: Path, kinds: Mapping[str, ConfigKind], origin: str | None = None
) -> MergedDocuments:
    """Read a folder, or one file, with everything that it says.

    Raises:
        InvalidInput: There is no such folder or file, or its origin is no name.
    """
    if not path.exists():
        raise InvalidInput(what=f"'{path}'", problem="there is no such folder or file")
    reader = _FolderReader(path if path.is_dir() else path.parent)
    found = reader.read_folder() if path.is_dir() else reader.read_file(path)
    try:
        merged = merge_documents(list(found), kinds, origin or name_origin(path))
    except ValueError as error:
        raise InvalidInput(what="origin", problem=str(error)) from error
    problems = (*reader.problems, *merged.problems)
    return msgspec.structs.replace(merged, problems=problems)


def format_files(files: FileSet, kinds: Mapping[str, ConfigKind]) -> dict[str, str]:
    """Return the text of one file for each record, by its path inside a folder."""
    documents = split_documents(files, kinds)
    return {f"{path}.yaml": format_document(document) for path, document in documents.items()}


def write_files(folder: Path, texts: Mapping[str, str]) -> int:
    """Write files into a folder; returns how many changed. Other files are left alone.

    Raises:
        InvalidInput: The folder cannot be written.
    """
    count = 0
    try:
        for name, text in texts.items():
            target = folder / name
            data = text.encode()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace_file(target, data)
            count += 1
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise InvalidInput(what=f"'{folder}'", problem=problem) from error
    return count


def write_back(
    root: Path, merged: MergedDocuments, live: FileSet, places: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """Put the live versions of records into the files that have them; returns those files.

    A file is written anew as canonical YAML or JSON: comments in it are lost.

    Raises:
        InvalidInput: A record stands in a SKILL.md, or a file cannot be written.
    """
    folder = root if root.is_dir() else root.parent
    changed: dict[str, dict[str, Any]] = {}
    prompts: dict[str, str] = {}
    for namespace, record_id in places:
        file = merged.places.get(f"{namespace}/{record_id}")
        if file is None:
            continue
        if file.endswith(_SKILL):
            problem = f"'{namespace}/{record_id}' is a folder; write its changes there yourself"
            raise InvalidInput(what="--write-back", problem=problem)
        document = changed.get(file)
        if document is None:
            document = changed[file] = decode_document(read_bytes(folder / file, file), file)
        prompts |= _replace_record(document, namespace, record_id, live)
    texts = prompts
    for file, document in changed.items():
        is_json = file.lower().endswith(".json")
        text = msgspec.json.format(msgspec.json.encode(document)).decode() if is_json else ""
        texts[file] = text or format_document(document)
    write_files(folder, texts)
    return tuple(texts)


def _replace_record(
    document: dict[str, Any], namespace: str, record_id: str, live: FileSet
) -> dict[str, str]:
    """Replace a record in a document by what is live; returns prompts that are files of their own.

    A record stands in a list under its id or name, a patch in an object under its id.
    """
    prompts: dict[str, str] = {}
    section = SECTION_OF[namespace]
    patch = live.overrides.get(namespace, {}).get(record_id)
    body = live.records.get(namespace, {}).get(record_id) or {"id": record_id, **(patch or {})}
    records = document.get(section) or []
    for at, record in enumerate(records):
        field = "id" if "id" in body else "name"
        if record.get(field) == record_id:
            records[at] = _keep_prompt_file(record, body, prompts)
    patches = (document.get(OVERRIDES) or {}).get(section) or {}
    if record_id in patches and patch is not None:
        patches[record_id] = _keep_prompt_file(patches[record_id], patch, prompts)
    return prompts


def _keep_prompt_file(
    record: Mapping[str, Any], body: Mapping[str, Any], prompts: dict[str, str]
) -> dict[str, Any]:
    """Return the new body; its prompt goes into the file that had the old one."""
    file, prompt = record.get(PROMPT_FILE), body.get("system_prompt")
    if not isinstance(file, str) or not isinstance(prompt, str):
        return dict(body)
    prompts[file] = prompt
    rest = {name: it for name, it in body.items() if name != "system_prompt"}
    return {**rest, PROMPT_FILE: file}


class _FolderReader:
    """Reads the documents of a folder; what cannot be read becomes a problem."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._real = os.path.realpath(root)
        self.problems: list[ConfigProblem] = []

    def read_folder(self) -> Iterator[SourceDocument]:
        """Read every document and every skill below the root, in the order of their paths."""
        count = 0
        for folder, folders, files in os.walk(self._root):
            folders[:] = sorted(it for it in folders if not it.startswith("."))
            if _SKILL in files:
                # The files of a skill are its own, and no documents.
                folders.clear()
                yield from self._read_skill(Path(folder))
                continue
            for name in sorted(files):
                if name.lower().endswith(_ENDINGS):
                    count += 1
                    if count > FILES_MAX:
                        message = f"The folder has more than {FILES_MAX} documents."
                        self._refuse("", "too_many_files", message)
                        return
                    yield from self.read_file(Path(folder, name))

    def read_file(self, path: Path) -> Iterator[SourceDocument]:
        """Read one document, with the prompts that it names."""
        name = self._name(path)
        try:
            self._check_inside(path, name)
            content = decode_document(read_bytes(path, name), name)
        except InvalidSpec as error:
            self._refuse(name, "unreadable", f"{error.problem}.")
            return
        self._add_prompts(name, content)
        yield SourceDocument(file=name, content=content)

    def _add_prompts(self, name: str, content: Any) -> None:
        """Replace `system_prompt_file` by the text of the file, in place."""
        if not isinstance(content, dict):
            return
        agents = content.get("agents")
        found = list(agents) if isinstance(agents, list) else []
        overrides = content.get("overrides")
        patches = overrides.get("agents") if isinstance(overrides, dict) else None
        found += patches.values() if isinstance(patches, dict) else ()
        for body in found:
            if isinstance(body, dict) and PROMPT_FILE in body:
                self._add_prompt(name, body)

    def _add_prompt(self, name: str, body: dict[str, Any]) -> None:
        given = body.pop(PROMPT_FILE)
        path = f"agents/{str(body.get('id', '?'))[:128]}/{PROMPT_FILE}"
        if "system_prompt" in body:
            message = "Write system_prompt or system_prompt_file, not both."
            self._refuse(name, "invalid", message, path)
        elif not isinstance(given, str) or not given or "\0" in given:
            self._refuse(name, "invalid", "It is the path of a file in the folder.", path)
        else:
            try:
                self._check_inside(self._root / given, given)
                body["system_prompt"] = read_bytes(self._root / given, given).decode()
            except InvalidSpec as error:
                self._refuse(name, "unreadable", f"{error}", path)
            except UnicodeDecodeError:
                self._refuse(name, "unreadable", f"File '{given}' is no UTF-8 text.", path)

    def _read_skill(self, folder: Path) -> Iterator[SourceDocument]:
        # Skills bring the pattern language; folders without them do not need it.
        from awaken.extensions.skills.documents import parse_skill  # noqa: PLC0415

        name = self._name(folder / _SKILL)
        try:
            self._check_inside(folder / _SKILL, name)
            skill = parse_skill(self._read_text(folder / _SKILL), folder.name)
            files = {
                path.relative_to(folder).as_posix(): self._read_text(path)
                for path in self._list_skill_files(folder)
            }
        except AwakenError as error:
            self._refuse(name, "invalid_skill", str(error))
            return
        fields: dict[str, Any] = msgspec.to_builtins(skill)
        record = {"id": skill.name, **{it: fields[it] for it in _SKILL_FIELDS if it in fields}}
        content = {"skills": [{**record, "files": files} if files else record]}
        yield SourceDocument(file=name, content=content)

    def _list_skill_files(self, folder: Path) -> list[Path]:
        """List the files that the skill brings.

        Raises:
            InvalidSpec: It has scripts, which only skills in code may have.
        """
        if (folder / "scripts").exists():
            problem = "a managed skill has no scripts; give it to the SkillsPlugin in code"
            raise InvalidSpec(what=f"Skill '{folder.name}'", problem=problem)
        paths = (it for name in _SKILL_FOLDERS for it in (folder / name).rglob("*"))
        return sorted(it for it in paths if not it.is_dir())

    def _read_text(self, path: Path) -> str:
        name = self._name(path)
        self._check_inside(path, name)
        try:
            return read_bytes(path, name).decode()
        except UnicodeDecodeError:
            raise InvalidSpec(what=f"File '{name}'", problem="it is no UTF-8 text") from None

    def _check_inside(self, path: Path, name: str) -> None:
        real = os.path.realpath(path)
        if os.path.isabs(name) or not real.startswith(f"{self._real.rstrip(os.sep)}{os.sep}"):
            raise InvalidSpec(what=f"File '{name}'", problem="it leads out of the folder")

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _refuse(self, file: str, code: str, message: str, path: str = "") -> None:
        self.problems.append(ConfigProblem(path=path, code=code, message=message, file=file))


def _replace_file(target: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    draft = target.with_name(f".{target.name}.tmp")
    draft.write_bytes(data)
    draft.replace(target)
