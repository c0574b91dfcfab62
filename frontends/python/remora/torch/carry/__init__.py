# SPDX-License-Identifier: Apache-2.0
"""Makes a decision happen, and takes it off again."""
