#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `remora report` in headless Chromium.

usage: report_page_test.py BIN_FOLDER [unittest words]

BIN_FOLDER holds remora and remora_zoo. Exit 77 where there is no browser.
"""

import os
import sys
import tempfile
import unittest

import webdriver
from answers_test import Answers, Large, Quiet, Sweep  # noqa: F401
from arena_test import ArenaPicture  # noqa: F401
from behaviour_test import Behaviour  # noqa: F401
from devices_test import Devices, Lanes  # noqa: F401
from looks_test import Looks  # noqa: F401
from numbers_test import Numbers  # noqa: F401
from page_case import PageTest
from pages import Pages


def main(argv):
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 64
    if absent := webdriver.missing():
        print("skipped: there is no " + absent)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        PageTest.pages = pages = Pages(os.path.abspath(argv[1]), folder)
        for make in (
            pages.make_unet,
            pages.make_large,
            pages.make_refused,
            pages.make_bare,
            pages.make_hollow,
            pages.make_placed,
            pages.make_sweep,
            pages.make_devices,
            pages.make_lanes,
            pages.make_evil,
            pages.make_resident,
        ):
            make()
        with webdriver.Browser() as browser:
            PageTest.browser = browser
            return 0 if unittest.main(argv=argv[:1] + argv[2:], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
