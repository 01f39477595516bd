"""torchrun --nproc-per-node 2 -m reference_tests.translation.two_processes FOLDER

Trains FOLDER/ddp and FOLDER/fsdp, four steps of FOLDER/fsdp-begun, the last two of FOLDER/begun, with FSDP, and the
first two of FOLDER/elastic; or, if that has four already, its last two.
"""

import os
import sys
from pathlib import Path

from reference_tests.translation import tiny
from scratch_transformer.translation import distribution
from scratch_transformer.translation.train import resume

folder = Path(sys.argv[1])
if (folder / "elastic").exists():
    resume(folder / "elastic", say=lambda line: None, **{"training.steps": 6})
    distribution.stop()
    sys.exit()
tiny.run(folder / "elastic", model__dropout=0.0, training__steps=2)
tiny.run(folder / "ddp", model__dropout=0.0, data__on_disk=True)
said = tiny.run(folder / "fsdp", model__dropout=0.0, training__engine="fsdp")
assert sum("translated at the end only" in line for line in said) == (os.environ["RANK"] == "0")
tiny.run(folder / "fsdp-begun", model__dropout=0.0, training__engine="fsdp", training__steps=4)
resume(folder / "begun", say=lambda line: None, **{"training.engine": "fsdp", "training.steps": 6})
distribution.stop()
