"""Reads the text layer of one PDF in a process of its own: `python -m awaken.memory.pdf_process`.

A parser of untrusted files can take any time and memory, and a thread cannot be stopped. The file
comes from standard input, the answer goes to standard output as JSON: `pages`, or the `problem`.
"""

import io
import json
import logging
import sys
from typing import Any

NEEDS_CIPHERS = (
    "it is encrypted by AES, which needs the extra 'secrets': pip install 'awaken[secrets]'"
)


def main(pages_max: int, chars_max: int, memory_bytes: int, cpu_s: int) -> None:
    """Read the file of standard input within bounds, and write the answer."""
    _limit_process(memory_bytes, cpu_s)
    logging.disable()
    try:
        answer = _read_text(sys.stdin.buffer.read(), pages_max, chars_max)
    except MemoryError:
        answer = {"problem": "it takes too much memory to read"}
    except Exception as error:  # noqa: BLE001 - a parser may raise anything, also RecursionError
        answer = {"problem": f"it is no readable PDF ({type(error).__name__})"}
    sys.stdout.write(json.dumps(answer))


def _limit_process(memory_bytes: int, cpu_s: int) -> None:
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # It ends by itself also if the process that started it was killed.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))


def _read_text(data: bytes, pages_max: int, chars_max: int) -> dict[str, Any]:
    import pypdf  # noqa: PLC0415 - below the limits
    from pypdf.errors import DependencyError  # noqa: PLC0415

    reader = pypdf.PdfReader(io.BytesIO(data))
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            return {"problem": "it is encrypted; remove its password first"}
    except DependencyError:
        return {"problem": NEEDS_CIPHERS}
    count = len(reader.pages)
    if count > pages_max:
        return {"problem": f"it has {count} pages; {pages_max} are allowed"}
    pages: list[str] = []
    left = chars_max
    for number in range(count):
        pages.append(_join_surrogates(reader.pages[number].extract_text()))
        left -= len(pages[-1])
        if left < 0:
            return {"problem": f"its text has more than {chars_max} characters"}
    return {"pages": pages}


def _join_surrogates(text: str) -> str:
    """Return a text that every reader of JSON takes: fonts may name the halves of a character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
