#!/bin/sh
# Makes unicode-names.tsv from the Unicode Character Database's UnicodeData.txt.
#
#   data/make.sh /usr/share/unicode/UnicodeData.txt > data/unicode-names.tsv
#
# One line for each row that has a name: code point, TAB, name. Rows whose name stands in angle
# brackets (control characters and the ends of ranges) have none and are left out. Nothing is
# expanded, sorted or renamed.
set -eu

if [ $# -ne 1 ] || [ ! -r "$1" ]; then
    echo "usage: $0 UnicodeData.txt > unicode-names.tsv" >&2
    exit 2
fi
LC_ALL=C awk -F ';' '$2 !~ /^</ { printf "%s\t%s\n", $1, $2 }' "$1"
