# SPDX-License-Identifier: Apache-2.0
"""What is decided about a step, and an exact replay of each decision."""
