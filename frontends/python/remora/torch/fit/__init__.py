# SPDX-License-Identifier: Apache-2.0
"""Will it fit? Plans for a device that need not be there. See docs/guide/fit.md."""

from ._largest import FitTable, Largest, fit_table, largest
from ._memory import Item
from ._plan import plan
from ._rates import FitDevice, device_of, known_devices, measure_device
from ._result import FitPlan, picture

__all__ = [
    "FitDevice",
    "FitPlan",
    "FitTable",
    "Item",
    "Largest",
    "device_of",
    "fit_table",
    "known_devices",
    "largest",
    "measure_device",
    "picture",
    "plan",
]
