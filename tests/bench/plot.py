#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/PERFORMANCE.md and its plots from the results of one `make bench`.

usage: plot.py BENCH.JSON DOCS      (writes DOCS/PERFORMANCE.md, DOCS/img/bench-*.svg, and what they are made from)

A bar is the median, the line on it goes from the 10th to the 90th percentile."""
import html
import json
import math
import os
import re
import sys
import textwrap

NUMBER = r"(-?[0-9.]+)(?: \((-?[0-9.]+)-(-?[0-9.]+)\))?"
WIDTH, LABEL, BAR, GAP = 760, 250, 16, 8
STYLE = ("text { fill: #1f2328 } .ours { fill: #0b5cad } .peer { fill: #8c959f } .line { stroke: #1f2328 } "
         "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ours { fill: #6cb6ff } "
         ".line { stroke: #e6edf3 } }")

# file, heading, text, unit, is logarithmic, rows: (beginning of "what" in bench.json, label)
PLOTS = [
    ("choose", "Choosing a free port", "The search for a candidate, in memory, in a pool of 2,768 ports, beside a model of "
     "Kubernetes' bitmap allocator. A bitmap is faster while many ports are free; dibs needs nearly the same time until a "
     "pool is almost full.", "ns", True, [("pick, ", None)]),
    ("claim", "A durable claim and its release", "From a C program, through SQLite on a disk, beside get-port, which probes a "
     "port and records nothing. `127.0.0.1` and `*` are the addresses.", "us", False, [("claim + release, ", None)]),
    ("process", "A whole process", "`dibs claim` from the shell's fork to its end, beside the start of an interpreter, which "
     "a tool in that language needs before it begins to work.", "ms", False,
     [("dibs claim, cold process", "dibs claim"), ("dibs claim, 50,000 held", "dibs claim, 50,000 claims held"),
      ("start: python3", "python3 -c 0"), ("start: node", "node -e 0")]),
    ("daemon", "The daemon, in Google's portserver protocol", "Requests a second. dibs writes each one to its ledger; "
     "Google's server keeps its ports in memory.", "requests/s", False,
     [("daemon, portserver protocol, one at a time", "one at a time"), ("daemon, portserver protocol, 64", "64 at a time")]),
    ("cluster", "A cluster on etcd", "Claims a second that are unique in the cluster, beside one bitmap key that every claim "
     "compares and swaps, through the same gateway. A single caller gains nothing: it waits for etcd either way.",
     "requests/s", False, [("etcd, 1 member, ", None)]),
    ("as", "A number of its own: --as", "What a call costs more under `dibs run --as 3000` than without: by seccomp, which "
     "needs no rights, and by programs in the kernel, which a daemon with `--enforce` has.", "us", False, [(f"{call} under --as by {way}", f"{call}, {way}") for call in ("bind", "connect")
                            for way in ("seccomp", "bpf")]),
]
NEEDS_RIGHTS = ("as",)  # left out where they were not measured


def value(text, unit):
    """(median, p10, p90) of "60.1 (58.0-63.2) p99 90", or None."""
    found = re.search(NUMBER, text)
    if not found:
        return None
    middle = float(found.group(1))
    low, high = (float(found.group(i) or middle) for i in (2, 3))
    return middle, low, high


def bars(rows, wanted, unit):
    out = []
    for row in rows:
        for start, label in wanted:
            if not row["what"].startswith(start):
                continue
            name = label or row["what"][len(start):]
            if row["ours"]:
                out.append(("ours", "dibs" if label is None and not name else name, value(row["ours"], unit)))
            if row["peer"]:
                peer = re.match(r"(.*?) ?" + NUMBER + r"(, .*)?$", row["peer"])
                if peer and not (label and row["ours"] and start.startswith("dibs claim")):
                    title = peer.group(1) or name
                    out.append(("peer", "   " + title, value(row["peer"][peer.start(2):], unit)))
    # One bar for a peer that stands beside several rows in a row.
    return [bar for i, bar in enumerate(out) if bar[2] and (bar[0] == "ours" or bar not in out[i + 1:])]


def plot(path, title, unit, is_log, data):
    top = max(v[2] for _, _, v in data)
    least = min(v[1] for _, _, v in data)
    room = WIDTH - LABEL - 110

    def x(n):
        if is_log:
            return room * math.log10(max(n, least) / least * 1.5) / math.log10(top / least * 1.5)
        return room * max(n, 0) / top

    height = 30 + len(data) * (BAR + GAP) + 14
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t"'
                   ' font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="12">\n'
                   f'  <title id="t">{html.escape(title)}, {unit}</title>\n  <style>{STYLE}</style>\n'
                   f'  <text x="{LABEL}" y="16">{unit}{", logarithmic" if is_log else ""}</text>\n')
        for i, (kind, label, (middle, low, high)) in enumerate(data):
            y = 26 + i * (BAR + GAP)
            file.write(f'  <text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{html.escape(label.strip())}</text>\n'
                       f'  <rect class="{kind}" x="{LABEL}" y="{y}" width="{x(middle):.1f}" height="{BAR}" rx="2"/>\n'
                       f'  <path class="line" d="M{LABEL + x(low):.1f} {y + BAR / 2} H{LABEL + x(high):.1f}"/>\n'
                       f'  <text x="{LABEL + max(x(middle), x(high)) + 6:.1f}" y="{y + 12}">{middle:,g}</text>\n')
        file.write("</svg>\n")


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def page(result, plots):
    m = result["machine"]
    peers = ", ".join(f"{name} {m[name]}" for name in ("get-port", "portfinder", "port-for", "portserver") if name in m)
    yield "# Performance\n"
    yield wrapped("`make bench` measures dibs and other tools in one run, turn by turn, and writes this page from the results "
                  "(`tests/bench/plot.py`). Do not edit it.")
    yield f"| | |\n|---|---|\n| date | {m['time'][:10]} |\n| commit | {m['commit']} |"
    yield f"| processor | {m['cpu']}, {m['cores']} cores, {m['memory_mib'] // 1024} GiB |"
    yield f"| kernel, file system | {m['kernel'].split('-')[0]}, {m['file_system']} |\n| compiler | {m['compiler']} |"
    yield f"| peers | {peers}; Node {m['node']}, {m['python']} |\n"
    yield wrapped("The numbers of a small machine differ from run to run; the ratio to a tool in the same run says more. A bar "
                  "is the median, the line on it goes from the 10th to the 90th percentile.")
    for name, heading, text, unit in plots:
        yield f"## {heading}\n\n{wrapped(text)}\n![{heading}, {unit}](img/bench-{name}.svg)\n"
    yield "## All rows\n"
    yield wrapped("`goal` is the number that the design asks for on a machine like this one. In brackets are the 10th and the "
                  "90th percentile, and behind another tool's number how many times better dibs is.")
    yield "| what | dibs | unit | goal | beside |\n|---|---|---|---|---|"
    for row in result["rows"]:
        if row["ours"]:
            ratio = f"{row['ratio']}" if row["ratio"] else ""
            beside = row["peer"] + (f": {ratio}" if row["peer"] and ratio else ratio)
            missed = " (missed)" if row["met"] == "NO" else ""
            yield f"| {row['what']} | {row['ours']} | {row['unit']} | {row['goal']}{missed} | {beside} |"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    done = []
    docs = sys.argv[2]
    os.makedirs(os.path.join(docs, "img"), exist_ok=True)
    for name, heading, text, unit, is_log, wanted in PLOTS:
        data = bars(result["rows"], wanted, unit)
        if not data and name in NEEDS_RIGHTS:
            continue
        if not data:
            sys.exit(f"plot: the results have no row for the plot '{heading}'")
        plot(os.path.join(docs, "img", f"bench-{name}.svg"), heading, unit, is_log, data)
        done.append((name, heading, text, unit))
    with open(os.path.join(docs, "PERFORMANCE.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(page(result, done)) + "\n")
    # What the page is made from: a test makes it again.
    with open(os.path.join(docs, "img", "bench.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": result["machine"], "rows": result["rows"]}, file, indent=1)
        file.write("\n")


main()
