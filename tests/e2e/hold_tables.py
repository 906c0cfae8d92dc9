#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what each level of holding stops and which programs work under it, and makes the tables of docs/HOLD.md.

usage: hold_tables.py DIBS DOCUMENT [--write]

Runs as root in a network namespace of its own. Without --write it fails when the tables of the document differ from
what it measures. The claims, the programs that own them and most thieves belong to ordinary users.
"""
import concurrent.futures
import contextlib
import encodings.idna  # noqa: F401: it is loaded late, and by another user
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

DIBS, DOCUMENT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
OWNER, OTHER, ROOT = 65534, 65533, 0
FIRST, LAST = 40000, 40015  # the ephemeral range
PATIENCE_S = 40  # a program starts within it, also on a busy machine
PLACE = tempfile.mkdtemp(prefix="hold-")
SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
LEVELS = ["none", "guard", "fd", "enforce", "--reserve", "enforce --reserve"]
PROGRAMS = LEVELS + ["--confine", "auto"]


def daemon(name, *options):
    """Start a daemon of root; its public socket, or None when it says that it cannot."""
    folder = os.path.join(PLACE, name)
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    path = os.path.join(folder, "sock")
    log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
    process = subprocess.Popen([DIBS, "serve", "--socket", path, "--admin-socket", path + ".admin", *options], stderr=log,
                               env={**os.environ, "DIBS_LEDGER": f"sqlite:{folder}/ledger.db", "DIBS_SOCKET": "none"})
    DAEMONS.append(process)
    for _ in range(PATIENCE_S * 20):
        if process.poll() is not None:
            print(open(os.path.join(folder, "log"), encoding="utf-8").read(), file=sys.stderr)
            return None
        if subprocess.run([DIBS, "ls"], env=settings(path), capture_output=True).returncode == 0:
            return path
        time.sleep(0.05)
    raise SystemExit(f"the daemon {name} does not answer")


def settings(path):
    return {"PATH": os.environ["PATH"], "HOME": PLACE, "DIBS_SOCKET": path, "XDG_RUNTIME_DIR": PLACE}


DAEMONS = []


class Owner:
    """A command of `dibs run` on a port, in a session of its own."""

    def __init__(self, level, command, protocol="tcp", port=None):
        self.level, self.protocol = level, protocol
        options = {"--reserve": [], "--confine": ["--confine"], "auto": []}.get(level, ["--hold", level.split(" ", 1)[0]])
        name = "web" if port is None else f"web={port}"
        self.said = tempfile.TemporaryFile()
        project = tempfile.mkdtemp(dir=PLACE)
        os.chmod(project, 0o777)
        self.ready = os.path.join(project, "port")
        script = 'echo "$WEB_PORT" >"$0.new" && mv "$0.new" "$0"; exec "$@"'
        words = [re.sub("PORT", "{web}", word) for word in command]
        self.process = subprocess.Popen([DIBS, "run", *options, "--proto", protocol, "-p", name, "--", "sh", "-c", script, self.ready, *words],
                                        env=settings(SOCKETS[level]), cwd=project, user=OWNER, group=OWNER, extra_groups=[],
                                        start_new_session=True, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said)
        self.port = None

    def wait(self):
        for _ in range(PATIENCE_S * 50):
            if os.path.exists(self.ready):
                self.port = int(open(self.ready, encoding="ascii").read())
                return self
            if self.process.poll() is not None:
                raise SystemExit(f"{self.level}: {self.text()}")
            time.sleep(0.02)
        raise SystemExit(f"{self.level}: the command does not start: {self.text()}")

    def text(self):
        self.said.seek(0)
        return self.said.read().decode(errors="replace")

    def answers(self):
        """Whether a client gets an answer before the program ends."""
        for _ in range(PATIENCE_S * 50):
            if self.protocol == "udp":
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                    client.settimeout(0.2)
                    try:
                        client.connect(("127.0.0.1", self.port))
                        client.send(b"x")
                        return client.recv(9) == b"x"
                    except OSError:
                        pass
            else:
                try:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    return True
                except OSError:
                    pass
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


# ---- thieves: each returns whether it got the port ----

def outgoing(port):
    """Connections until the ephemeral range is exhausted."""
    got = []
    with socket.create_server(("127.0.0.1", 30000)) as server:
        server.listen(64)
        try:
            while len(got) <= LAST - FIRST:
                got.append(socket.create_connection(("127.0.0.1", 30000)))
        except OSError:
            pass
        assert len(got) >= LAST - FIRST, f"only {len(got)} connections"
        return any(s.getsockname()[1] == port for s in got)


def storm(kind):
    def bind_to_0(port):
        got = []
        try:
            while len(got) <= LAST - FIRST:
                got.append(socket.socket(socket.AF_INET, kind))
                got[-1].bind(("0.0.0.0", 0))
        except OSError:
            got.pop()
        assert len(got) >= LAST - FIRST, f"only {len(got)} binds"
        return any(s.getsockname()[1] == port for s in got)
    return bind_to_0


def bind(address, *options, kind=socket.SOCK_STREAM):
    def thief(port):
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        for option in options:
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.listen()
        except OSError:
            return False
        return True
    return thief


ADDR, PORT, UDP = socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SOCK_DGRAM
THIEVES = [
    ("outgoing connections that exhaust the range", OTHER, outgoing),
    ("a storm of `bind(0)`, TCP", OTHER, storm(socket.SOCK_STREAM)),
    ("a storm of `bind(0)`, UDP", OTHER, storm(UDP)),
    ("another user, no reuse option", OTHER, bind("0.0.0.0")),
    ("another user, `SO_REUSEADDR`", OTHER, bind("0.0.0.0", ADDR)),
    ("another user, `SO_REUSEPORT`", OTHER, bind("0.0.0.0", PORT)),
    ("the same user, no reuse option", OWNER, bind("0.0.0.0")),
    ("the same user, `SO_REUSEPORT`", OWNER, bind("0.0.0.0", PORT)),
    ("root, no reuse option", ROOT, bind("0.0.0.0")),
    ("root, both reuse options", ROOT, bind("0.0.0.0", ADDR, PORT)),
    ("IPv4 on one address, no reuse option", OTHER, bind("127.0.0.1")),
    ("IPv6, no reuse option", OTHER, bind("::1")),
    ("UDP, no reuse option", OTHER, bind("0.0.0.0", kind=UDP)),
    ("UDP, `SO_REUSEADDR`", OTHER, bind("0.0.0.0", ADDR, kind=UDP)),
]


def as_user(uid, fn, port):
    """Call fn(port) in a child of that user."""
    child = os.fork()
    if child == 0:
        try:
            if uid:
                os.setresuid(uid, uid, uid)
            os._exit(10 + fn(port))
        except BaseException as e:  # the child must not go on as its parent
            print(f"thief: {e}", file=sys.stderr)
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (10, 11), f"a thief failed: {code}"
    return code == 11


def thieves_table():
    columns = {}
    for number, level in enumerate(LEVELS):
        if not SOCKETS[level]:
            continue
        # A claim of tcp and udp on all addresses, whose owner has not bound yet.
        owner = Owner(level, ["sleep", "600"], "tcp+udp", FIRST + 3 + number).wait()
        columns[level] = ["**taken**" if as_user(uid, thief, owner.port) else "stopped" for _, uid, thief in THIEVES]
        owner.end()
    return table("thief", LEVELS, [name for name, _, _ in THIEVES], columns)


# ---- owners ----

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if len(sys.argv) > 2: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
while True: s.sendto(*s.recvfrom(99))
"""
PLAIN = """
import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
while True: s.accept()[0].close()
"""
AWARE = """
import os, socket, sys
if os.environ.get("LISTEN_PID") == str(os.getpid()): s = socket.socket(fileno=3)
else: s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True: s.accept()[0].close()
"""
NODE = "require('http').createServer((q, a) => a.end('x')).listen(WHERE)"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def nginx(folder):
    conf = os.path.join(folder, "nginx.conf.in")
    with open(conf, "w", encoding="ascii") as file:
        file.write(f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
                   "http { access_log off; client_body_temp_path F/b; proxy_temp_path F/p; fastcgi_temp_path F/f; uwsgi_temp_path F/u; scgi_temp_path F/s;\n"
                   "server { listen 127.0.0.1:NUMBER; } }\n".replace("F/", folder + "/"))
    return ["sh", "-c", f'sed "s/NUMBER/$1/" {conf} >{folder}/nginx.conf; exec nginx -e stderr -p {folder} -c {folder}/nginx.conf', "sh", "PORT"]


def postgres(folder):
    """One database for all levels, one after the other: making one takes seconds."""
    versions = sorted(os.listdir("/usr/lib/postgresql"), key=int) if os.path.isdir("/usr/lib/postgresql") else []
    path = f"/usr/lib/postgresql/{versions[-1]}/bin" if versions else os.path.dirname(shutil.which("initdb"))
    if not os.path.exists(DATABASE):
        subprocess.run([f"{path}/initdb", "-D", DATABASE, "-A", "trust", "-N", "-U", "u", "--no-locale"], user=OWNER, group=OWNER, extra_groups=[],
                       cwd=PLACE, env={"PATH": os.environ["PATH"], "HOME": PLACE}, check=True, capture_output=True)
    return [f"{path}/postgres", "-D", DATABASE, "-p", "PORT", "-k", folder, "-F", "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=1MB"]


DATABASE, DATABASE_LOCK = os.path.join(PLACE, "database"), threading.Lock()
OWNERS = [  # name, protocol, command by its folder
    ("python3 -m http.server", "tcp", lambda f: [PYTHON, "-m", "http.server", "PORT"]),
    ("node, `http`", "tcp", lambda f: ["node", "-e", NODE.replace("WHERE", "+process.argv[1], '127.0.0.1'"), "PORT"]),
    ("nginx", "tcp", nginx),
    ("redis-server", "tcp", lambda f: ["redis-server", "--port", "PORT", "--save", "", "--dir", f, "--bind", "127.0.0.1"]),
    ("PostgreSQL", "tcp", postgres),
    ("a server that takes LISTEN_FDS", "tcp", lambda f: [PYTHON, "-c", AWARE, "PORT"]),
    ("node, `listen({ fd: 3 })`", "tcp",
     lambda f: ["node", "-e", NODE.replace("WHERE", "process.env.LISTEN_FDS ? { fd: 3 } : +process.argv[1]"), "PORT"]),
    ("a TCP server without a reuse option", "tcp", lambda f: [PYTHON, "-c", PLAIN, "PORT"]),
    ("a UDP server with `SO_REUSEADDR`", "udp", lambda f: [PYTHON, "-c", ECHO, "PORT", "reuse"]),
    ("a UDP server without a reuse option", "udp", lambda f: [PYTHON, "-c", ECHO, "PORT"]),
]


def works(case):
    with DATABASE_LOCK if case[0][0] == "PostgreSQL" else contextlib.nullcontext():
        return measure(*case)


def measure(program, level):
    name, protocol, command = program
    folder = tempfile.mkdtemp(dir=PLACE)
    os.chown(folder, OWNER, OWNER)
    owner = Owner(level, command(folder), protocol).wait()
    # With `fd` dibs listens, so that a connection succeeds for a while even if the program cannot bind.
    result = owner.answers()
    if level == "fd":
        try:
            owner.process.wait(PATIENCE_S if "fd: 3" not in name and "LISTEN_FDS" not in name else 1)
            result = False
        except subprocess.TimeoutExpired:
            pass
    if not result and "in use" not in owner.text() and "EADDRINUSE" not in owner.text():
        raise SystemExit(f"{name} under {level}: neither an answer nor EADDRINUSE: {owner.text()}")
    owner.end()
    return "works" if result else "cannot bind"


def owners_table():
    cases = [(owner, level) for level in PROGRAMS if SOCKETS[level] for owner in OWNERS]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(works, cases))
    columns = {}
    for (_, level), result in zip(cases, results):
        columns.setdefault(level, []).append(result)
    assert set(columns["auto"]) == {"works"}, f"auto breaks a program: {columns['auto']}"
    return table("program", PROGRAMS, [name for name, _, _ in OWNERS], columns)


# ---- the document ----

def table(title, levels, rows, columns):
    lines = [f"| {title} | " + " | ".join(f"`{level}`" for level in levels) + " |", "|---" * (len(levels) + 1) + "|"]
    for i, row in enumerate(rows):
        lines.append(f"| {row} | " + " | ".join(columns[level][i] if level in columns else "?" for level in levels) + " |")
    return lines


def same(measured, written):
    """Compare, where a column was measured."""
    cells = [[line.split("|") for line in text] for text in (measured, written)]
    return len(cells[0]) == len(cells[1]) and all(
        len(a) == len(b) and all(x == y or x.strip() == "?" for x, y in zip(a, b)) for a, b in zip(*cells))


def place(text, name, lines, is_written):
    begin, end = f"<!-- {name}: made by tests/e2e/hold_tables.py -->\n", "<!-- end -->\n"
    head, rest = text.split(begin)
    old, tail = rest.split(end, 1)
    if is_written:
        return head + begin + "\n".join(lines) + "\n" + end + tail
    if not same(lines, old.splitlines()):
        raise SystemExit(f"{DOCUMENT} is not what was measured; tests/e2e/hold_tables.py writes it:\n" + "\n".join(lines))
    return text


def main():
    is_written = "--write" in sys.argv
    os.chmod(PLACE, 0o777)
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as file:
        file.write(f"{FIRST} {LAST}")
    plain, reserving, enforcing = daemon("plain"), daemon("reserving", "--reserve"), daemon("enforcing", "--enforce")
    both = daemon("both", "--enforce", "--reserve")
    SOCKETS.update({"enforce --reserve": both, "none": plain, "guard": plain, "fd": plain, "auto": plain, "--confine": plain, "--reserve": reserving, "enforce": enforcing})
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    text = place(text, "thieves", thieves_table(), is_written)
    text = place(text, "programs", owners_table(), is_written)
    if is_written:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(text)
    if not enforcing:
        print("not measured: enforce")


SOCKETS = {}
try:
    main()
finally:
    for process in DAEMONS:
        process.terminate()
    for process in DAEMONS:
        process.wait()
    shutil.rmtree(PLACE, ignore_errors=True)
