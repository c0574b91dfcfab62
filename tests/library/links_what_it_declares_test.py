# SPDX-License-Identifier: Apache-2.0
"""Each function that an installed header declares and does not define is in the library: a program that calls it links.

The compiler says what is declared: clang's syntax tree of all headers, with each function's name as linkers know it.
"""

import json
import shutil
import sys

from installed import Installed, run, skip_under_sanitizers

WITHOUT_CODE = ("explicitlyDefaulted", "explicitlyDeleted", "isImplicit", "pure")
FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl"}
TEMPLATES = {"FunctionTemplateDecl", "ClassTemplateDecl", "ClassTemplatePartialSpecializationDecl"}


def syntax_trees(text):
    """The documents that follow one another."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        tree, at = decoder.raw_decode(text, at)
        yield tree


def collect(node, declared, defined):
    """Of functions that are no templates: what is declared, and what has a body, by the names that linkers know."""
    kind = node.get("kind", "")
    if kind in TEMPLATES:
        return
    inner = node.get("inner", ())
    if kind in FUNCTIONS and "mangledName" in node:
        has_body = any(part.get("kind") in ("CompoundStmt", "CXXTryStmt") for part in inner)
        if has_body or any(node.get(mark) for mark in WITHOUT_CODE):
            defined.add(node["mangledName"])
        else:
            declared[node["mangledName"]] = node.get("name", "")
        return
    for part in inner:
        collect(part, declared, defined)


def functions_of(headers, include):
    source = "".join(f'#include "{header}"\n' for header in headers)
    words = [
        "clang++",
        "-std=c++20",
        "-x",
        "c++",
        "-I",
        include,
        "-fsyntax-only",
        "-Xclang",
        "-ast-dump=json",
        "-Xclang",
        "-ast-dump-filter=remora",
        "-",
    ]
    declared, defined = {}, set()
    for tree in syntax_trees(run(words, input=source)):
        collect(tree, declared, defined)
    return {mangled: name for mangled, name in declared.items() if mangled not in defined}


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    if shutil.which("clang++") is None:
        print("skipped: no clang++ here, which says what headers declare (scripts/install_packages lint)")
        sys.exit(77)
    # remora/mlir is for the plugin's hosts.
    headers = sorted(path for path in (installed.include / "remora").rglob("*.hpp") if path.parent.name != "mlir")
    headers += [installed.include / name for name in ("remora.h", "remora_devices.h", "remora_c.hpp")]
    asked = functions_of(headers, installed.include)
    there = {line.split()[-1] for line in run(["nm", "--dynamic", "--defined-only", installed.library]).splitlines()}
    missing = {mangled: name for mangled, name in asked.items() if mangled not in there}
    assert not missing, missing
    assert {"solve", "verify", "remora_solve"} <= set(asked.values()), sorted(asked.values())
    print(f"{len(asked)} functions of {len(headers)} headers")


main()
