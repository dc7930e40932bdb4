"""Arrays of numpy that live in a queue's elements: produced in one process, read in another, never
copied."""

import multiprocessing

import commonhold

try:
    import numpy as np
except ImportError:
    raise SystemExit("this example needs numpy")

SHAPE, TYPE = (100, 100), np.float64


def produce(frames: commonhold.Queue, count: int) -> None:
    for number in range(count):
        frame = frames["free"].pull()
        array = np.frombuffer(frame, TYPE).reshape(SHAPE)
        array[:] = number
        del array  # No array may show a pushed element.
        frames["full"].push(frame)


if __name__ == "__main__":
    with commonhold.open("arrays", delete_on_last_exit=True) as hold:
        frames = hold.queue("frames", 4, 100 * 100 * 8, ["free", "full"])
        worker = multiprocessing.get_context("spawn").Process(target=produce, args=(frames, 20))
        worker.start()
        sums = []
        for _ in range(20):
            frame = frames["full"].pull(30)
            sums.append(float(np.frombuffer(frame, TYPE).sum()))
            frames["free"].push(frame)
        worker.join()
        assert sums == [number * 10_000.0 for number in range(20)]
        print(sums[:3])
