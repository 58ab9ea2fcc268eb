#!/bin/bash
# Three members of an older program (CHRONOVA_OLDER_PROGRAM) on a replicated database get the program CHRONOVA_BIN, one after
# the other, while clients write and read. No read may fail, and nothing that was acknowledged may be lost or doubled.
# The settings are those of cluster.sh.
exec bash "$(dirname "${BASH_SOURCE[0]}")/cluster.sh" upgrade
