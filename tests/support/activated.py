"""A server that takes its sockets by systemd's protocol: LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES.

usage: activated.py [--serve]

Prints a line for each socket: name, protocol, "listening" or "bound", address and port, and whether the port is
that of the variable NAME_PORT. With --serve it then answers one TCP connection of the first socket with "hello".
"""
import os
import socket
import stat
import sys

n = int(os.environ["LISTEN_FDS"])
names = os.environ["LISTEN_FDNAMES"].split(":")
assert int(os.environ["LISTEN_PID"]) == os.getpid(), "LISTEN_PID is another process"
if "LISTEN_PIDFDID" in os.environ:
    assert os.fstat(os.pidfd_open(os.getpid())).st_ino == int(os.environ["LISTEN_PIDFDID"]), "LISTEN_PIDFDID is another process"
assert len(names) == n, names
sockets = [socket.socket(fileno=3 + i) for i in range(n)]
for name, s in zip(names, sockets):
    is_tcp = s.type == socket.SOCK_STREAM
    is_listening = is_tcp and s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    host, port = s.getsockname()[:2]
    wanted = os.environ.get(name.upper() + "_PORT", os.environ["PORT"])
    print(name, "tcp" if is_tcp else "udp", "listening" if is_listening else "bound", host, port == int(wanted), flush=True)
for fd in range(3 + n, 200):
    try:
        assert not stat.S_ISSOCK(os.fstat(fd).st_mode), f"socket {fd} was left open"
    except OSError:
        pass
if "--serve" in sys.argv:
    connection, _ = sockets[0].accept()
    connection.sendall(b"hello\n")
    connection.close()
