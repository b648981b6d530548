#!/usr/bin/env bash
# Draws book/src/images/nested.png: a sentence with nested entities as `nerzoo predict --html` shows it.
# Needs the model of the quickstart in runs/quickstart, nerzoo in the PATH, and Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
echo 'Marta Keller of the Faculty of Law of the University of Lindholm visited Orvane in May 1998.' > runs/nested.txt
nerzoo predict --model runs/quickstart --html runs/nested.html --force runs/nested.txt
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,260 \
    --screenshot=book/src/images/nested.png "file://$PWD/runs/nested.html"
