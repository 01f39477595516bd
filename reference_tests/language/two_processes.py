"""torchrun --nproc-per-node 2 -m reference_tests.language.two_processes FOLDER

Trains FOLDER/ddp and FOLDER/fsdp, and the last two steps of FOLDER/begun with FSDP.
"""

import sys
from pathlib import Path

from reference_tests.language import tiny
from scratch_transformer.translation import distribution

folder = Path(sys.argv[1])
tiny.run(folder / "ddp", model__dropout=0.0)
tiny.run(folder / "fsdp", model__dropout=0.0, training__engine="fsdp")
tiny.resume(folder / "begun", **{"training.engine": "fsdp", "training.steps": 6})
distribution.stop()
