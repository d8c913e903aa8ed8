"""The site works without a server and without network: its pages are opened as files."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from .launching import ended_well, run

ROOT = Path(__file__).parent.parent
BROWSER = shutil.which("chromium")


@pytest.mark.whole
def test_search_finds_a_name_from_a_page_that_is_opened_as_a_file(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra docs is not installed")
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    ended_well(run([*build, "--site-dir", str(site)], NO_MKDOCS_2_WARNING="1"))
    loaded = {
        script for page in site.rglob("*.html") for script in re.findall('<script src="([^"]*)', page.read_text())
    }
    assert loaded
    assert [script for script in loaded if ":" in script] == []
    if BROWSER is None:
        pytest.skip("no chromium")
    browser = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    address = f"file://{site}/howto/farm.html?q=segmented_prefix"
    shown = ended_well(run([*browser, "--virtual-time-budget=20000", "--dump-dom", address]))
    assert "md-search-result__item" in shown
