"""A tiny run, trained once for each file of tests, and a copy of it for a test that changes it."""

import shutil

import pytest

from reference_tests.translation import tiny


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tiny.run(folder)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")
