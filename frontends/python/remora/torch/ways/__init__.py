# SPDX-License-Identifier: Apache-2.0
"""The entry points: each connects a capture, a problem, and a carrier."""
