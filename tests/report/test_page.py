"""The page in a real browser, at two widths, light and dark: it shows itself and does nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import demo_runs
import report_strategies as given_
from repeatguard_sdk.report import build_report
from repeatguard_sdk.report.as_html import to_html

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if CHROMIUM is None or CHROMEDRIVER is None:
    pytest.skip("chromium or chromedriver is not installed", allow_module_level=True)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
LOGS = {"browser": "ALL", "performance": "ALL"}
TITLE = "What to mend: repeatguard report"
# WCAG's contrast of each piece of text with what is behind it; below 4.5 it is hard to read.
FAINT = """
const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const numbers = text => text.match(/[\\d.]+/g).map(Number);
const behind = node => {
  for (; node; node = node.parentElement) {
    const back = numbers(getComputedStyle(node).backgroundColor);
    if (back.length < 4 || back[3] === 1) return back;
  }
  return [255, 255, 255];
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
for (let node; node = walker.nextNode();) {
  if (!node.data.trim()) continue;
  const parent = node.parentElement;
  const a = light(numbers(getComputedStyle(parent).color)), b = light(behind(parent));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) found.push([contrast, node.data.trim().slice(0, 40)]);
}
return found;
"""
# Sections that take no room, or stick out at the side.
WRONG = """
return [...document.querySelectorAll("section, article, table, h1, h2, h3, dl, figure")]
  .filter(node => !node.closest("details:not([open])"))
  .filter(node => {
    const box = node.getBoundingClientRect();
    return !(box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= innerWidth + 0.5);
  })
  .map(node => node.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of ordinary runs, one full of hostile text, and one of nothing."""
    sink = demo_runs.sample(runs=200)
    reports = {
        "demo": build_report(sink.repeats, sink.runs, max_turns=20),
        "hostile": build_report([*given_.hostile_events(), *sink.repeats], sink.runs),
        "empty": build_report([], []),
    }
    folder = tmp_path_factory.mktemp("pages")
    paths = {}
    for name, report in reports.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(to_html(report), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", LOGS)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    yield driver
    driver.quit()


def look(browser: Any, path: Path, width: int, scheme: str) -> None:
    """Open a page as a device of that width with that colour scheme."""
    browser.get("about:blank")
    for log in LOGS:
        browser.get_log(log)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(path.as_uri())


def seen_on_the_wire(browser: Any, method: str) -> list[dict[str, Any]]:
    """Return what the browser tells of its requests: the parameters of each such message."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [message["params"] for message in messages if message["method"] == method]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 1280])
@pytest.mark.parametrize("name", ["demo", "hostile", "empty"])
def test_the_page_is_readable(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """Nothing sticks out, every part is there, text stands out, and nothing was run or asked for."""
    look(browser, pages[name], width, scheme)
    wide, room = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room == width
    assert [] == browser.execute_script(WRONG)
    assert [] == browser.execute_script(FAINT)
    assert TITLE == browser.title
    assert [] == browser.get_log("browser")
    requests = seen_on_the_wire(browser, "Network.requestWillBeSent")
    assert [pages[name].as_uri()] == [each["request"]["url"] for each in requests]


@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_every_part_is_there(browser: Any, pages: dict[str, Path], name: str) -> None:
    """Each link of the page leads to a part of it that can be seen."""
    look(browser, pages[name], 1280, "light")
    links = browser.execute_script(
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href').slice(1))"
    )
    assert {"tools", "notes", "saved", "findings", "time", "method", "tool-1"} <= set(links)
    for link in links:
        height = "return document.getElementById(arguments[0]).getBoundingClientRect().height"
        assert browser.execute_script(height, link) > 0


def test_dark_is_dark(browser: Any, pages: dict[str, Path]) -> None:
    """The page follows the scheme that its reader has chosen."""
    backgrounds = []
    for scheme in ("light", "dark"):
        look(browser, pages["demo"], 390, scheme)
        script = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        backgrounds.append(sum(browser.execute_script(script)))
    assert backgrounds[0] > 600 > 150 > backgrounds[1]


def test_the_browser_would_run_no_script(browser: Any, pages: dict[str, Path]) -> None:
    """Even a script that got into the page is stopped by the page's own policy, and so is a request."""
    look(browser, pages["demo"], 1280, "light")
    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'document.title = \"owned\"';"
        "const image = document.createElement('img');"
        "image.src = 'http://127.0.0.1:9/x';"
        "document.body.append(script, image)"
    )
    assert TITLE == browser.title
    said = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "script-src" in said
    assert "img-src" in said
    failed = seen_on_the_wire(browser, "Network.loadingFailed")
    assert ["csp"] == [each.get("blockedReason") for each in failed]
