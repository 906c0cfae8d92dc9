# shellcheck shell=bash
# A stack for bats files:   load ../support/dibs; load ../support/two_servers

# two_servers DIRECTORY: a project with a front end that asks its own back end, and a back end that tells where it is.
two_servers() {
    local python
    python=$(command -v /usr/bin/python3 || command -v python3)
    mkdir "$1"
    cat >"$1/dibs.yaml" <<END
roles:
  api: { ports: [ { name: http, env: PORT } ], command: [ $python, -u, serve.py, api ] }
  web:
    ports: [ { name: http, env: PORT }, { name: live, env: LIVE_PORT, scope: RoleScoped } ]
    references: [ { env: API_PORT, from: api.http } ]
    command: [ $python, -u, serve.py, web ]
END
    cat >"$1/serve.py" <<'END'
import http.server, os, sys, urllib.request


def answer():
    if sys.argv[1] == "api":
        return os.getcwd()
    with urllib.request.urlopen(f"http://127.0.0.1:{os.environ['API_PORT']}/", timeout=10) as api:
        return "by way of " + api.read().decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = answer().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
print("serving")
server.serve_forever()
END
}
