#!/bin/bash
# ops/docs/build.sh FOLDER   builds the documentation under docs/ as a site with a search into FOLDER
#
# Fails if a link or an anchor leads nowhere, or if a page is not in the menu (mkdocs.yml). The pages work without a
# server and load nothing from other hosts.
set -euo pipefail
FOLDER=$(realpath -m "$1")
. "$(dirname "$0")/../setup.sh"
setup_client mkdocs==1.6.1 || exit 1
cd "$TOP/ops/docs" && "$VENV/bin/mkdocs" build --strict --clean --site-dir "$FOLDER"
! grep -rlE '<(script|link|img)[^>]*(src|href)="(https?:)?//' --include='*.html' "$FOLDER" | grep . \
  || { echo "these pages load files from other hosts" >&2; exit 1; }
