#!/usr/bin/env bash
# The first hour of these kernels on a GPU, in steps of ten minutes at most. What they show is kept line by line, and a
# step that was cut off goes on where it stopped.
#
#   benchmarks/first_contact.sh                  all steps, one after the other
#   benchmarks/first_contact.sh smoke tests      some of them: smoke tests race choices bench profile summary
#   benchmarks/first_contact.sh --dry            the same on a processor with tiny cases, to see that the script works
#
# Results: $OUT, or first-contact/. The log, and Triton's compiled kernels, stay in first-contact/ between calls. PYTHON
# names another interpreter. Needs torch and triton, for the tests pytest and hypothesis (faster and safer with pytest-xdist
# and pytest-timeout), for bench click, rich, jinja2 and matplotlib. The package need not be installed.
set -uo pipefail
cd "$(dirname "$0")/.."

export CONTACT_DIR="${CONTACT_DIR:-$PWD/first-contact}"
export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$CONTACT_DIR/triton-cache}" PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
PYTHON="${PYTHON:-python3}" OUT="${OUT:-$CONTACT_DIR}" DRY="" SCREEN="$CONTACT_DIR/screen.txt"
mkdir -p "$CONTACT_DIR" "$OUT"
if [ "${1:-}" = --dry ]; then DRY=--dry; shift; fi
STEPS="${*:-smoke tests race choices bench profile summary}"
export PYTHON DRY

keep() {  # what has been found so far, to where it is wanted
    [ "$OUT" -ef "$CONTACT_DIR" ] || cp -f "$CONTACT_DIR"/*.jsonl "$CONTACT_DIR"/*.txt "$CONTACT_DIR"/bench/*.json "$OUT"/ 2>/dev/null
    return 0
}
trap keep EXIT

note() {  # name, status, seconds: a line of the log
    printf '{"kind": "step", "name": "%s", "status": %s, "seconds": %s}\n' "$@" | tee -a "$CONTACT_DIR/log.jsonl"
}

limited() {  # seconds, command: killed at the limit, and everything that it prints is kept
    local limit=$1; shift
    timeout -k 5 "$limit" "$@" 2>&1 | tee -a "$SCREEN"
    return "${PIPESTATUS[0]}"
}

one_by_one() {  # seconds, processes at a time, module and its arguments: a process for each name that it lists
    local limit=$1 processes=$2; shift 2
    [ -z "$DRY" ] || limit=600  # a processor may be busy with something else
    "$PYTHON" -m "$1" --list $DRY | timeout -k 5 570 xargs -r -P "$processes" -I{} \
        timeout -k 5 "$limit" "$PYTHON" -m "$@" {} $DRY 2>&1 | tee -a "$SCREEN"
    return "${PIPESTATUS[1]}"
}

smoke() {  # 3 minutes: a mistake with barriers hangs a kernel for ever, so each first launch may be killed
    one_by_one 60 4 benchmarks.contact.smoke
}

tests() {  # 6 minutes
    local files=(reference_tests/attention/gpu/test_{on_cuda,triton_flash,decode}.py)
    local how=()
    "$PYTHON" -c 'import xdist' 2>/dev/null && how+=(-n 8)
    "$PYTHON" -c 'import pytest_timeout' 2>/dev/null && how+=(--timeout 120)
    [ -z "$DRY" ] || how=(--collect-only -q)
    limited 570 "$PYTHON" -m pytest "${files[@]}" "${how[@]}" -W default -p no:cacheprovider
}

race() {  # 6 minutes
    limited 540 "$PYTHON" -m benchmarks.contact.race $DRY
}

choices() {  # 9 minutes
    one_by_one 120 1 benchmarks.contact.race --choices
}

bench() {  # 9 minutes; the JSON is written after each case
    local command=("$PYTHON" -m scratch_transformer bench --device cuda --out "$CONTACT_DIR/bench")
    if [ -n "$DRY" ]; then echo "would run: ${command[*]}"; return; fi
    limited 580 "${command[@]}"
}

profile() {  # 5 minutes
    local sanitize="compute-sanitizer --error-exitcode 9 --tool"
    local counters="ncu --set full --kernel-name regex:(hopper|flash|grad).* --launch-count 6"
    for tool in memcheck synccheck; do
        for name in hopper-no-queries-beyond triton-grouped decode-D128; do
            check $sanitize $tool "$PYTHON" -m benchmarks.contact.smoke $name
        done
    done
    for name in hopper-D128-full triton-D128-full; do
        check $counters "$PYTHON" -m benchmarks.contact.smoke $name
    done
}

check() {  # a tool of CUDA's, where it is there
    if [ -n "$DRY" ]; then echo "would run: $*"
    elif command -v "$1" >/dev/null; then limited 70 "$@"
    else echo "$1 is not installed"; fi
}

summary() {
    "$PYTHON" -m benchmarks.contact.summary | tee "$CONTACT_DIR/summary.txt"
}

for STEP in $STEPS; do
    case $STEP in
        smoke | tests | race | choices | bench | profile | summary) ;;
        *) echo "there is no step $STEP" >&2; exit 2 ;;
    esac
    echo "== $STEP"
    start=$SECONDS
    "$STEP"
    status=$?
    [ "$STEP" = summary ] || note "$STEP" "$status" $((SECONDS - start))
    keep
done
