"""Many processes count words into one map, and one of them is killed on the way."""

import multiprocessing
import os
import signal

import commonhold

TEXT = "a rose is a rose is a rose".split()


def count(words: commonhold.Map, times: int) -> None:
    for _ in range(times):
        for word in TEXT:
            words.increment(word.encode())


if __name__ == "__main__":
    with commonhold.open("workers", delete_on_last_exit=True) as hold:
        words = hold.map("words")
        context = multiprocessing.get_context("spawn")
        victim = context.Process(target=count, args=(words, 10**9))
        victim.start()
        while b"rose" not in words:
            pass
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        words.clear()
        workers = [context.Process(target=count, args=(words, 1000)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert words.numbers()["rose"] == 6000 and hold.check()["ok"]
        print(dict(words.numbers()))
