# SPDX-License-Identifier: Apache-2.0
"""Compares a step with plain eager execution."""
