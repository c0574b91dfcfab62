# SPDX-License-Identifier: Apache-2.0
"""From a problem and a budget to a decision."""
