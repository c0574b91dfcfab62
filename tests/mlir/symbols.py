# SPDX-License-Identifier: Apache-2.0
"""What each op of a printed function computes, as a digest of its text and of what its operands are.

Two ops with one symbol compute the same from the same, whatever their values are called and whichever copies they read;
the pass's own mark does not count. So a rewritten function is right if and only if its return, and its ops with effects
in their order, have the symbols that they had.
"""

import hashlib
import re

from buffers import function_lines

VALUE = re.compile(r"%\w+(?:#\d+)?")
MARK = re.compile(r"remora\.copy = \d+ : i64(?:, )?")


class Op:
    def __init__(self, text, results, symbol):
        self.text, self.results, self.symbol = text, results, symbol

    @property
    def name(self):
        return re.match(r"(?:%[^=]+ = )?\"?([\w.]+)", self.text).group(1)

    @property
    def marked(self):
        return "remora.copy" in self.text


def op_texts(module, function):
    """The ops of the function's block, each with the lines of its regions."""
    texts = []
    for line in function_lines(module, function)[1:]:
        if re.match(r" {4}[^ ^}]", line):
            texts.append(line.strip())
        else:
            texts[-1] += "\n" + line.strip()
    return texts


def read_ops(module, function):
    head = function_lines(module, function)[0]
    symbols, ops = {name: name for name in re.findall(r"(%\w+):", head)}, []
    for text in op_texts(module, function):
        named = re.match(r"((?:%[\w:]+(?:, )?)+) = ", text)
        results, body = [], text
        if named:
            body = text[named.end() :]
            for name in named.group(1).split(", "):
                base, _, count = name.partition(":")
                results += [f"{base}#{k}" for k in range(int(count))] if count else [base]
        local = {}

        def replace(match, local=local):
            value = match.group(0)
            return symbols.get(value) or local.setdefault(value, f"%local{len(local)}")

        plain = re.sub(r"( attrs =)? +\{\}", "", MARK.sub("", body)).rstrip()
        symbol = hashlib.sha256(VALUE.sub(replace, plain).encode()).hexdigest()[:16]
        for k, result in enumerate(results):
            symbols[result] = f"<{symbol}.{k}>"
        ops.append(Op(text, results, symbol))
    return ops
