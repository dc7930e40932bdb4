#!/usr/bin/env python3
"""reader.py ADDRESS [SECRET [STATE [CHANGES]]]: reads a map over the wire, written from docs/reference/wire.md alone.

ADDRESS is a path or HOST:PORT; STATE is a file with what this has printed before, to go on from; `-` is none. Goes on until
the map is ready, at least CHANGES changes have come, and the tail is reached that a TIME since then has stated. """
import hashlib, hmac, json, os, socket, struct, sys, zlib
address, secret, state, least = (sys.argv[1:] + ["-", "-", "0"][len(sys.argv) - 2:])[:4]
PREFACE = b"COMMONHOLD-R" + struct.pack("<I", 2)
HELLO, CHALLENGE, PROOF, WELCOME, ORIGIN, PAIR, COMPLETE, TIME = 0x100, 0x101, 0x102, 0x103, 0x104, 0x110, 0x111, 0x112

def need(so, otherwise):
    if not so: sys.exit(f"reader: {otherwise}")

def receive(count, data=b""):
    while len(data) < count:
        data += (part := sock.recv(min(count - len(data), 1 << 20)))
        need(part, "the origin has closed")
    return data
def say(code, key, value=b""):
    body = struct.pack("<QQIIII", 0, 0, len(key), len(value), code, 0) + key + value
    body += bytes(-len(body) % 8)
    sock.sendall(struct.pack("<II", len(body) + 8, zlib.crc32(body)) + body)
def receive_frame(most=2**32):
    size, crc = struct.unpack("<II", receive(8))
    need(size >= 40 and size % 8 == 0 and size <= most, f"no frame: {size} bytes")
    body = receive(size - 8)
    position, _, key, value, code, zero = struct.unpack_from("<QQIIII", body)
    need(zlib.crc32(body) == crc and zero == 0 and (40 + key + value + 7) // 8 * 8 == size, "a broken frame")
    return code, position, size, body[32:32 + key], body[32 + key:32 + key + value], crc
def proof(label): return hmac.new(secret.encode(), label, hashlib.sha256).digest()

sock = socket.socket(socket.AF_UNIX if "/" in address else socket.AF_INET)
sock.settimeout(30)
host, _, port = address.rpartition(":")
sock.connect(address if "/" in address else (host, int(port)))
old = json.load(open(state)) if state != "-" else {"stream": 0, "offset": 0, "last": [0, 0], "lineage": "00" * 16, "epoch": 0, "pairs": {}}
nonce, was = os.urandom(32), struct.pack("<QQIIIIQ", old["stream"], old["offset"], state != "-", 2, *old["last"], 0)
was += bytes.fromhex(old["lineage"]) + struct.pack("<Q", old["epoch"])
sock.sendall(PREFACE)
say(HELLO, nonce, was)
need(receive(16) == PREFACE, "another protocol or version")
code, offset, _, challenge, value, _ = receive_frame(1024)
if secret != "-":
    need(code == CHALLENGE and len(challenge) == 32, "the origin does not ask for the secret")
    say(PROOF, proof(b"commonhold replica 2" + challenge + nonce + was))
    code, _, _, _, value, _ = receive_frame(1024)
need(code == ORIGIN and len(value) >= 64, f"code {code:#x} for an origin")
origin, (_, refusal, _, *last) = value, struct.unpack_from("<IIQII", value)
need(not refusal, f"refused for reason {refusal}")
lineage, (epoch,) = value[32:48].hex(), struct.unpack_from("<Q", value, 48)
need(state == "-" or lineage == old["lineage"] and epoch >= old["epoch"], "another map, or an earlier epoch")
code, offset, _, key, value, _ = receive_frame(1024)
if secret != "-":
    known = proof(b"commonhold origin 2\0" + challenge + nonce + was + origin)
    need(hmac.compare_digest(key, known), "the origin does not know the secret")
need(code == WELCOME and len(value) >= 32, f"code {code:#x} for a welcome")
stream, start, whole, *mode = struct.unpack_from("<QQIIII", value)
need(start == offset and (whole or (stream, start) == (old["stream"], old["offset"])), "goes on elsewhere")
pairs, changes, end, tail = {} if whole else old["pairs"], 0, None, None
last = last if whole else old["last"]
while end is None or offset < end or tail is None or offset < tail:
    code, position, size, key, value, crc = receive_frame()
    need(position == offset, f"offset {position} after {offset}")
    if code == 1 or code == PAIR and end is None: pairs[key.hex()] = value.hex()
    elif code in range(2, 6): pairs.pop(key.hex(), None)
    elif code == COMPLETE and end is None: end = max(offset, *struct.unpack("<Q", value))
    elif code == TIME: tail = struct.unpack("<QQ", value)[0] if tail is None and changes >= int(least) else tail
    else: need(False, "a gap: come again with nothing" if code == 6 else f"code {code:#x} was not its turn")
    if code < 6: changes, offset, last = changes + 1, offset + size, [size, crc]
print(json.dumps({"stream": stream, "offset": offset, "last": last, "lineage": lineage, "epoch": epoch, "whole": whole,
                  "mode": mode, "changes": changes, "pairs": pairs}))
