# SPDX-License-Identifier: Apache-2.0
"""Will it fit? Plans for a device that need not be there. See docs/fit.md."""

from ._fit import plan
from ._memory import Item
from ._rates import FitDevice, device_of, known_devices
from ._result import FitPlan

__all__ = ["FitDevice", "FitPlan", "Item", "device_of", "known_devices", "plan"]
