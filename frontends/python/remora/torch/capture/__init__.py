# SPDX-License-Identifier: Apache-2.0
"""Graphs and traces of a step, made by PyTorch's tracers and compilers."""
