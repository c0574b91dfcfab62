# SPDX-License-Identifier: Apache-2.0
"""Decisions about a step, and an exact replay of each decision."""
