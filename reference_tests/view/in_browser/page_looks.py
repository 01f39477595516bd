"""The page for everybody: on every screen, in light and dark, without a mouse, and read aloud."""

import json

import pytest

STATES = [
    "",
    "#at=decoder.self_attention.weights&layer=1&head=2&query=2",
    "#at=encoder.feed_forward.hidden&layer=1&numbers=difference",
    "#at=probabilities&token=2",
    "#at=encoder.residual_connections.0.norm.mean&layer=2",
    "#mistake=A13&off=encoder.0.self.1&draw=3&temperature=2",
]


@pytest.mark.parametrize(
    "scheme, rules", [("light", {}), ("dark", {"runOnly": ["color-contrast"]})], ids=["light", "dark"]
)
def test_axe_finds_nothing(scheme, rules, open_page):
    """Of the dark colours only what colours can be wrong in: all else is the same page's.

    Of what is right axe would name every node, which takes as long again.
    """
    from axe_playwright_python.sync_playwright import Axe

    visit = open_page(color_scheme=scheme, bypass_csp=True)
    for state in STATES:
        visit.page.evaluate("(state) => { location.hash = state || '#s=seven'; }", state)
        visit.page.wait_for_timeout(150)
        visit.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        visit.page.wait_for_timeout(50)
        found = Axe().run(visit.page, options={**rules, "resultTypes": ["violations"]}).response["violations"]
        told = [(rule["id"], [node["html"][:120] for node in rule["nodes"][:3]]) for rule in found]
        assert not found, f"{state} {scheme}: {json.dumps(told, indent=1)}"


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_fits_the_screen(width, open_page):
    visit = open_page(viewport={"width": width, "height": 900})
    for state in [*STATES, "#s=nine+hundred+and+eighty-seven+thousand%2C+six+hundred+and+fifty-four"]:
        visit.page.evaluate("(state) => { location.hash = state || '#s=seven'; }", state)
        visit.page.evaluate("document.getElementById('whatif').open = true")
        visit.page.wait_for_timeout(60)
        assert visit.page.evaluate("document.documentElement.scrollWidth") == width, state


def test_the_tab_key_reaches_everything(open_page):
    visit = open_page()
    reached = set()
    for _ in range(90):
        visit.page.keyboard.press("Tab")
        reached |= set(
            visit.page.evaluate("Array.of(document.activeElement).flatMap((e) => [e.id, ...e.classList, e.tagName])")
        )
    expected = {
        "sentence",
        "another",
        "begin",
        "SUMMARY",
        "chip",
        "head",
        "head-off",
        "CANVAS",
        "query",
        "back",
        "forth",
    }
    assert expected <= reached


def test_the_step_is_read_aloud(open_page):
    visit = open_page()
    assert visit.page.evaluate("document.getElementById('says').parentElement.getAttribute('aria-live')") == "polite"
    canvas = visit.page.locator("#numbers .heat canvas")
    assert "rows" in canvas.get_attribute("aria-label")
    assert visit.page.locator("#numbers .cell").get_attribute("aria-live") == "polite"


def test_the_focus_stays_where_it_was(open_page):
    visit = open_page()
    chip = "#diagram [data-at='decoder.cross_attention.scores 2']"
    visit.page.focus(chip)
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("document.activeElement.dataset.at") == "decoder.cross_attention.scores 2"


def test_equations_are_mathml(open_page):
    visit = open_page()
    assert visit.page.locator("#why math mfrac").count() == 1
