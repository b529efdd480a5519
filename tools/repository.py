"""Change the repository's address everywhere.

    python tools/repository.py https://host/owner/name

The address stands in `_config.yml`; every other file that holds it is rewritten, notebooks without executing them. The
address of the site, which follows from it on GitHub, is rewritten, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from chapter import ROOT, write_atomically
from preamble import address

sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages.address import published_at  # noqa: E402

MADE = re.compile(r"\.venv|out/|book/(_build|api)/|(.*/)?(node_modules|__pycache__|\.ipynb_checkpoints)/")
ENDINGS = {".py", ".ipynb", ".md", ".yml", ".toml", ".cff", ".bib", ".html"}


def files(root: Path) -> list[Path]:
    """Return the committed text files that may hold the address; in a ZIP all text files but what is made."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z"]
        names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split(
            "\0"
        )
    else:
        names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
        names = [name for name in names if not MADE.match(name)]
    return [root / name for name in names if name and Path(name).suffix in ENDINGS]


def change(new: str, root: Path = ROOT) -> list[str]:
    """Replace the address and return the names of the files that changed.

    Raises:
        ValueError: the address is not a plain repository address without a trailing slash.
    """
    if not re.fullmatch(r"(https?|file)://[^\s\"'<>]+[^/\s\"'<>]", new):
        raise ValueError(f"URL = {new!r}; allowed: https://host/owner/name")
    old = address(root)
    changed = []
    swaps = [(old, new)]
    if all(url.startswith("https://github.com/") for url in (old, new)):
        swaps.append((old.removeprefix("https://github.com/"), new.removeprefix("https://github.com/")))
        swaps.append((published_at(old).rstrip("/"), published_at(new).rstrip("/")))
    for path in files(root):
        text = before = path.read_text(encoding="utf-8")
        for a, b in swaps:
            text = re.sub(re.escape(a) + r"(?![\w-])", b.replace("\\", r"\\"), text)
        if text != before:
            write_atomically(path, text)
            changed.append(str(path.relative_to(root)))
    return changed


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python tools/repository.py https://host/owner/name", file=sys.stderr)
        return 2
    try:
        changed = change(sys.argv[1])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(changed) or "nothing to change")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
