"""Documents of configuration: how records are spread over files, and back. Pure.

A document has lists of records under the keys of `SECTIONS`, and `overrides` with patches on
records of the code by section and id. Any number of documents say one configuration together.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.kinds import ConfigKind

from .files import FileSet

SECTIONS = {
    "agents": "agents",
    "models": "models",
    "pools": "model-pools",
    "providers": "providers",
    "remotes": "a2a-servers",
    "mcp_servers": "mcp-servers",
    "skills": "skills",
    "rulesets": "rulesets",
    "budgets": "budgets",
    "scorers": "scorers",
    "tools": "tools",
}
"""The namespace of each list of a document."""
OVERRIDES = "overrides"
SECTION_OF = {namespace: section for section, namespace in SECTIONS.items()}
_SHARED_IDS = {"model-pools": "models"}
"""Pools are named like models, so their ids must differ."""

Places = Mapping[str, str]
"""The file of each record, by `namespace/id`."""


class SourceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded content of one file."""

    file: str
    content: Any


class MergedDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """What documents say together, where each record stands, and what is wrong with them."""

    files: FileSet
    places: Places
    problems: tuple[ConfigProblem, ...] = ()


def merge_documents(
    documents: Iterable[SourceDocument], kinds: Mapping[str, ConfigKind], origin: str
) -> MergedDocuments:
    """Collect the records of documents; their bodies are not checked yet."""
    merge = _Merge(kinds)
    for document in documents:
        merge.add(document)
    files = FileSet(origin=origin, records=merge.records, overrides=merge.overrides)
    return MergedDocuments(files=files, places=merge.places, problems=tuple(merge.problems))


def name_files(
    problems: Iterable[ConfigProblem], places: Mapping[str, str]
) -> tuple[ConfigProblem, ...]:
    """Add to each problem the file of the record that its path names."""

    def find_file(problem: ConfigProblem) -> str | None:
        return problem.file or places.get("/".join(problem.path.split("/")[:2]))

    return tuple(msgspec.structs.replace(it, file=find_file(it)) for it in problems)


def split_documents(files: FileSet, kinds: Mapping[str, ConfigKind]) -> dict[str, dict[str, Any]]:
    """Return one document for each record, by the path of its file without an ending."""
    documents: dict[str, dict[str, Any]] = {}
    for namespace, records in files.records.items():
        section, id_field = SECTION_OF[namespace], kinds[namespace].id_field
        for record_id, body in records.items():
            documents[f"{section}/{record_id}"] = {section: [{id_field: record_id, **body}]}
    for namespace, patches in files.overrides.items():
        section = SECTION_OF[namespace]
        for record_id, patch in patches.items():
            if kinds[namespace].is_patch_only:
                documents[f"{section}/{record_id}"] = {section: [{"id": record_id, **patch}]}
            else:
                content = {OVERRIDES: {section: {record_id: patch}}}
                documents[f"{OVERRIDES}/{section}/{record_id}"] = content
    return dict(sorted(documents.items()))


def join_documents(files: FileSet, kinds: Mapping[str, ConfigKind]) -> dict[str, Any]:
    """Return one document with every record."""
    joined: dict[str, Any] = {}
    for document in split_documents(files, kinds).values():
        for section, value in document.items():
            if section == OVERRIDES:
                for name, patches in value.items():
                    joined.setdefault(OVERRIDES, {}).setdefault(name, {}).update(patches)
            else:
                joined.setdefault(section, []).extend(value)
    return joined


class _Merge:
    """Collects records and problems."""

    def __init__(self, kinds: Mapping[str, ConfigKind]) -> None:
        self._kinds = kinds
        self.records: dict[str, dict[str, dict[str, Any]]] = {}
        self.overrides: dict[str, dict[str, dict[str, Any]]] = {}
        self.places: dict[str, str] = {}
        self.problems: list[ConfigProblem] = []
        self._owners: dict[tuple[str, str], str] = {}

    def add(self, document: SourceDocument) -> None:
        """Collect the records of one document."""
        content, file = document.content, document.file
        if not isinstance(content, dict):
            self._refuse(file, "", "invalid", "A document is an object with lists of records.")
            return
        for section, value in content.items():
            if section == OVERRIDES:
                self._add_overrides(file, value)
            elif section not in SECTIONS:
                known = (*SECTIONS, OVERRIDES)
                message = "There is no such section."
                self._refuse(file, str(section)[:80], "unknown_section", message, known)
            elif not isinstance(value, list):
                self._refuse(file, section, "invalid", "A section is a list of records.")
            else:
                for at, body in enumerate(value):
                    self._add_record(file, section, at, body)

    def _add_record(self, file: str, section: str, at: int, body: Any) -> None:
        namespace = SECTIONS[section]
        kind = self._kinds[namespace]
        if not _is_object(body):
            message = "A record is an object whose keys are texts."
            self._refuse(file, f"{section}/{at}", "invalid", message)
            return
        record_id = body.get(kind.id_field)
        if not isinstance(record_id, str):
            message = f"A record needs '{kind.id_field}', a text."
            self._refuse(file, f"{section}/{at}/{kind.id_field}", "missing", message)
            return
        if not self._claim(file, namespace, record_id):
            return
        if kind.is_patch_only:
            patch = {name: it for name, it in body.items() if name != kind.id_field}
            self.overrides.setdefault(namespace, {})[record_id] = patch
        else:
            self.records.setdefault(namespace, {})[record_id] = body

    def _add_overrides(self, file: str, sections: Any) -> None:
        if not isinstance(sections, dict):
            self._refuse(
                file, OVERRIDES, "invalid", "It is an object with a section for each kind."
            )
            return
        for section, patches in sections.items():
            path = f"{OVERRIDES}/{str(section)[:80]}"
            namespace = SECTIONS.get(section)
            if namespace is None or self._kinds[namespace].patchable is None:
                known = tuple(
                    it for it, name in SECTIONS.items() if self._kinds[name].patchable is not None
                )
                self._refuse(file, path, "unknown_section", "It has no overrides.", known)
            elif not isinstance(patches, dict):
                self._refuse(file, path, "invalid", "It is an object with a patch for each id.")
            else:
                for record_id, patch in patches.items():
                    if not isinstance(record_id, str) or not _is_object(patch):
                        message = "A patch is an object whose keys are texts."
                        self._refuse(file, f"{path}/{str(record_id)[:80]}", "invalid", message)
                    elif self._claim(file, namespace, record_id):
                        self.overrides.setdefault(namespace, {})[record_id] = patch

    def _claim(self, file: str, namespace: str, record_id: str) -> bool:
        """Note where a record stands; False, with a problem, if another one has its id."""
        path = f"{namespace}/{record_id}"
        key = (_SHARED_IDS.get(namespace, namespace), record_id)
        if (other := self._owners.get(key)) is not None:
            message = f"The id is used twice, in {other} and in {file}."
            self._refuse(file, path[:256], "duplicate_id", message)
            return False
        self._owners[key] = self.places[path] = file
        return True

    def _refuse(
        self, file: str, path: str, code: str, message: str, known: tuple[str, ...] = ()
    ) -> None:
        self.problems.append(
            ConfigProblem(path=path, code=code, message=message, known=known, file=file)
        )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)
