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

A bare name stands for a hold in memory, in ``/dev/shm`` (or ``$COMMONHOLD_DIR``); a name that
contains a slash or ends in ``.hold`` is a path. Any thread and any forked child may use a handle.
If a handle is pickled, as by ``multiprocessing``, the receiving process opens it again. Calls that
wait release the GIL.

| class | purpose |
|---|---|
| `Hold` | the file; opens all others |
| `Maps`, `Queues`, `Channels`, `Logs` | the structures of a hold by name: ``hold.maps`` and so on |
| `Map` | a ``MutableMapping`` of bytes; views of it: `Map.str`, `Map.json`, `Map.numbers`, `Map.view`, `Map.lists` |
| `Pair` | a handle on one pair, for a key that is used often: `Map.pair` |
| `Queue`, `NamedQueue`, `Element` | elements that move by reference between queues, without copying |
| `Channel`, `Producer`, `Consumer` | messages to many consumers, none of which is lost |
| `Log`, `LogHandler` | one log of lines from many writers, merged by time; a handler for `logging` |
| `Watcher` | a map's changes as they happen |
| `Origin`, `Replica` | a map on other machines |
| `HoldOrigin`, `HoldReplica` | all maps of a hold on other machines |
| `Journal` | a map's changes in a file, from which the map is rebuilt after a system crash |
| `cached` | a decorator: results that processes share and compute only once |
| `commonhold.django` | a cache backend for Django |
| `commonhold.nats` | bridges to NATS JetStream, as supervised programs |
| `commonhold.errors` | the exceptions |
"""

from .by_name import Channels, Logs, Maps, Queues
from .cache import cached
from .channel import Channel, Consumer, Message, Producer, Reservation
from .errors import Error
from .hold import Hold, list, open, remove, resolve, restore, salvage
from .holds import HoldOrigin, HoldReplica
from .journal import Journal
from .log import Collector, Line, Log, LogHandler
from .map import Map
from .queue import Element, NamedQueue, Queue
from .replication import Origin, Replica
from .views import BYTES, JSON, NUMBER, STR, Codec, ListView, View
from .watch import Change, Watcher
from ._native import Pair, __version__

__all__ = [
    "BYTES",
    "Change",
    "Channel",
    "Channels",
    "Codec",
    "Collector",
    "Consumer",
    "Element",
    "Error",
    "Hold",
    "HoldOrigin",
    "HoldReplica",
    "JSON",
    "Journal",
    "Line",
    "ListView",
    "Log",
    "LogHandler",
    "Logs",
    "Map",
    "Maps",
    "Message",
    "NUMBER",
    "NamedQueue",
    "Origin",
    "Pair",
    "Producer",
    "Queue",
    "Queues",
    "Replica",
    "Reservation",
    "STR",
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
