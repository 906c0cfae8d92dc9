#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts single test cases in Meson's testlog.json.

Meson counts programs; a program that speaks TAP has many cases. Every skip is printed with its reason.
A program that crashed, timed out or ended before its plan counts as at least one failure. With CI=true a
skip that no pattern of the allowed list matches is a failure: in CI everything can run that this kernel
can do at all. (Python, because Meson itself brings it.)
"""
import argparse
import fnmatch
import json
import os
import re
import sys

CASE = re.compile(r"^(ok|not ok)\b\s*(\d+)?\s*(?:- )?(.*?)(?:\s*#\s*(skip|todo)\S*\s*(.*))?$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*skip\S*\s*(.*))?$", re.IGNORECASE)
GOOD = ("OK", "EXPECTEDFAIL")


def comments_after(lines, number):
    """The report of a failed case: the comments up to the next case, at most ten lines."""
    said = []
    for line in lines[number + 1 : number + 11]:
        if not line.startswith("#"):
            break
        said.append(line)
    return "\n".join(said)


def tap_cases(text):
    """Yields (outcome, name, reason); a missing case of the plan is a failure."""
    planned, seen = None, 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if planned == 0 and plan.group(2) is not None:
                yield "skipped", "whole program", plan.group(2)
            continue
        case = CASE.match(line)
        if not case:
            continue
        seen += 1
        verdict, _, name, directive, reason = case.groups()
        if directive and directive.lower() == "skip" and verdict == "ok":
            yield "skipped", name, reason
        else:
            yield "passed" if verdict == "ok" else "failed", name, comments_after(lines, number)
    if planned is None and seen == 0:
        yield "failed", "no test ran", ""
    elif planned is not None and seen < planned:
        yield "failed", f"{planned - seen} of {planned} planned cases did not run", ""


def program_cases(run):
    """The cases of one program: one when it does not speak TAP."""
    text, result = run.get("stdout") or "", run["result"]
    if any(PLAN.match(line) for line in text.splitlines()):
        cases = list(tap_cases(text))
    elif result == "SKIP" and run.get("returncode") == 0:
        cases = [("failed", "no test ran", "")]  # Meson calls a silent TAP program skipped
    elif result == "SKIP":
        lines = [line for line in text.splitlines() if line.strip()]
        cases = [("skipped", "", lines[-1] if lines else "")]
    else:
        cases = [("passed" if result in GOOD else "failed", result.lower(), "")]
    if result not in GOOD + ("SKIP",) and not any(case[0] == "failed" for case in cases):
        cases.append(("failed", f"the program ended badly ({result.lower()}, exit {run.get('returncode')})", ""))
    return cases


def load(path):
    try:
        with open(path, encoding="utf-8") as log:
            return [json.loads(line) for line in log if line.strip()]
    except OSError:
        return []


def patterns(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split("#", 1)[0].strip() for line in file]
    except OSError:
        return []
    return [line for line in lines if line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--meson-exit", type=int, default=0)
    parser.add_argument("--allowed-skips", default="")
    args = parser.parse_args()
    allowed = patterns(args.allowed_skips)
    is_ci = os.environ.get("CI", "") not in ("", "0", "false")
    count = {"passed": 0, "failed": 0, "skipped": 0}

    for run in load(args.log):
        for outcome, name, reason in program_cases(run):
            where = f"{run['name']}: {name}".rstrip(": ")
            if outcome == "skipped":
                text = f"{where}: {reason or 'no reason given'}"
                is_allowed = any(fnmatch.fnmatchcase(text, pattern) for pattern in allowed)
                if is_ci and not is_allowed:
                    outcome = "failed"
                    text += " (must not be skipped in CI)"
                print(f"skipped: {text}")
            elif outcome == "failed":
                print(f"failed: {where}" + (f"\n{reason}" if reason else ""))
            count[outcome] += 1
    if args.meson_exit != 0 and count["failed"] == 0:
        print(f"failed: meson test ended with {args.meson_exit}")
        count["failed"] += 1
    if sum(count.values()) == 0:
        print("failed: no test ran")
        count["failed"] += 1
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
