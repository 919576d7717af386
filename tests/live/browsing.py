"""A headless Chromium for tests of the live page; skipped, loudly, where there is none."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def browser(width: int = 1300, height: int = 900) -> Iterator[Any]:
    """A browser window."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if None in found:
        why = "no chromium and chromium-driver here"
        warnings.warn(f"the live page is not tested in a browser: {why}", stacklevel=2)
        pytest.skip(why)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(found[0])
    # Without a sandbox: root has none, and what is opened is our own page.
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(found[1])))
    try:
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()


def resize(driver: Any, width: int, height: int) -> None:
    """Make the window so large, as a phone's if it is narrow."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def theme(driver: Any, name: str) -> None:
    """light or dark"""
    features = [{"name": "prefers-color-scheme", "value": name}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def until(driver: Any, script: str, wanted: Callable[[Any], bool], timeout_s: float = 30) -> Any:
    """Run a script in the page again and again, until its value is as wanted."""
    deadline = time.monotonic() + timeout_s
    while not wanted(value := driver.execute_script(f"return {script}")):
        assert time.monotonic() < deadline, f"{script} is still {value!r}"
        time.sleep(0.05)
    return value
