# SPDX-License-Identifier: Apache-2.0
"""The shared library lets programs see what the headers declare, and nothing of what it stands on."""

import re
import sys

from installed import Installed, run, skip_under_sanitizers

OURS = re.compile(r"(typeinfo( name)? for |vtable for |VTT for )?remora::|remora_[a-z_]+$")


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    names = [
        line.split(" ", 2)[2]
        for line in run(["nm", "--dynamic", "--demangle", "--defined-only", installed.library]).splitlines()
    ]
    assert not (foreign := [name for name in names if not OURS.match(name)]), foreign
    assert not (inside := [name for name in names if re.search("Gecode|tbb|nlohmann|Worker", name)]), inside

    headers = [(installed.include / name).read_text(encoding="utf-8") for name in ("remora.h", "remora_devices.h")]
    declared = set(re.findall(r"REMORA_EXPORT [^;]*?(remora_\w+)\(", "".join(headers)))
    exported = {name for name in names if name.startswith("remora_")}
    assert declared == exported and len(declared) > 50, declared ^ exported

    dynamic = run(["readelf", "--dynamic", installed.library])
    assert re.search(r"SONAME.*\[libremora\.so\.\d+\.\d+\]", dynamic), dynamic
    print(f"{len(names)} symbols, {len(declared)} of them C functions")


main()
