"""A *hold* is a memory-mapped file that many processes share.

Processes in any supported language read and write its maps, queues, channels and logs at memory
speed, without a server. A killed process cannot corrupt them.

>>> import commonhold
>>> with commonhold.open("shop", directory=tmp) as hold:
...     stock = hold.map("stock")
...     stock[b"apple"] = b"12 crates"
...     texts = stock.str()
...     texts["pear"] = "3 crates"
...     sorted(texts.items())
[('apple', '12 crates'), ('pear', '3 crates')]

A bare name lives in memory, under ``/dev/shm`` (or ``$COMMONHOLD_DIR``); anything with a slash, or
ending in ``.hold``, is that path. Handles may be used by any thread and by forked children;
pickled, as ``multiprocessing`` does, they are opened again in the receiving process. Calls that may
wait let other Python threads run meanwhile.

| class | purpose |
|---|---|
| `Hold` | the file; opens all others |
| `Maps`, `Queues`, `Channels`, `Logs` | the structures of a hold by name: ``hold.maps`` and so on |
| `Map` | a ``MutableMapping`` of bytes; views of it: `Map.str`, `Map.json`, `Map.numbers`, `Map.view`, `Map.lists` |
| `Queue`, `NamedQueue`, `Element` | elements that move by reference between queues; their bytes without a copy |
| `Channel`, `Producer`, `Consumer` | messages to many consumers, nothing lost |
| `Log`, `LogHandler` | many writers, one merged log; a handler for `logging` |
| `Watcher` | a map's changes as they happen |
| `Origin`, `Replica` | a map on other machines |
| `cached` | a decorator: results shared by processes, computed once |
| `commonhold.django` | a cache backend for Django |
| `commonhold.errors` | the exceptions |
"""

from .by_name import Channels, Logs, Maps, Queues
from .cache import cached
from .channel import Channel, Consumer, Message, Producer, Reservation
from .errors import Error
from .hold import Hold, list, open, remove, resolve, restore, salvage
from .log import Collector, Line, Log, LogHandler
from .map import Map
from .queue import Element, NamedQueue, Queue
from .replication import Origin, Replica
from .views import Codec, ListView, View
from .watch import Change, Watcher
from ._native import __version__

__all__ = [
    "Change",
    "Channel",
    "Channels",
    "Codec",
    "Collector",
    "Consumer",
    "Element",
    "Error",
    "Hold",
    "Line",
    "ListView",
    "Log",
    "LogHandler",
    "Logs",
    "Map",
    "Maps",
    "Message",
    "NamedQueue",
    "Origin",
    "Producer",
    "Queue",
    "Queues",
    "Replica",
    "Reservation",
    "View",
    "Watcher",
    "__version__",
    "cached",
    "list",
    "open",
    "remove",
    "resolve",
    "restore",
    "salvage",
]
