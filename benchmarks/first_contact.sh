#!/usr/bin/env bash
# The first hour of these kernels on a GPU, in steps of ten minutes at most. What they show is kept line by line, and a
# step that was cut off goes on where it stopped.
#
#   benchmarks/first_contact.sh                  all steps, one after the other
#   benchmarks/first_contact.sh smoke tests      some of them: smoke tests race choices bench profile summary
#   benchmarks/first_contact.sh --dry            the same on a processor with tiny cases, to see that the script works
#
# Results: $OUT, or first-contact/. The log, and Triton's compiled kernels, stay in first-contact/ between calls; on another
# machine, log.jsonl there says what has been done. PYTHON names another interpreter. Needs torch and triton, for the tests
# pytest (faster and safer with pytest-xdist and pytest-timeout), for bench click, rich, jinja2, matplotlib and psutil; a step
# whose needs are not met says so. The package need not be installed.
set -uo pipefail
cd "$(dirname "$0")/.."

export CONTACT_DIR="${CONTACT_DIR:-$PWD/first-contact}"
export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$CONTACT_DIR/triton-cache}" PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
PYTHON="${PYTHON:-python3}" OUT="${OUT:-$CONTACT_DIR}" DRY="" SCREEN="$CONTACT_DIR/screen.txt"
mkdir -p "$CONTACT_DIR" "$OUT"
if [ "${1:-}" = --dry ]; then DRY=--dry; shift; fi
[ -z "$DRY" ] || LIMIT=600  # a processor may be busy with something else
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

each() {  # options, module and its arguments: a process with a time limit for each name that it lists
    limited 590 "$PYTHON" -m benchmarks.contact.each "$@" $DRY
}

smoke() {  # 3 minutes: a mistake with barriers hangs a kernel for ever, so each first launch may be killed
    each --limit "${LIMIT:-60}" --processes 4 benchmarks.contact.smoke
}

tests() {  # 6 minutes
    local files=(reference_tests/attention/gpu/test_{on_cuda,triton_flash,decode}.py)
    local how=()
    "$PYTHON" -m benchmarks.contact.machine tests || return
    "$PYTHON" -c 'import xdist' 2>/dev/null && how+=(-n 8)
    # a signal would not be looked at before the kernel ends; so the whole process ends, and xdist begins another one
    "$PYTHON" -c 'import pytest_timeout, xdist' 2>/dev/null && how+=(--timeout 120 --timeout-method thread)
    [ -z "$DRY" ] || how=(--collect-only -q)
    limited 570 "$PYTHON" -m pytest -p benchmarks.contact.kept "${files[@]}" "${how[@]}" -W default -p no:cacheprovider
}

race() {  # 6 minutes
    each --limit "${LIMIT:-90}" benchmarks.contact.race
}

choices() {  # 9 minutes
    each --limit "${LIMIT:-120}" benchmarks.contact.race --choices
}

bench() {  # 9 minutes; the JSON is written after each case
    local command=("$PYTHON" -m scratch_transformer bench --device cuda --out "$CONTACT_DIR/bench" --minutes 9 --resume)
    "$PYTHON" -m benchmarks.contact.machine bench || return
    if [ -n "$DRY" ]; then echo "would run: ${command[*]}"; return; fi
    limited 590 "${command[@]}"
}

profile() {  # 5 minutes
    local sanitize="compute-sanitizer --error-exitcode 9 --tool"
    # the GPU may be somebody else's next: its clocks stay as they are
    local counters="ncu --clock-control none --set full --kernel-name regex:(hopper|flash|grad).* --launch-count 6"
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
done
[ -n "$DRY" ] || [ "$STEPS" = summary ] || "$PYTHON" -m benchmarks.contact.machine || exit 1
for STEP in $STEPS; do
    echo "== $STEP"
    start=$SECONDS
    "$STEP"
    status=$?
    [ "$STEP" = summary ] || note "$STEP" "$status" $((SECONDS - start))
    keep
done
