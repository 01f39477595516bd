"""A browser, and pages of trained and of random models in it. Playwright is imported when a test asks for a page."""

import dataclasses
import os
import shutil

import pytest
import torch

from scratch_transformer.translation import checkpoint
from scratch_transformer.translation.checkpoint import load_run
from scratch_transformer.translation.config import Config
from scratch_transformer.translation.trained import FOLDER
from scratch_transformer.view import page as make_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SENTENCE = "four hundred and twenty-one"


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(
            "these tests need Chromium or Chrome: `apt-get install chromium`, `brew install --cask chromium`, or its "
            "path in the environment variable CHROMIUM",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def run():
    return load_run(FOLDER)


@pytest.fixture(scope="session")
def file(run, tmp_path_factory):
    return written(make_page(run, SENTENCE), tmp_path_factory)


def written(html, tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "view.html"
    path.write_text(html, encoding="utf-8")
    return path


class Visit:
    """A page that was opened, and what it said and asked for meanwhile."""

    def __init__(self, page, file, address=""):
        self.page, self.errors, self.requests = page, [], []
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(file.as_uri() + address)
        page.wait_for_selector("html[data-ready]")

    def text(self, selector):
        return self.page.inner_text(selector)

    def translate(self, text):
        self.page.fill("#sentence", text)
        return self.text("#answer")

    def hash(self):
        return dict(pair.split("=") for pair in self.page.evaluate("location.hash").removeprefix("#").split("&"))

    def checked(self):
        """The largest difference that the page has found between its numbers and the recorded ones."""
        self.page.wait_for_selector("#self-check[data-right]", timeout=60_000)
        return float(self.page.get_attribute("#self-check", "data-largest"))


@pytest.fixture
def open_page(browser, file):
    """open_page(address="", file=..., **options of the context) -> Visit"""
    contexts = []

    def open_page(address="", file=file, **options):
        contexts.append(browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **options}))
        return Visit(contexts[-1].new_page(), file, address)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def random_run(run):
    """random_run(**settings): the trained run's vocabularies with a model of other settings and random weights."""

    def random_run(**settings):
        config: Config = run.config.replace(**{"data.max_length": 16, **settings})
        torch.manual_seed(0)
        model = checkpoint.build_model(config, run.source_tokenizer.vocab_size, run.target_tokenizer.vocab_size)
        for parameter in model.parameters():
            parameter.data = torch.randn_like(parameter) * (0.5 if parameter.dim() > 1 else 1)
        return dataclasses.replace(run, config=config, model=model.eval())

    return random_run
