# SPDX-License-Identifier: MIT
"""Every verb, of both clients, with and without a daemon."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import HAS_DAEMON, command

import dibs


def test_the_tests_run_in_the_mode_that_was_asked_for(client: Any) -> None:
    assert client.daemon() == (os.environ["DIBS_SOCKET"] if HAS_DAEMON else None)


def test_the_package_has_the_version_of_the_program() -> None:
    assert json.loads(command("version", "--json").stdout) == {"version": dibs.__version__}


def test_a_claim_is_held_by_this_process_and_released(client: Any) -> None:
    claim = client.claim()
    assert claim.holder.kind == "process" and claim.holder.pid == os.getpid()
    assert 20000 <= claim.port <= 32767 and claim.token and claim.bindings[0].address == "*"
    assert client.find(claim).id == claim.id
    assert client.release(claim) == 1
    assert client.release(claim) == 0
    for which in (claim, dibs.Token(claim.token)):
        with pytest.raises(dibs.NotFound):
            client.find(which)


def test_a_name_is_the_one_that_the_command_line_has(client: Any, tmp_path: Path) -> None:
    claim = client.claim("web")
    assert (claim.name, claim.project) == (f"{tmp_path.name}/web", str(tmp_path))
    listed = json.loads(command("ls", "--json", "--brief").stdout)
    assert [(row["port"], row["name"]) for row in listed if row["name"] == claim.name] == [(claim.port, claim.name)]
    assert client.claim("web").was_there
    assert client.find("web").id == client.find(claim.port).id == client.find("/" + claim.name).id == claim.id
    assert client.release("web") == 1 and client.release("web") == 0
    assert client.claim("web").port == claim.port
    assert client.claim("/infra/db").name == "infra/db"


def test_names_of_a_git_worktree_have_its_branch(client: Any, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "feature/x", "."], check=True)
    (tmp_path / "below").mkdir()
    os.chdir("below")
    name = client.claim("web").name
    planned = json.loads(command("claim", "web", "--json", "--dry-run", "--pid", str(os.getpid())).stdout)
    assert name == planned[0]["name"] == f"{tmp_path.name}@feature%2Fx/web"


def test_options_of_a_claim(client: Any) -> None:
    both = client.claim(proto="tcp,udp", address=["127.0.0.1", "::1"], range="21000-21999")
    assert {(b.proto, b.address) for b in both.bindings} == {
        (proto, address) for proto in ("tcp", "udp") for address in ("127.0.0.1", "::1")
    }
    assert 21000 <= both.port <= 21999
    fixed = client.claim(port=both.port, address="127.0.0.2")
    assert fixed.port == both.port and fixed.kind == "static"
    assert client.claim(prefer=both.port, address="127.0.0.1").port != both.port
    assert not client.claim(declare=both.port).exclusive
    kept = client.claim("kept", keep=True)
    assert kept.holder is None and kept.kept
    lease = client.claim(ttl=timedelta(seconds=90))
    assert lease.holder.ttl_ms == 90_000
    assert client.claim(pid=os.getppid()).holder.pid == os.getppid()


def test_several_claims_at_once(client: Any, tmp_path: Path) -> None:
    a, b = client.claim_many("a", "b")
    assert {a.name, b.name} == {f"{tmp_path.name}/a", f"{tmp_path.name}/b"} and a.port != b.port
    run = client.claim_many("shard", count=4, contiguous=True, align=4)
    assert [c.port for c in run] == list(range(run[0].port, run[0].port + 4)) and run[0].port % 4 == 0
    assert [c.name for c in run] == [f"{tmp_path.name}/shard/{i}" for i in range(4)]
    assert len(client.claim_many(count=3)) == 3
    planned = client.claim_many("c", dry_run=True)
    assert planned[0].id == 0
    assert client.release("shard") == 4
    with pytest.raises(dibs.NotFound):
        client.find("c")
    with pytest.raises(dibs.Usage):
        client.claim_many("a", "b", count=2)


def test_get_keeps_a_port_and_finds_it_again(client: Any) -> None:
    first = client.get("api")
    assert first.kept and first.holder is None and not first.was_there
    again = client.get("api")
    assert again.was_there and (again.id, again.port) == (first.id, first.port)
    assert command("get", "api").stdout == f"{first.port}\n"


def test_a_lease_is_renewed_as_long_as_it_was_or_as_asked(client: Any) -> None:
    claim = client.claim("lease", ttl="1m")
    assert client.renew(claim).holder.ttl_ms == 60_000
    assert client.renew(claim, "2m").holder.ttl_ms == 120_000
    assert client.renew("lease").holder.ttl_ms == 120_000
    assert client.renew(dibs.Token(claim.token), timedelta(minutes=3)).holder.ttl_ms == 180_000


def test_transfer_gives_a_new_token_and_the_old_one_ends_nothing(client: Any) -> None:
    claim = client.claim("moved", ttl="1m")
    mine = client.transfer(claim)
    assert mine.holder.pid == os.getpid() and mine.token != claim.token
    assert client.release(claim) == 0
    kept = client.transfer("moved", keep=True)
    assert kept.holder is None and kept.kept
    assert client.release(kept) == 1


def test_a_claim_of_a_list_is_released_and_not_its_successor(client: Any, tmp_path: Path) -> None:
    client.claim_many("one", "two")
    listed = {claim.name.rpartition("/")[2]: claim for claim in client.list(tmp_path.name)}
    assert set(listed) == {"one", "two"} and all(claim.token is None for claim in listed.values())
    assert client.release(listed["one"]) == 1
    client.release("two")
    successor = client.claim("two")
    assert client.release(listed["two"]) == 0
    assert client.find(successor).id == successor.id
    unnamed = client.claim()
    [found] = client.list(port=unnamed.port)
    assert client.renew(client.transfer(found, ttl="1m"), "2m").holder.ttl_ms == 120_000


def test_release_all_ends_the_claims_of_this_project(client: Any, tmp_path: Path) -> None:
    client.claim_many("a", "b", "c")
    assert client.release_all() == 3
    assert client.list(tmp_path.name) == []


def test_who_explain_and_assert_know_the_listener(client: Any) -> None:
    claim = client.claim("server")
    with pytest.raises(dibs.Taken):
        client.assert_listening("server")
    with socket.create_server(("", claim.port), family=socket.AF_INET6, dualstack_ipv6=True):
        for which in ("server", claim, claim.port, dibs.Token(claim.token)):
            assert client.assert_listening(which).pid == os.getpid()
        for which in ("server", claim.port):
            report = client.who(which)
            assert [c.id for c in report.claims] == [claim.id]
            assert [s.pid for s in report.sockets] == [os.getpid()] and report.sockets[0].serves
        for which in ("server", claim.port):
            report = client.explain(which)
            assert not report.can_claim and report.reasons[0].kind == "claimed"
    client.release(claim)
    with pytest.raises(dibs.NotFound, match=f"^port {claim.port}: no claim and no socket$"):
        client.who(claim.port)
    assert not client.explain(99, pool="default").can_choose


def test_the_log_and_the_events_have_every_change_once(client: Any) -> None:
    before = client.log(limit=1)[-1].seq if client.log(limit=1) else 0
    claim = client.claim("seen")
    client.release(claim)
    wanted = [("claimed", claim.port, claim.name), ("released", claim.port, claim.name)]
    seen = [e for e in client.events(before, idle=0.5) if e.claim == claim.id]
    assert [(e.what, e.port, e.name) for e in seen] == wanted
    logged = [e for e in client.log(since=before, limit=1000) if e.claim == claim.id]
    assert [(e.what, e.port, e.name) for e in logged] == wanted and logged == seen
    # From the last one on: nothing twice.
    assert [e for e in client.events(seen[-1].seq, idle=0.2) if e.claim == claim.id] == []
    with pytest.raises(dibs.Missed):
        list(client.events(seen[-1].seq + 1_000_000, idle=0.2))


def test_pools_have_their_usage(client: Any) -> None:
    [default] = [pool for pool in client.pools() if pool.name == "default"]
    assert default.ranges == "20000-32767" and default.usage.size == 12768
    claim = client.claim()
    assert client.pool("default").usage.dynamic >= 1 and client.find(claim)
    with pytest.raises(dibs.NotFound):
        client.pool("no-such-pool")


def test_settings_of_the_caller_count(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, the user's file and the manifest, as on the command line."""
    monkeypatch.setenv("DIBS_TTL", "7m")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "dibs").mkdir()
    (tmp_path / "dibs/dibs.yaml").write_text("range: 22000-22099\n")
    fresh = type(client)() if isinstance(client, dibs.Client) else client
    assert 22000 <= fresh.claim().port <= 22099
    (tmp_path / "project").mkdir()
    os.chdir("project")
    Path("dibs.yaml").write_text("range: 23000-23099\n")
    assert 23000 <= fresh.claim().port <= 23099
    Path("../broken").mkdir()
    os.chdir("../broken")
    Path("dibs.yaml").write_text("nonsense: 1\n")
    with pytest.raises(dibs.Usage, match="has no key 'nonsense'"):
        fresh.claim()
    assert fresh.list("nobody") == []


def test_a_role_of_the_manifest_has_its_environment(client: Any) -> None:
    Path("dibs.yaml").write_text(
        "group: shop\n"
        "roles:\n"
        "  api: { ports: [ { name: http, env: PORT } ] }\n"
        "  web: { ports: [ { name: http, env: PORT } ], references: [ { env: API_PORT, from: api.http } ] }\n"
    )
    assert {change.change for change in client.plan()} == {"add"}
    ports = {change.claim.name.split("/")[1]: change.claim.port for change in client.up()}
    assert client.env("web") == {"PORT": str(ports["web"]), "API_PORT": str(ports["api"])}
    assert client.get("web").port == ports["web"] and client.find("api/http").port == ports["api"]
    own = client.env("web", pid=os.getpid(), group="test")
    assert set(own) == {"PORT", "API_PORT"} and set(own.values()).isdisjoint(map(str, ports.values()))
    assert {change.change for change in client.down()} == {"drop"}
    with pytest.raises(dibs.NotFound):
        client.env("wbe")


def test_wait_takes_a_port_as_soon_as_it_is_free(client: Any) -> None:
    claim = client.claim(ttl="10m")
    with pytest.raises(dibs.Taken, match="^waited 100ms: "):
        client.claim(port=claim.port, wait="100ms")
    timer = threading.Timer(0.3, command, ["release", str(claim.port)])
    timer.start()
    assert client.claim(port=claim.port, wait="60s").port == claim.port
    timer.join()


def test_the_same_key_gets_the_same_claim(client: Any) -> None:
    first = client.claim(key="job-4711 " + os.getcwd())
    assert client.claim(key="job-4711 " + os.getcwd()).id == first.id
    with pytest.raises(dibs.Usage, match="was used before, for another request"):
        client.claim(key="job-4711 " + os.getcwd(), proto="udp")


def test_a_block_ends_its_claim_and_leaves_one_that_was_there(sync_client: dibs.Client) -> None:
    with sync_client.claim("web") as claim:
        with sync_client.claim("web") as inner:
            assert inner.was_there
        assert sync_client.find("web").id == claim.id
    with pytest.raises(dibs.NotFound):
        sync_client.find("web")
    kept = sync_client.get("kept")
    with pytest.raises(ZeroDivisionError), sync_client.claim("kept") as held:
        assert held.holder and held.holder.pid == os.getpid()
        raise ZeroDivisionError
    left = sync_client.find("kept")
    assert left.id == kept.id and left.kept and left.holder is None


def test_a_claim_can_be_sent_to_another_process(sync_client: dibs.Client) -> None:
    claim = sync_client.claim(ttl="1m")
    copy = pickle.loads(pickle.dumps(claim))
    assert copy == claim
    with pytest.raises(TypeError):
        copy.__enter__()
    assert sync_client.release(copy) == 1


def test_a_client_works_in_many_threads_and_after_a_fork(sync_client: dibs.Client) -> None:
    claims: list[dibs.Claim] = []

    def work() -> None:
        claims.extend(sync_client.claim() for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({claim.port for claim in claims}) == 40
    child = os.fork()
    found = [sync_client.claim() for _ in range(20)]
    if child == 0:
        os._exit(0 if all(claim.holder and claim.holder.pid == os.getpid() for claim in found) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert all(claim.holder and claim.holder.pid == os.getpid() for claim in found)
    assert sync_client.release(claims[0]) == 1


def test_a_child_that_leaves_its_parents_block_ends_nothing(sync_client: dibs.Client) -> None:
    with sync_client.claim() as claim, sync_client.listen() as listener:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(SystemExit):
                with claim, listener:
                    sys.exit()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert {claim.port, listener.port} <= {other.port for other in sync_client.list()}
    assert not {claim.port, listener.port} & {other.port for other in sync_client.list()}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_use_the_client_that_they_are_given(
    sync_client: dibs.Client, method: str
) -> None:
    sync_client.list()  # it has a connection
    with multiprocessing.get_context(method).Pool(2) as pool:
        claims = pool.map(sync_client.claim, [None] * 4)
        assert len({claim.port for claim in claims}) == 4
        workers = {process.pid for process in multiprocessing.active_children()}
        assert {claim.holder.pid for claim in claims if claim.holder} <= workers
    copy = pickle.loads(pickle.dumps(dibs.AsyncClient(group="shop", timeout=7)))
    assert copy._options() == {"socket": None, "group": "shop", "directory": None, "timeout": 7}


@pytest.mark.parametrize("timeout", [math.inf, 1e9, 86400.5])
def test_a_timeout_may_be_longer_than_that_of_the_program(client: Any, timeout: float) -> None:
    claim = client.claim(timeout=timeout)
    assert client.find(claim, timeout=timeout).port == claim.port


def test_group_and_directory_of_a_client(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with dibs.Client(directory=str(tmp_path / "elsewhere")) as client:
        assert client.claim("web").project == str(tmp_path / "elsewhere")
    with dibs.Client(group="shop-" + tmp_path.name) as client:
        claim = client.claim("web")
        assert (claim.name, claim.project) == (f"shop-{tmp_path.name}/web", None)
        assert client.find("web").id == claim.id
        assert [c.id for c in client.list("shop-" + tmp_path.name)] == [claim.id]
