"""The text of a whole corpus: prints, reads back, verifies, compares with NVIDIA's disassembler.

    python tests/sweeps/cuda_tile_text.py ../shared/corpus [--vendor=PATH/TO/tileirdisasm]

Prints one line per file that is not right, then the counts. Ends with status 1 if any is not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tileiras.bytecode.reader import read_module
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.errors import TileirasError

MODES = ((False, False), (False, True), (True, False), (True, True))
"""Generic or not, with locations or not."""


def check_file(path: Path, vendor: str | None) -> list[str]:
    """What is wrong with one file."""
    wrong = []
    module = read_module(path.read_bytes())
    try:
        verify_module(module)
    except TileirasError as error:
        wrong.append(f"does not verify: {error.render()}")
    for generic, debug_info in MODES:
        mode = f"{'generic' if generic else 'custom'}{' with locations' if debug_info else ''}"
        text = print_module(module, generic=generic, debug_info=debug_info)
        try:
            again = parse_module(text)
        except TileirasError as error:
            wrong.append(f"{mode} form does not parse: {error.render()}")
            continue
        if not module.is_structurally_equivalent(again):
            wrong.append(f"{mode} form reads back as another program")
        if vendor is not None and not generic:
            command = [vendor, *(["-g"] if debug_info else []), str(path)]
            printed = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            if printed != text:
                wrong.append(f"{mode} form differs from the vendor's")
    return wrong


def main(arguments: list[str]) -> int:
    """Checks all files of the directory that is named."""
    folders = [Path(argument) for argument in arguments if not argument.startswith("--")]
    vendors = [text.removeprefix("--vendor=") for text in arguments if text.startswith("--vendor=")]
    if len(folders) != 1:
        print(__doc__)
        return 1
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for path in sorted(folders[0].glob("*.tileirbc")):
        wrong = check_file(path, vendors[0] if vendors else None)
        counts["files"] += 1
        counts["wrong"] += bool(wrong)
        for line in wrong:
            print(f"{path.name}: {line}")
    seconds = time.monotonic() - start
    print(f"{counts['files']} files, {counts['wrong']} not right, {seconds:.1f} s")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
