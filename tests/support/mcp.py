"""A client of `dibs mcp` that writes raw lines, for tests: python3 -c 'exec(open(".../mcp.py").read())' and a script."""
import json
import os
import select
import subprocess

NEWEST = "2025-06-18"
TIME = 60  # seconds; a message that does not come must fail with a message


class Session:
    """A server; initialized, unless `version` is None. Every call fails when stdout has anything but messages."""

    def __init__(self, *options, version=NEWEST, capabilities=None, cwd=None, program=None, env=None):
        command = program or [os.environ["DIBS"], "mcp", *options]
        self.server = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, bufsize=0,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.rest, self.n = b"", 0
        if version:
            client = {"protocolVersion": version, "capabilities": capabilities or {},
                      "clientInfo": {"name": "test", "version": "1"}}
            self.greeting = self.request("initialize", client)["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, *messages):
        """Messages as values, or as the bytes of a line."""
        lines = (m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages)
        self.server.stdin.write(b"".join(line + b"\n" for line in lines))

    def hear(self):
        """The next message."""
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.server.stdout], [], [], TIME)
            assert ready, f"no message within {TIME} s; so far: {self.rest[:200]}"
            piece = os.read(self.server.stdout.fileno(), 1 << 16)
            assert piece, f"the server has ended; stderr: {self.server.stderr.read()}"
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def request(self, method, params=None, **more):
        """Ask, and return the whole answer, which must be the next message."""
        self.n += 1
        self.send({"jsonrpc": "2.0", "id": self.n, "method": method, **({} if params is None else {"params": params}), **more})
        answer = self.hear()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.n, answer
        return answer

    def call(self, tool, **arguments):
        """Call a tool and return its result."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]

    def give(self, tool, **arguments):
        """Call a tool that must not fail; return its structured answer, which its text repeats."""
        result = self.call(tool, **arguments)
        assert "isError" not in result, result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"], result
        return result["structuredContent"]

    def fail(self, tool, **arguments):
        """Call a tool that must fail; return its text, which says what to do next."""
        result = self.call(tool, **arguments)
        assert result.get("isError") is True and "structuredContent" not in result, result
        text = result["content"][0]["text"]
        assert ". Next: " in text, text
        return text

    def refuse(self, method, params=None, **more):
        """Ask for what must be an error of the protocol; return its code."""
        answer = self.request(method, params, **more)
        assert answer["error"]["message"], answer
        return answer["error"]["code"]

    def close(self):
        """End its input; it must end with nothing more to say. Return its exit code."""
        self.server.stdin.close()
        out, err = self.server.stdout.read(), self.server.stderr.read()
        assert not self.rest + out and not err, (self.rest + out, err)
        return self.server.wait(TIME)


def dibs(*words, cwd=None):
    """What the command prints."""
    return subprocess.run([os.environ["DIBS"], *words], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()
