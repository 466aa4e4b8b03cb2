"""Skills on disk for tests."""

from pathlib import Path

GREETING = "Say hello to ${who}."


def write_skill(root: Path, name: str, body: str = GREETING, **keys: str) -> Path:
    """Write a skill and return its directory; `_` in a key stands for `-`."""
    fields = {"name": name, "description": f"Does {name}.", **keys}
    head = "\n".join(f"{key.replace('_', '-')}: {value}" for key, value in fields.items())
    return write_document(root, name, f"---\n{head}\n---\n{body}\n")


def write_document(root: Path, name: str, text: str) -> Path:
    """Write a SKILL.md as it stands."""
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text(text, encoding="utf-8")
    return directory


def write_file(directory: Path, path: str, content: str | bytes) -> Path:
    """Write another file of a skill."""
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    return target
