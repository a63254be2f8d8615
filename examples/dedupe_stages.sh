#!/usr/bin/env bash
# Deduplicate a corpus stage by stage, as a scheduler would on several machines that share a file system.
#
#     bash examples/dedupe_stages.sh CORPUS WORK OUT PARTS
#
# Every loop is an array job: its commands do not depend on each other, may run anywhere, and may be repeated.
set -euo pipefail
corpus=$1 work=$2 out=$3 parts=$4

for shard in "$corpus"/*; do
    dustream dedupe sign "$shard" --root "$corpus" --out "$work"
done
for part in $(seq "$parts"); do
    dustream dedupe match "$work" --partition "$part/$parts"
done
dustream dedupe resolve "$work" --out "$out"
for part in $(seq "$parts"); do
    dustream dedupe filter "$out" --partition "$part/$parts" --write-kept
done
