#!/usr/bin/env python3
"""Fail where docs/ARCHITECTURE.md names a file or function that is not there, or a function in another file than its
own, or where the page is longer than a newcomer reads: 250 lines, 40 terms."""
import pathlib
import re
import sys

top = pathlib.Path(__file__).resolve().parent.parent
page = (top / "docs/ARCHITECTURE.md").read_text()
sources = {str(p.relative_to(top)): p.read_text() for p in (*top.glob("src/**/*.[ch]"), *top.glob("include/**/*.h"))}
flat = " ".join(page.split())
faults = []


def has(path, name):
    return re.search(rf"^\w.*\b{name}\(", sources[path], re.M)


for name in sorted(set(re.findall(r"`(?:src/)?([a-z_/0-9]+\.[ch])`", flat))):
    if not any(path == name or path.endswith("/" + name) for path in sources):
        faults.append(f"there is no file {name}")
for name in sorted(set(re.findall(r"`(\w+)\(\)`", flat))):
    if not any(has(path, name) for path in sources):
        faults.append(f"there is no function {name}()")
for name, file in re.findall(r"`(\w+)\(\)` (?:\(|of )`([a-z_/0-9]+\.[ch])`", flat):
    if not any(has(path, name) for path in sources if path.endswith("/" + file)):
        faults.append(f"{name}() is not in {file}")
lines = page.count("\n")
terms = len(re.findall(r"^\| ", page[page.index("## Glossary"):], re.M)) - 1
if lines > 250:
    faults.append(f"{lines} lines; at most 250")
if terms > 40:
    faults.append(f"{terms} terms in the glossary; at most 40")
for fault in faults:
    print("check-architecture:", fault, file=sys.stderr)
sys.exit(bool(faults))
