# SPDX-License-Identifier: Apache-2.0
"""``python -m remora.onnx profile model.onnx -o costs.csv`` and ``python -m remora.onnx calibrate -o device.json``."""

from __future__ import annotations

import argparse
import glob
import os
import sys
from collections.abc import Sequence

from remora._arguments import write_text
from remora.errors import InputError
from remora.onnx import calibrate, profile

_BAD_USAGE = 64
_BAD_INPUT = 65


def _dimension(text: str) -> tuple[str, int]:
    name, sign, value = text.rpartition("=")
    if not sign or not name or not value.isdigit():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE with a value of at least 0, got '{text}'")
    return name, int(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m remora.onnx", description="Measured costs of ONNX models.")
    commands = parser.add_subparsers(dest="command", required=True)
    profiles = commands.add_parser("profile", help="what each node of a model takes, for remora --costs")
    profiles.add_argument(
        "model", metavar="MODEL", help="or a folder: writes NAME.costs.csv next to every NAME.onnx, for remora batch"
    )
    profiles.add_argument(
        "--dim", metavar="NAME=VALUE", type=_dimension, action="append", default=[], help="repeatable"
    )
    calibrates = commands.add_parser("calibrate", help="what this machine can do, for remora --device")
    calibrates.add_argument("--name", help="of the device")
    for command, what in ((profiles, "costs.csv"), (calibrates, "device.json")):
        command.add_argument("-o", "--output", metavar="FILE", help=f"for example {what}; standard output without it")
        command.add_argument("--runs", type=int, default=20, help="measured runs (default 20)")
        command.add_argument("--threads", type=int, default=1, help="threads inside a node (default 1)")
        command.add_argument("--provider", action="append", help="of onnxruntime, repeatable (default CPU)")
    return parser


def _profiled(model: str, words: argparse.Namespace, providers: list[str]) -> tuple[str, str]:
    taken = profile(model, runs=words.runs, threads=words.threads, providers=providers, dimensions=dict(words.dim))
    part = 100 * taken.total / taken.whole if taken.whole else 0.0
    return taken.to_csv(), f"{len(taken.nodes)} nodes, {taken.total / 1e6:.3f} ms, {part:.1f} % of a whole run"


def _profile_all(words: argparse.Namespace, providers: list[str]) -> int:
    """Profiles every model of a folder; one that cannot run is reported, and the others continue."""
    if words.output:
        raise InputError("-o", "the tables of a folder are written next to its models")
    code = 0
    for path in sorted(glob.glob(os.path.join(glob.escape(words.model), "*.onnx"))):
        try:
            text, said = _profiled(path, words, providers)
        except (InputError, OSError) as error:
            sys.stderr.write(f"remora.onnx: {error}\n")
            code = _BAD_INPUT
            continue
        write_text(os.path.splitext(path)[0] + ".costs.csv", text)
        sys.stderr.write(f"remora.onnx: {path}: {said}\n")
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    words = _parser().parse_args(arguments)
    providers = words.provider or ["CPUExecutionProvider"]
    try:
        if words.command == "profile":
            if os.path.isdir(words.model):
                return _profile_all(words, providers)
            text, said = _profiled(words.model, words, providers)
        else:
            device = calibrate(runs=words.runs, threads=words.threads, providers=providers, name=words.name)
            text = device.to_json()
            said = str(device)
        if words.output:
            write_text(words.output, text)
        else:
            sys.stdout.write(text)
    except (InputError, OSError) as error:
        sys.stderr.write(f"remora.onnx: {error}\n")
        return _BAD_INPUT
    except ImportError as error:
        sys.stderr.write(f"remora.onnx: {error}; pip install 'remora[onnx]'\n")
        return _BAD_USAGE
    sys.stderr.write(f"remora.onnx: {said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
