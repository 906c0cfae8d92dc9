# SPDX-License-Identifier: MIT
"""Runs the examples of the client's README and of docs/CLIENTS.md as they stand.

A block "python" is a program. A block "python FILE.py" or "yaml FILE" is that file, and a block "sh pytest"
after it is typed beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROGRAM

HERE = Path(__file__).parents[1]
PAGES = {"README": HERE / "README.md", "CLIENTS": HERE.parents[1] / "docs/CLIENTS.md"}


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of the page with the rest of their first line; of docs/CLIENTS.md those of the Python part."""
    text = PAGES[page].read_text()
    if page == "CLIENTS":
        text = re.split(r"^## ", text.split("\n## Python\n")[1], flags=re.M)[0]
    return re.findall(r"^```(python|yaml|sh)(.*?\n.*?)^```$", text, re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page: str, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "dibs").symlink_to(PROGRAM)
    (bin_folder / "python3").symlink_to(sys.executable)
    (bin_folder / "pytest").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest -p dibs.pytest_plugin "$@"\n')
    (bin_folder / "pytest").chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    ran = 0
    for language, block in blocks(page):
        first, _, text = block.partition("\n")
        words = first.split()
        if language in ("python", "yaml") and words:
            Path(words[0]).write_text(text)
            continue
        typed = [sys.executable, "-c", text] if language == "python" else ["bash", "-eu", "-c", text]
        if language == "sh" and words != ["pytest"]:
            continue
        done = subprocess.run(typed, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        ran += 1
    assert ran >= 3
