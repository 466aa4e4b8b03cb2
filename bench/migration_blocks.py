"""Run the blocks of docs/migrating that are written for other frameworks, each in its environment.

    python bench/migration_blocks.py            all of them
    python bench/migration_blocks.py langgraph  one framework

`bench/install_peers.sh` makes the environments. The blocks of a page share one namespace, in which
`scripted(...)` makes a model that plays a script: texts, and lists of `(tool, arguments)`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "migrating"
VENVS = Path(os.environ.get("BENCH_ROOT", Path.home() / ".cache" / "awaken-bench")) / "venvs"
BLOCK = re.compile(r"^```python theirs=(?P<peer>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def read_blocks(page):
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        # Empty lines in front make a traceback point to the line of the page.
        yield match["peer"], "\n" * text.count("\n", 0, match.start("code")) + match["code"]


def run_here(page, peer):
    """Execute the page's blocks of a framework in this interpreter."""
    import migration_models

    scripted = getattr(migration_models, f"make_{peer}_script")
    namespace = {"__name__": "__main__", "scripted": scripted}
    sources = [code for whose, code in read_blocks(page) if whose == peer]
    for code in sources:
        exec(compile(code, str(page), "exec"), namespace)
    print(f"{page.name}: {len(sources)} blocks of {peer} run")


def main(wanted):
    failed = []
    for page in sorted(PAGES.glob("*.md")):
        for peer in sorted({peer for peer, _ in read_blocks(page)}):
            if wanted and peer not in wanted:
                continue
            python = VENVS / peer / "bin" / "python"
            command = [str(python), __file__, "--here", str(page), peer]
            if not python.exists() or subprocess.run(command, check=False).returncode:
                failed.append(f"{page.name} ({peer})")
    if failed:
        sys.exit(f"not run, or failed: {', '.join(failed)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        run_here(Path(sys.argv[2]), sys.argv[3])
    else:
        main(sys.argv[1:])
