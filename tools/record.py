#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Record dibs at work as an animated SVG, from a real run: tools/record.py BUILD/dibs >docs/img/demo.svg

The run has namespaces of its own (root, or a kernel with user namespaces): its home, its processes and its network
are the same each time, so two recordings of one version differ in nothing. Times of day are left out."""
import html
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

COLUMNS, LINE_PX, CHAR_PX = 84, 19, 8.0
TYPED_S, PAUSE_S, HOLD_S = 0.035, 0.7, 6.0
START_S = 20.0  # for a server on a busy machine
SCENE = [  # (directory, command, is shown)
    ("", "mkdir -p shop && cd shop && git init -qb main && git -c user.name=a -c user.email=a@b commit -q"
         " --allow-empty -m 1 && git worktree add -qb fix ../shop-fix", False),
    ("shop", "dibs run -p web -- python3 -m http.server {web} &", True),
    ("shop", "dibs get web", True),
    ("shop-fix", "dibs get web   # another worktree, another port", True),
    ("shop-fix", "dibs claim --port $(cd ../shop; dibs get web)", True),
    ("shop-fix", "dibs ls --all", True),
]
HOME = "/tmp/home"  # of the recording
ENVIRONMENT = {"PATH": "/tmp/bin:/usr/bin:/bin", "HOME": HOME, "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC",
               "DIBS_SOCKET": "none", "DIBS_LEDGER": f"sqlite:{HOME}/.state/ledger.db"}
COLOURS = {"31": "#f47067", "32": "#57ab5a", "33": "#c69026", "34": "#6cb6ff", "35": "#b083f0", "36": "#39c5cf",
           "2": "#8b949e", "90": "#8b949e"}


def in_namespaces(dibs):
    """Start this script again where nothing of the machine shows."""
    os.execvp("unshare", ["unshare", "--map-root-user", "--mount", "--pid", "--net", "--uts", "--fork", "--mount-proc",
                          sys.executable, os.path.abspath(sys.argv[0]), "--inside", os.path.realpath(dibs)])


def run(command, directory):
    """Run one command on a terminal and return what it prints; do not wait for one in the background."""
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (24, COLUMNS))
    process = subprocess.Popen(["bash", "-c", command.rstrip(" &")], cwd=f"{HOME}/{directory}", stdin=side, stdout=side,
                               stderr=side, start_new_session=True, env=ENVIRONMENT)
    os.close(side)
    out = b""
    if command.endswith("&"):  # until it has said that it is ready
        while not out.endswith(b"\n") and select.select([terminal], [], [], START_S)[0]:
            out += os.read(terminal, 65536)
        os.set_blocking(terminal, False)
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # its last process has closed the terminal, or it runs on
            break
        out += more
    if not command.endswith("&"):
        process.wait()
    return out.decode().replace("\r", "")


def prepare(dibs):
    with open(dibs, "rb") as file:  # it may be below the folder that is hidden now
        program = file.read()
    subprocess.run("mount -t tmpfs tmpfs /tmp && mkdir -p /tmp/home /tmp/bin && ip link set lo up && hostname box",
                   shell=True, check=True)
    with open("/tmp/bin/dibs", "wb") as file:
        file.write(program)
    os.chmod("/tmp/bin/dibs", 0o755)


def spans(line):
    """One printed line as SVG text, with its colours."""
    out, colour, is_bold = "", "", False
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if codes:
            for code in codes.group(1).split(";"):
                if code in ("", "0"):
                    colour, is_bold = "", False
                is_bold = is_bold or code == "1"
                colour = COLOURS.get(code, colour)
        elif part:
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if is_bold else "")
            out += f"<tspan{style}>{html.escape(part)}</tspan>" if style else html.escape(part)
    return out


def frames(dibs):
    """(text, second at which it appears, is typed)"""
    prepare(dibs)
    at, where, lines = 0.8, "", []
    for directory, command, is_shown in SCENE:
        text = run(command, directory)
        if not is_shown:
            continue
        if directory != where:
            lines.append((f"$ cd ~/{directory}", at, True))
            at += TYPED_S * 12 + PAUSE_S
            where = directory
        lines.append(("$ " + command, at, True))
        at += TYPED_S * len(command) + PAUSE_S / 2
        text = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]+Z?", "today 9:00", text)
        for line in text.splitlines():
            plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
            if len(plain) <= COLUMNS:
                lines.append((line, at, False))
                continue
            for start in range(0, len(plain), COLUMNS):  # as a terminal wraps
                lines.append((plain[start:start + COLUMNS], at, False))
        at += PAUSE_S
    return lines, at + HOLD_S


def main():
    if sys.argv[1] != "--inside":
        in_namespaces(sys.argv[1])
    lines, total = frames(sys.argv[2])
    width, height = int(COLUMNS * CHAR_PX + 32), len(lines) * LINE_PX + 60
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" xml:space="preserve" role="img" aria-labelledby="t"'
          ' font-family="ui-monospace, \'DejaVu Sans Mono\', monospace" font-size="13">')
    print("  <title id=\"t\">dibs in two worktrees, recorded from a real run</title>")
    print("  <style>text { fill: #e6edf3; white-space: pre } .in { fill: #ffffff; font-weight: bold }"
          " .l { animation: show 0.1s both } @keyframes show { from { opacity: 0 } }"
          " @media (prefers-reduced-motion: reduce) { .l { animation: none } }</style>")
    print(f'  <rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>')
    for i, colour in enumerate(("#f47067", "#c69026", "#57ab5a")):
        print(f'  <circle cx="{20 + 18 * i}" cy="18" r="5.5" fill="{colour}"/>')
    for i, (line, at, is_typed) in enumerate(lines):
        print(f'  <text class="l{" in" if is_typed else ""}" style="animation-delay:{at:.2f}s" x="16"'
              f' y="{52 + i * LINE_PX}">{spans(line)}</text>')
    print("</svg>")


main()
