"""`awaken init`: makes a project with an agent, a tool, a test, `.env` and a Dockerfile."""

import os
import re
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from awaken import __version__
from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.contracts.errors import InvalidInput, RefusedInput
from awaken.runtime.resolution.model_names import suggest_model

from .command_line import new_app
from .output import BOLD, DIM, as_json, plain, print_stdout, style
from .reports import IsJson, report_errors

SCRIPTED = "scripted"
FILES = {
    "agent.py": "agent.py.txt",
    "test_agent.py": "test_agent.py.txt",
    ".env": "env.txt",
    ".env.example": "env.example.txt",
    ".gitignore": "gitignore.txt",
    ".dockerignore": "dockerignore.txt",
    "Dockerfile": "Dockerfile.txt",
    "README.md": "README.md.txt",
}
"""Every file of a project, and its template."""
KEPT = frozenset({"README.md", ".gitignore", ".dockerignore", ".env.example"})
"""Files that a repository has for itself; where one exists, `--here` leaves it as it is."""
_HIDING = (".gitignore", ".dockerignore")
"""Files that must list `.env`, which will have keys."""
_NOT_COUNTED = frozenset({".git", ".hg", ".jj", ".svn", ".DS_Store"})
"""What an empty folder may have."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_MODEL = re.compile(r"[A-Za-z0-9._-]+:[A-Za-z0-9._:/@-]+")
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10))})

app = new_app()


@app.command()
def init(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The new folder; absent: this one, if it is empty."),
    ] = None,
    *,
    is_here: Annotated[
        bool, typer.Option("--here", help="In this folder, beside what is there.")
    ] = False,
    model: Annotated[
        str, typer.Option("--model", help="provider:model; absent: one that needs no key.")
    ] = SCRIPTED,
    is_json: IsJson = False,
) -> None:
    """Make a project: an agent, a tool and a test, with `.env` and a Dockerfile.

    Nothing that exists is overwritten, and nothing is left half-written. A repository without
    files counts as empty; with --here its README and ignore files are kept.
    """
    with report_errors(is_json=is_json):
        folder = _choose_folder(name, is_here=is_here)
        templates = fill_templates(_project_name(folder), model)
        made = {name: text for name, text in templates.items() if not _is_kept(folder, name)}
        write_project(folder, made)
    print_stdout(_document(folder, made) if is_json else _next_steps(folder, made))


def fill_templates(name: str, model: str) -> dict[str, str]:
    """Fill in the templates of a project.

    Raises:
        RefusedInput: No provider of that name is known.
    """
    values = {
        "name": name.lower(),
        "title": name,
        "model": model,
        "key_line": _key_line(model),
        "version": __version__,
        "python": _python(),
    }
    folder = files(__package__) / "template"
    return {
        file: Template((folder / source).read_text(encoding="utf-8")).substitute(values)
        for file, source in FILES.items()
    }


def write_project(folder: Path, made: Mapping[str, str]) -> None:
    """Write the files into a folder, all or none.

    Raises:
        RefusedInput: A file exists already, or the folder cannot be written.
    """
    if taken := [name for name in made if os.path.lexists(folder / name)]:
        names = ", ".join(taken)
        problem = (
            f"{folder.resolve().name or folder} has {names} already; nothing was written. Move "
            "them away, or write `awaken init NAME` for a folder of its own."
        )
        raise RefusedInput(what="folder", problem=problem)
    is_new = not folder.exists()
    written: list[Path] = []
    try:
        folder.mkdir(parents=False, exist_ok=True)
        for name, text in made.items():
            mode = 0o600 if name == ".env" else 0o666
            # Exclusive: a file that another process makes meanwhile is not overwritten either.
            number = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            written.append(folder / name)
            with os.fdopen(number, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        if is_new and folder.is_dir():
            folder.rmdir()
        problem = f"'{folder}' cannot be written: {error.strerror}; nothing was kept."
        raise RefusedInput(what="folder", problem=problem) from error


def _choose_folder(name: str | None, *, is_here: bool) -> Path:
    here = Path()
    if name is not None:
        # As a shell completes it.
        name = name.removeprefix("./").rstrip("/") or ("." if name.startswith(".") else name)
    if is_here and name not in (None, "."):
        raise InvalidInput(what="--here", problem=f"it cannot be combined with a name, '{name}'")
    if is_here or name == ".":
        return here
    if name is None:
        if _has_files(here):
            problem = (
                "This folder is not empty; `awaken init NAME` makes a folder in it, and "
                "`awaken init --here` adds the files to what is there."
            )
            raise RefusedInput(what="folder", problem=problem)
        return here
    if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
        problem = "write letters, digits, '-' and '_', at most 63, and begin with a letter"
        raise InvalidInput(what=f"The name '{plain(name)}'", problem=problem)
    folder = here / name
    if os.path.lexists(folder) and not folder.is_dir():
        kind = "a link to nothing" if folder.is_symlink() and not folder.exists() else "a file"
        problem = f"'{name}' is {kind}; choose another name, or remove it."
        raise RefusedInput(what="folder", problem=problem)
    if folder.is_dir() and _has_files(folder):
        problem = (
            f"'{name}' exists already and is not empty; choose another name, or write "
            f"`cd {name}` and `awaken init --here`."
        )
        raise RefusedInput(what="folder", problem=problem)
    return folder


def _has_files(folder: Path) -> bool:
    """Whether a folder has more than an empty repository has.

    Raises:
        RefusedInput: It cannot be read.
    """
    try:
        return any(it.name not in _NOT_COUNTED for it in folder.iterdir())
    except OSError as error:
        problem = f"'{folder}' cannot be read: {error.strerror}."
        raise RefusedInput(what="folder", problem=problem) from error


def _is_kept(folder: Path, name: str) -> bool:
    return name in KEPT and os.path.lexists(folder / name)


def _list_leaks(folder: Path, made: Mapping[str, str]) -> list[str]:
    """The kept files that do not list `.env`."""
    leaks = []
    for name in _HIDING:
        if name in made:
            continue
        try:
            lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        if not {".env", "/.env", ".env*", "*.env", "**/.env"} & {line.strip() for line in lines}:
            leaks.append(name)
    return leaks


def _project_name(folder: Path) -> str:
    name = folder.resolve().name
    return name if _NAME.fullmatch(name) else "my-agent"


def _key_line(model: str) -> str:
    """The line of `.env` for the key of a model's provider.

    Raises:
        RefusedInput: No provider of that name is known.
    """
    if model == SCRIPTED:
        return "# OPENAI_API_KEY="
    provider = model.partition(":")[0]
    if provider not in KNOWN_PROVIDERS or not _MODEL.fullmatch(model):
        near = suggest_model(model, KNOWN_PROVIDERS)
        if provider in KNOWN_PROVIDERS:
            problem = f"'{plain(model)}' is no name of a model; write {provider}:MODEL."
            raise RefusedInput(what="--model", problem=problem)
        known = ", ".join(sorted(KNOWN_PROVIDERS))
        hint = f"; did you mean '{near}'?" if near else "."
        problem = f"'{plain(model)}' is no provider:model of a known provider: {known}{hint}"
        raise RefusedInput(what="--model", problem=problem)
    keys = KNOWN_PROVIDERS[provider].keys
    return f"{keys[0]}=" if keys and KNOWN_PROVIDERS[provider].needs_key else ""


def _python() -> str:
    return "python" if shutil.which("python") else "python3"


def _document(folder: Path, made: Mapping[str, str]) -> str:
    kept = [name for name in FILES if name not in made]
    document = {"folder": str(folder.resolve()), "files": list(made)}
    return as_json({**document, "kept": kept} if kept else document)


def _next_steps(folder: Path, made: Mapping[str, str]) -> str:
    is_here = folder == Path()
    steps = [
        *([] if is_here else [(f"cd {folder}", "")]),
        *(
            (f"printf '\\n.env\\n' >> {it}", "it will have keys")
            for it in _list_leaks(folder, made)
        ),
        (f"{_python()} -m unittest", "its test; needs no key"),
        ("awaken chat agent.py", "talk to it"),
        ("awaken serve agent.py", "serve it, with a console at http://127.0.0.1:38080"),
    ]
    width = max(len(command) for command, _ in steps)
    lines = [
        f"  {style(command.ljust(width), BOLD)}  {style(f'# {why}', DIM) if why else ''}".rstrip()
        for command, why in steps
    ]
    place = "this folder" if is_here else plain(folder)
    head = f"Made {len(made)} files in {place}: {', '.join(made)}."
    if kept := [name for name in FILES if name not in made]:
        head += f" Kept {', '.join(kept)}."
    return "\n".join([head, "", *lines])
