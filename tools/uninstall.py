#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Remove the files that `meson install` of a build folder installs, and the folders of dibs that are then empty.

The list is Meson's own, not its log: every later install, also a test's, overwrites that one.
usage: [DESTDIR=DIR] tools/uninstall.py BUILD_FOLDER
"""
import json
import os
import subprocess
import sys

build = sys.argv[1]
destdir = os.environ.get("DESTDIR", "")
installed = json.loads(subprocess.check_output(["meson", "introspect", "--installed", build]))
files = []
for source, target in installed.items():
    target = destdir + target
    # A folder of generated files shares its place with those of others.
    files += [os.path.join(target, name) for name in os.listdir(source)] if os.path.isdir(source) else [target]

removed = 0
for file in files:
    if os.path.lexists(file):
        os.remove(file)
        removed += 1
folders = {os.path.dirname(file) for file in files}
folders |= {os.path.dirname(folder) for folder in folders}
for folder in sorted(folders, key=len, reverse=True):
    is_ours = "dibs" in (os.path.basename(folder), os.path.basename(os.path.dirname(folder)))
    if is_ours and os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)
if os.geteuid() == 0 and not destdir:
    subprocess.run(["ldconfig"], check=False, env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
print(f"uninstall: {removed} files removed")
