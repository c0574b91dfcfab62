# SPDX-License-Identifier: Apache-2.0
"""The time and memory that ops and kernels take."""
