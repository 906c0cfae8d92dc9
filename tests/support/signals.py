#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records the signals of a command: signals.py FILE...

Takes every signal that can be taken, and appends its name to FILE, with "*" when a value came along; "ready" comes
first. SIGUSR2 ends it."""
import os
import signal
import sys

KEPT = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSTOP}
SI_QUEUE = -1

signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - KEPT)
with open(sys.argv[1], "a", encoding="ascii", buffering=1) as report:
    report.write("ready\n")
    while True:
        info = signal.sigwaitinfo(signal.valid_signals() - KEPT)
        name = signal.Signals(info.si_signo).name if info.si_signo in list(signal.Signals) else str(info.si_signo)
        report.write(name + ("*" if info.si_code == SI_QUEUE else "") + "\n")
        if info.si_signo == signal.SIGUSR2:
            os._exit(77)
