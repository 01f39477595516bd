"""`python -m scratch_transformer` is `scratch-transformer`."""

from scratch_transformer.cli import main

main(prog_name="scratch-transformer")
