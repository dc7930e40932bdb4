"""Operations in Python, for callgrind: count.py COUNT; see bindings/budgets.

Runs each operation COUNT times, twice, and marks the begin and the end of the second run by a call
of getpgid, at which callgrind writes what it has counted since the last mark. Prints the names of
the operations in order. Keys and values are those of crates/budgets: 60,000 pairs of 4 bytes each.
"""

import os
import random
import sys

import commonhold

PAIRS = 60_000


def key(number):
    return (number * 0x9E3779B1 & 0xFFFFFFFF).to_bytes(4, "little")


def operations(map, own, keys):
    """Functions that do their operation once for each key."""

    def empty():
        for _ in keys:
            pass

    def item():
        for key in keys:
            map[key]

    def dict_item():
        for key in keys:
            own[key]

    def get():
        get = map.get
        for key in keys:
            get(key)

    def dict_get():
        get = own.get
        for key in keys:
            get(key)

    def set_item():
        for key in keys:
            map[key] = key

    def dict_set_item():
        for key in keys:
            own[key] = key

    return [empty, item, dict_item, get, dict_get, set_item, dict_set_item]


def main(count):
    path = f"/dev/shm/commonhold-count-{os.getpid()}.hold"
    with commonhold.open(path, delete_on_last_exit=True) as hold:
        map, own, dice = hold.map("map"), {}, random.Random(7)
        for number in range(PAIRS):
            map[key(number)] = own[key(number)] = key(number)
        keys = [key(dice.randrange(PAIRS)) for _ in range(count)]
        for operation in operations(map, own, keys):
            operation()
            os.getpgid(0)
            operation()
            os.getpgid(0)
            print(operation.__name__)


if __name__ == "__main__":
    main(int(sys.argv[1]))
