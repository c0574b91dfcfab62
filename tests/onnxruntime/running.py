# SPDX-License-Identifier: Apache-2.0
"""What the tests need beside examples/rewrite_onnx/runtime.py: the order in which nodes ran, and remora itself."""

import json
import os
import subprocess
import tempfile

import runtime


def executed(path):
    """The names of the nodes in the order in which onnxruntime ran them."""
    options = runtime.settings()
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = os.path.join(folder, "profile")
        running = runtime.session(path, options)
        running.run(None, runtime.feeds_of(running, 0))
        with open(running.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    suffix = "_kernel_time"
    return [
        event["name"][: -len(suffix)]
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(suffix)
    ]


def told(folder, *words):
    """The JSON that `remora` with these words prints; it must succeed."""
    words = [os.path.join(folder, "remora"), *words]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def remora(folder, *words):
    """Exit code and what it says on standard error."""
    done = subprocess.run([os.path.join(folder, words[0]), *words[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr
