#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write manual pages from what they describe, so that they cannot differ from it.

usage: man.py --version V --revised DATE manifest SCHEMA SETTINGS_H MANIFEST_MD >dibs.yaml.5
       man.py --version V --revised DATE library FOLDER LIBDIBS_SYM EXAMPLE_C HEADER...

`library` writes dibs.3 into FOLDER, and a page NAME.3 that leads to it for each function of LIBDIBS_SYM. It fails when
the headers declare others. dibs(1) and the pages of the commands are written by dibs itself: src/cli/man.c."""
import argparse
import json
import pathlib
import re
import sys
import textwrap

WIDTH = 71  # of a display, which is not filled: it must fit a terminal of 80 columns with its indentation


def roff(text):
    """The text as roff prints it unchanged."""
    for char, escape in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("^", "\\(ha"), ("~", "\\(ti"), ("`", "\\(ga")):
        text = text.replace(char, escape)
    return "\n".join("\\&" + line if line.startswith((".", "\\(aq")) else line for line in text.split("\n"))


def head(args, name, section, kind, names, summary):
    return [f'.TH {roff(name)} {section} "{args.revised}" "dibs {args.version}" "{kind}"', ".SH NAME",
            roff(", ".join(names)) + " \\- " + roff(summary)]


def page(lines):
    """The lines of a page as text. A paragraph that begins a section is one already."""
    kept = [line for i, line in enumerate(lines) if line != ".PP" or not lines[i - 1].startswith((".SH", ".SS"))]
    return "\n".join(kept) + "\n"


def display(lines):
    return [".nf", *(roff(line) for line in lines), ".fi"]


# ---- dibs.yaml(5) ----

def title(part):
    """The heading of a part of the schema."""
    return "The target of a reference" if part == "target" else f"A {part}"


class Schema:
    def __init__(self, path):
        self.whole = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.parts = self.whole["$defs"]

    def follow(self, node):
        """The node with what it refers to, and the name of that."""
        name = node.get("$ref", "").rpartition("/")[2]
        return ({**self.parts[name], **node}, name) if name else (node, "")

    def kind(self, node):
        """What a value can be, in words."""
        node, name = self.follow(node)
        if "enum" in node:
            return " or ".join(str(value) for value in node["enum"])
        if "properties" in node:
            words = {{"object": "map", "string": "text"}.get(kind, kind) for kind in listed(node["type"])}
            return f"{' or '.join(sorted(words, reverse=True))}: see \u201c{title(name)}\u201d"
        kinds = []
        for kind in listed(node.get("type", [])):
            if kind == "object":
                inner = node.get("additionalProperties")
                kinds.append("map of names to " + self.plural(inner) if isinstance(inner, dict) else "map")
            elif kind == "array":
                kinds.append("list" + (" of " + self.plural(node["items"]) if "items" in node else ""))
            elif kind == "integer":
                kinds.append(f"whole number, {node['minimum']} to {node['maximum']}")
            else:
                kinds.append({"string": "text", "boolean": "true or false"}.get(kind, kind))
        return ", or ".join(kinds)

    def plural(self, node):
        node, name = self.follow(node)
        if "properties" in node:
            return f"{name}s: see \u201c{title(name)}\u201d"
        kinds = {"text" if k == "string" else k + "s" for k in listed(node.get("type", []))}
        return " or ".join(sorted(kinds, reverse=True)) or "values"

    def facts(self, key, node):
        """What is true of the value of a key of this map, in words."""
        value = node["properties"][key]
        if value.get("$ref", "").endswith("/setting"):
            return "setting"
        words = [self.kind(value)]
        value = self.follow(value)[0]
        words += [f"at most {value[most]}" for most in ("maxItems", "maxProperties") if most in value]
        if "default" in value:
            words.append("default: " + str(value["default"]).replace("False", "false"))
        if key in node.get("required", []):
            words.append("required")
        return "; ".join(words)

    def keys(self, node):
        """A list of the keys of a map, each with its meaning."""
        out = []
        for key, value in node["properties"].items():
            text = self.follow(value)[0].get("description")
            out += [".TP", f".B {roff(key)}", *([roff(text), ".br"] if text else [])]
            out += [roff(f"({self.facts(key, node)})")]
        return out


def listed(value):
    return value if isinstance(value, list) else [value]


ABOUT = """Two kinds of files have this name: the settings of a system or of a user, and the manifest of a project.
Both are YAML. An unknown key is an error with its line."""
SETTINGS = """Settings come from, in this order: flags of a command, the environment, the manifest of the project, the file
of the user, and that of the system.
A settings file is a map with these keys. The environment variable of a setting is DIBS_ and the key in capitals, with _
for -."""
MANIFEST = """dibs.yaml (or dibs.json, the same in JSON) says which parts a project has and which ports they need. dibs finds
it in the working directory or the nearest one above. It must belong to you or to root, and not every user may write it.
It is a map with these keys:"""

FILES = [("/etc/dibs/dibs.yaml", "settings of the system"), ("$XDG_CONFIG_HOME/dibs/dibs.yaml", "settings of a user"),
         ("PROJECT/dibs.yaml, PROJECT/dibs.json", "manifest of a project"),
         ("PREFIX/share/dibs/dibs.schema.json", "JSON Schema of manifests, for editors")]


def manifest(args, schema_file, settings_file, manifest_page):
    schema = Schema(schema_file)
    text = pathlib.Path(settings_file).read_text(encoding="utf-8")
    rows = re.findall(r'X\([A-Z_]+, "([a-z-]+)",\s*"((?:[^"\\]|\\.)*)"\)', text)
    text = pathlib.Path(manifest_page).read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.S)[1].rstrip("\n")
    assert len(rows) > 10 and example
    out = head(args, "DIBS.YAML", 5, "File Formats", ["dibs.yaml"], "settings of dibs, and the manifest of a project")
    out += [".SH DESCRIPTION", roff(ABOUT), ".SH SETTINGS", roff(SETTINGS)]
    for name, summary in rows:
        out += [".TP", f".B {roff(name)}", roff(summary)]
    out += [".SH MANIFEST", roff(MANIFEST)]
    out += schema.keys(schema.whole)
    for name, part in schema.parts.items():
        if "properties" not in part:
            continue
        out += [f".SS {roff(title(name))}"]
        if "description" in part:
            out += [roff(part["description"])]
        out += schema.keys(part)
    lines = []
    for line in example.split("\n"):
        code, mark, remark = line.partition("  # ")
        code = code.rstrip()
        indent = " " * (len(code) - len(code.lstrip()))
        joined = f"{code}  # {remark}" if mark else code
        lines += [joined] if len(joined) <= WIDTH or not mark else [f"{indent}# {remark}", code] # too long for one line
    out += [".SH EXAMPLE", *display(lines), ".SH FILES"]
    for file, text in FILES:
        out += [".TP", f".I {roff(file)}", roff(text)]
    out += [".SH SEE ALSO", ".BR dibs (1),", ".BR dibs\\-init (1),", ".BR dibs\\-up (1),", ".BR dibs\\-run (1)"]
    sys.stdout.write(page(out))


# ---- dibs(3) ----

TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<directive>#(?:[^\n\\]|\\\n|\\.)*)|(?P<blank>\n[ \t]*(?=\n))|(?P<space>\s+)|(?P<code>.)",
                   re.S)
NOISE = ("#if", "#endif", "#include", "#define DIBS_API", "#define DIBS_MUST_USE", "#define DIBS_PRINTF")


def entries(text):
    """Of a header: (comment, [declaration...]) in its order."""
    text = re.sub(r'#ifdef __cplusplus\n.*?#endif', "", text, flags=re.S)
    guard = re.search(r"#ifndef (\w+)", text)[1]
    comment, found, at = "", [], 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token["comment"] is not None:
            if found or comment:
                yield comment, found
            comment, found, at = token["comment"], [], token.end()
            if "SPDX-License-Identifier" in comment:
                comment = ""
        elif token["blank"] is not None:
            if found or comment:
                yield comment, found
            comment, found, at = "", [], token.end()
        elif token["directive"]:
            if not token["directive"].startswith((*NOISE, f"#define {guard}")):
                end = text.index("\n", token.end())  # with a remark behind it
                found, at = found + [text[at:end]], end
            else:
                if comment and token["directive"].startswith("#include"):
                    yield comment, []  # the header's own
                comment, at = "", token.end()  # any other is about how the headers are made
        elif token["space"]:
            at = token.end()
        else:
            end = declaration_end(text, at)
            found, at = found + [text[at:end]], end
    if found or comment:
        yield comment, found


def declaration_end(text, at):
    depth = 0
    while True:
        token = TOKEN.match(text, at)
        at = token.end()
        depth += {"{": 1, "}": -1}.get(token["code"], 0)
        if token["code"] == ";" and depth == 0:
            rest = text[at:text.index("\n", at)].strip()
            return text.index("*/", at) + 2 if rest.startswith("/*") else at  # with a remark behind it


def flat(comment):
    """A comment as paragraphs, without its frame."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment.strip().split("\n")]
    return "\n".join(lines)


def narrow(declaration):
    """A declaration in lines of at most WIDTH columns: remarks that do not fit go above their line."""
    out = []
    declaration = re.sub(r"[ \t]*\\\n", " \\\n", declaration)
    joined = re.sub(r"/\*.*?\*/", lambda m: "/* " + " ".join(flat(m[0][2:-2]).split()) + " */", declaration, flags=re.S)
    for line in joined.split("\n"):
        remark = re.match(r"(\s*)(.*?\S)\s*(/\*.*\*/)$", line)
        if len(line) > WIDTH and remark:
            out += textwrap.wrap(remark[3], WIDTH, initial_indent=remark[1], subsequent_indent=remark[1] + " * ")
            line = remark[1] + remark[2]
        if len(line) > WIDTH:
            indent = re.match(r"\s*", line)[0] + "    "
            out += textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        else:
            out.append(line)
    return out


def prototype(declaration):
    """The name of the function that this declares, or None."""
    found = re.match(r"DIBS_API\s[^;]*?\b(dibs_\w+)\s*\(", declaration)
    return found and found[1]


def section(header):
    """The page's section about a header, and the functions that it declares."""
    text = pathlib.Path(header).read_text(encoding="utf-8")
    out, functions = [f".SH <dibs/{pathlib.Path(header).name}>"], []
    for comment, declarations in entries(text):
        about = roff(flat(comment)) if comment else ""
        if about and not declarations:
            out += [".PP", about]
        for declaration in declarations:
            name = prototype(declaration)
            if name:
                functions.append(name)
                declaration = re.sub(r"\bDIBS_(API|MUST_USE)\s+", "", declaration)
                # Lines end between arguments only.
                declaration = ", ".join(" ".join(part.split()).replace(" ", "\0") for part in re.split(r",\s+", declaration))
            lines = [roff(line) for line in "\n".join(narrow(declaration)).replace("\0", " ").split("\n")]
            out += [".PP", ".nf", *(f"\\fB{line}\\fR" if name else line for line in lines), ".fi"]
            if about:
                out += [".RS", about, ".RE"]
            about = ""  # it is of the first
    return out, functions


def library(args, folder, sym, example, *headers):
    exported = [line for line in pathlib.Path(sym).read_text(encoding="utf-8").split() if line.startswith("dibs_")]
    sections, declared = [], []
    for header in headers:
        out, functions = section(header)
        sections += out
        declared += functions
    if sorted(declared) != exported:
        sys.exit(f"man.py: {sym} and the headers differ: {sorted(set(declared) ^ set(exported))}")
    out = head(args, "DIBS", 3, "Library Functions", ["dibs", *declared], "network ports that stay yours, in C")
    out += [".SH SYNOPSIS", ".nf", ".B #include <dibs/dibs.h>", ".PP",
            "\\fBcc\\fR \\fIFILE.c\\fR \\fB$(pkg\\-config \\-\\-cflags \\-\\-libs dibs)\\fR", ".fi", ".SH DESCRIPTION",
            roff("This page is made from the public headers: each section is one of them, and <dibs/dibs.h> includes them all.")]
    code = pathlib.Path(example).read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    out += sections + [".SH EXAMPLES", *display(code), ".SH SEE ALSO", ".BR dibs (1),", ".BR dibs.yaml (5)"]
    pathlib.Path(folder, "dibs.3").write_text(page(out), encoding="utf-8")
    for name in exported:
        pathlib.Path(folder, name + ".3").write_text(".so man3/dibs.3\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--revised", required=True)
    parser.add_argument("what", choices=("manifest", "library"))
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    {"manifest": manifest, "library": library}[args.what](args, *args.files)


if __name__ == "__main__":
    main()
