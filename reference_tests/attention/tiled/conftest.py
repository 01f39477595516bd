import pytest

from scratch_transformer.attention.tiled import few, problem, tile


@pytest.fixture(scope="module")
def small_tiles():
    """Tiles of 4 queries at most, 3 keys and a few heads, so that small tensors have many, and ragged ones."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"QUERIES": 4, "KEYS": 3, "SHORT": 6, "TILE": 24}.items():
            patch.setattr(problem, name, size)
        patch.setattr(tile, "QUERIES", 4)
        patch.setattr(few, "WIDENED", 0)
        tile._triangles.cache_clear()
        yield
        tile._triangles.cache_clear()
