"""A slow function, asked by four processes at once: one computes, the others get its result."""

import multiprocessing
import os
import time
from typing import Any

import commonhold


def ask(hold: commonhold.Hold, answers: Any) -> None:
    @commonhold.cached(hold, ttl=60)
    def slow(question: str) -> str:
        time.sleep(0.2)
        return f"42, says {os.getpid()}"

    answers.put(slow("the question"))


if __name__ == "__main__":
    with commonhold.open("stampede", delete_on_last_exit=True) as hold:
        answers = multiprocessing.Queue()
        workers = [multiprocessing.Process(target=ask, args=(hold, answers)) for _ in range(4)]
        for worker in workers:
            worker.start()
        found = {answers.get() for _ in workers}
        for worker in workers:
            worker.join()
        assert len(found) == 1
        print(found)
