# SPDX-License-Identifier: Apache-2.0
"""One measured run: a program in a process group of its own, pinned, watched, and gone afterwards."""
import ctypes
import dataclasses
import os
import re
import select
import signal
import subprocess
import time

from harness.suite import InputError

LOOK = 0.04  # seconds between two looks at the clock and at the child's memory
GRACE = 10  # seconds from SIGTERM to SIGKILL
LONGEST_LINE = 400
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# Large fresh allocations cost page faults, which a smaller peak saves: for all contenders they stay with the process.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


@dataclasses.dataclass
class Outcome:
    code: int = -1  # the exit code, or 128 and the signal that ended it
    late: bool = False  # it outlived the patience
    cancelled: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # on all cores, the system's time included
    peak_kibibytes: int = 0  # the largest resident memory that was seen, of the program itself
    last_error: str = ""  # its last line on standard error, printable ASCII, cut where it is long


def become(cores):
    """In the child, before it becomes the program: it does not outlive this one, and keeps to the first cores allowed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if cores > 0:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def peak_of(child):
    """The system's own maximum (ru_maxrss) would begin with that of this process, from which the child was forked."""
    try:
        with open(f"/proc/{child}/status", encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def end_group(child, number):
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        pass


def last_line(text):
    lines = [line for line in re.split(rb"[\r\n]+", text) if line]
    return "".join(chr(c) if 32 <= c < 127 else "?" for c in lines[-1][:LONGEST_LINE]) if lines else ""


def watch(child, errors, patience, cancelled):
    """Waits for the child, and ends it where it has to be ended. `errors` is the reading end of its standard error."""
    outcome, begin, text = Outcome(peak_kibibytes=peak_of(child)), time.monotonic(), b""
    os.set_blocking(errors, False)
    ended = os.pidfd_open(child)
    try:
        while True:
            ready = select.select([ended, errors], [], [], LOOK)[0]
            if errors in ready:
                text = (text + os.read(errors, 65536))[-65536:]
            outcome.peak_kibibytes = peak_of(child) or outcome.peak_kibibytes
            if ended in ready:
                break
            waited = time.monotonic() - begin
            if cancelled() or waited > patience + GRACE:
                outcome.cancelled = cancelled()
                end_group(child, signal.SIGKILL)
            elif waited > patience and not outcome.late:
                outcome.late = True
                end_group(child, signal.SIGTERM)
            if ready == [errors]:
                time.sleep(LOOK / 20)  # a closed pipe is always ready
        _, status, usage = os.wait4(child, 0)
        outcome.seconds = time.monotonic() - begin
    finally:
        os.close(ended)
        # What it started and left behind would disturb the next measurement.
        end_group(child, signal.SIGKILL)
    try:
        while more := os.read(errors, 65536):
            text = (text + more)[-65536:]
    except BlockingIOError:
        pass
    outcome.code = os.waitstatus_to_exitcode(status)
    if outcome.code < 0:
        outcome.code = 128 - outcome.code
    outcome.cpu_seconds = usage.ru_utime + usage.ru_stime
    outcome.last_error = last_line(text)
    return outcome


def run(words, patience, cores=0, cancelled=lambda: False):
    """Runs the program (looked for in PATH if its name has no slash), with empty input and its output thrown away, pinned
    to so many cores (0: all). After `patience` seconds it gets SIGTERM, and SIGKILL a little later; once `cancelled()`, SIGKILL
    at once. Raises InputError if it cannot be started."""
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 start_new_session=True, preexec_fn=lambda: become(cores))
    except OSError as error:
        raise InputError(f"{words[0]}: {error.strerror}") from None
    with child.stderr:
        outcome = watch(child.pid, child.stderr.fileno(), patience, cancelled)
    child.returncode = outcome.code  # it is waited for
    return outcome
