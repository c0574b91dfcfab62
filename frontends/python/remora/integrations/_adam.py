# SPDX-License-Identifier: Apache-2.0
"""What an optimizer will take that has not run yet."""

from __future__ import annotations

import torch


def adam_bytes(model: torch.nn.Module) -> int:
    """Bytes of Adam's state: two numbers for each that is trained, of the parameter's type."""
    return sum(2 * p.nbytes for p in model.parameters() if p.requires_grad)
