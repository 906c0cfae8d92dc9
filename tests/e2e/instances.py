#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many instances of one role, whose controller is killed at any moment: instances.py INSTANCES ROUNDS SEED.

Run in a directory and a network of its own; the program is $DIBS. After every kill the ledger is what it was before the
command or what the command makes of it, nothing in between; the next run goes on from there; and no instance ever has
another port than the one that it got first."""
import json
import os
import random
import signal
import subprocess
import sys
import time

DIBS = os.environ["DIBS"]
INSTANCES, ROUNDS, SEED = (int(arg) for arg in sys.argv[1:4])
TRIES = 50  # of one command until it is not killed any more
random = random.Random(SEED)


def manifest(instances):
    with open("dibs.yaml.new", "w", encoding="ascii") as file:
        file.write(f"roles: {{ worker: {{ instances: {instances}, ports: [ {{ name: http, env: PORT }} ] }} }}\n")
    os.rename("dibs.yaml.new", "dibs.yaml")


def dibs(*args):
    return subprocess.run([DIBS, "-q", *args], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()


def held():
    """Instance -> port, as a person sees it."""
    return {int(claim["name"].split("/")[2]): claim["port"] for claim in json.loads(dibs("ls", "--json"))}


def kill_within(seconds, *args):
    """True when it was killed before it ended by itself."""
    process = subprocess.Popen([DIBS, "-q", *args], stdout=subprocess.DEVNULL)
    time.sleep(random.uniform(0, seconds))  # any moment of its life is as good as another
    process.send_signal(signal.SIGKILL)
    code = process.wait(timeout=60)
    assert code in (0, -signal.SIGKILL), f"{args} ended with {code}"
    return code != 0


def seconds_of(*args):
    began = time.monotonic()
    dibs(*args)
    return time.monotonic() - began


class Controller:
    def __init__(self):
        manifest(INSTANCES)
        self.seconds = {"up": seconds_of("up")}
        self.ports = held()
        self.seconds["down"] = seconds_of("down")
        self.seconds["get"] = seconds_of("get", "worker/0/http")
        dibs("up")
        assert held() == self.ports, "not the same ports after down and up"
        self.kills = self.before = self.after = 0
        assert len(self.ports) == INSTANCES, f"{len(self.ports)} instances have a port"
        assert len(set(self.ports.values())) == INSTANCES, "one port for two instances"

    def only(self, instances):
        return {i: self.ports[i] for i in instances}

    def reach(self, want, *args):
        """The command is killed and run again until it has done what it is for."""
        for attempt in range(TRIES):
            was = held()
            # The machine may have become slower since the command was measured.
            killed = kill_within((1.2 + attempt / 10) * self.seconds[args[0]], *args)
            now = held()
            assert now in (was, want), (f"{args} left {len(now)} claims of {len(was)} before and {len(want)} after it; "
                                        f"seed {SEED}")
            self.kills += killed
            self.before += killed and now != want
            self.after += killed and now == want
            if now == want:
                return
        raise AssertionError(f"{args} was killed {TRIES} times before it could do anything; seed {SEED}")

    def turn(self):
        few = random.randrange(INSTANCES)
        some = random.sample(range(INSTANCES), 5)
        manifest(few)
        self.reach(self.only(range(few)), "up")
        manifest(INSTANCES)
        self.reach(self.only(range(INSTANCES)), "up")
        self.reach({}, "down")
        for n, one in enumerate(some):  # in any order, one by one
            self.reach(self.only(some[:n + 1]), "get", f"worker/{one}/http")
        self.reach(self.only(range(INSTANCES)), "up")


def main():
    controller = Controller()
    for _ in range(ROUNDS):
        controller.turn()
    print(f"seed {SEED}: {INSTANCES} instances, {controller.kills} kills, "
          f"{controller.before} of them before the change and {controller.after} after it")
    assert controller.before, "no kill came in time to show anything"


main()
