"""Where a page links to the documentation."""

import pytest

from scratch_transformer import pages

PAGE = "mistakes/LN1.html"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("SCRATCH_TRANSFORMER_DOCS", raising=False)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "DISTRIBUTION", "no-such-distribution")


def test_nobody_knows_where_it_is():
    assert pages.documentation(PAGE) == ""


def test_the_site_built_in_the_checkout(tmp_path):
    built = tmp_path / "docs" / "_build" / "html" / PAGE
    built.parent.mkdir(parents=True)
    built.touch()
    assert pages.documentation(PAGE) == built.as_uri()


def test_the_address_of_the_package(monkeypatch):
    metadata = type("Metadata", (), {"get_all": lambda self, name: ["Source, https://b", "Documentation, https://a/"]})
    monkeypatch.setattr(pages.importlib.metadata, "metadata", lambda name: metadata())
    assert pages.documentation(PAGE) == f"https://a/{PAGE}"


def test_the_environment_comes_first(monkeypatch):
    monkeypatch.setenv("SCRATCH_TRANSFORMER_DOCS", ".")
    assert pages.documentation(PAGE) == f"./{PAGE}"


def test_a_report_links_to_the_catalogue(monkeypatch):
    from scratch_transformer.kit import check
    from scratch_transformer.kit.report.finding import Report
    from scratch_transformer.kit.report.text import page

    def layer_norm(x, weight, bias, eps=1e-5):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + eps).sqrt() * weight + bias

    report = Report("mine.py", [check(layer_norm, "LayerNorm")])
    assert "<a" not in page(report)
    monkeypatch.setenv("SCRATCH_TRANSFORMER_DOCS", "https://a")
    assert '<a href="https://a/mistakes/LN1.html">LN1</a>' in page(report)
