#!/usr/bin/env python3
"""Verifies an export of Chronova's event log with nothing but Python and openssl.

    verify_export.py EXPORT PUBLIC_KEY.pem

Three things are verified: every event's content against the chain, the chain from the first line to the last (events that
were left out are represented by their hashes), and the ed25519 signature over all of it. The format is in docs/audit.md.
"""
import base64
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import uuid

# BLAKE3, in its plain form: a tree of 1024-byte chunks over one compression function.
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
START, END, PARENT, ROOT = 1, 2, 4, 8
MASK = 0xFFFFFFFF


def compress(chaining, block, counter, length, flags):
    v = list(chaining) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))

    def mix(a, b, c, d, x, y):
        v[a] = (v[a] + v[b] + x) & MASK
        e = v[d] ^ v[a]
        v[d] = (e >> 16 | e << 16) & MASK
        v[c] = (v[c] + v[d]) & MASK
        e = v[b] ^ v[c]
        v[b] = (e >> 12 | e << 20) & MASK
        v[a] = (v[a] + v[b] + y) & MASK
        e = v[d] ^ v[a]
        v[d] = (e >> 8 | e << 24) & MASK
        v[c] = (v[c] + v[d]) & MASK
        e = v[b] ^ v[c]
        v[b] = (e >> 7 | e << 25) & MASK

    for turn in range(7):
        for i in range(4):
            mix(i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1])
        for i in range(4):
            mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i])
        if turn < 6:
            m = [m[i] for i in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def chunk(data, counter, root):
    chaining, blocks = IV, [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        last = i == len(blocks) - 1
        flags = (START if i == 0 else 0) | (END if last else 0) | (ROOT if last and root else 0)
        chaining = compress(chaining, block, counter, len(block), flags)
    return chaining


def tree(data, counter, root):
    chunks = (len(data) + 1023) // 1024
    if chunks <= 1:
        return chunk(data, counter, root)
    left = 1 << ((chunks - 1).bit_length() - 1)
    a, b = tree(data[:left * 1024], counter, False), tree(data[left * 1024:], counter + left, False)
    return compress(IV, struct.pack("<16I", *a, *b), 0, 64, PARENT | (ROOT if root else 0))


def blake3(data):
    return struct.pack("<8I", *tree(data, 0, True))


def put(data):
    return struct.pack("<Q", len(data)) + data


def optional(data):
    return b"\0" if data is None else b"\1" + put(data)


def text(value):
    return None if value is None else value.encode()


def content(event):
    """The hash of an event's content, without its position."""
    cause, causation = event["cause"], event["causation"]
    data = b"\0" + uuid.UUID(event["id"]).bytes
    data += struct.pack("<HBq", event["version"], event["codec"], event["recorded_at"])
    data += put(event["stream"].encode()) + put(event["kind"].encode()) + optional(text(event["request_id"]))
    data += uuid.UUID(event["correlation"]).bytes
    data += optional(None if causation is None else uuid.UUID(causation).bytes)
    if "user" in cause:
        user = cause["user"]
        source = user.get("source")
        data += (b"\1" if source is None else b"\4") + put(user["user"].encode()) + optional(text(user["project"]))
        data += struct.pack("<Q", len(user["roles"])) + b"".join(put(role.encode()) for role in user["roles"])
        if source is not None:
            data += optional(text(source.get("address"))) + optional(text(source.get("agent")))
    elif "process" in cause:
        data += b"\2" + uuid.UUID(cause["process"]["process"]).bytes
    else:
        data += b"\3" + put(cause["system"]["part"].encode())
    return blake3(data + put(base64.b64decode(event["data"])))


def fail(reason):
    sys.exit(f"NOT valid: {reason}")


def main(path, key):
    signed, lines = hashlib.sha256(), open(path, "rb")
    line = lines.readline()
    head = json.loads(line)
    if (head["format"], head["version"]) != ("chronova-export", 1):
        fail("another format")
    chain, position, events = bytes.fromhex(head["before"]), head["first"], 0
    signed.update(line)
    line = lines.readline()
    while following := lines.readline():
        signed.update(line)
        entry = json.loads(line)
        if entry["position"] != position:
            fail(f"position {position} is missing")
        inner = content(entry["stored"]) if "stored" in entry else bytes.fromhex(entry["content"])
        events += "stored" in entry
        chain = blake3(b"\1" + chain + struct.pack("<QQ", position, entry["revision"]) + inner)
        if chain.hex() != entry["hash"]:
            fail(f"position {position} does not match the hash chain")
        position += 1
        line = following
    if position != head["last"] + 1 or chain.hex() != head["end"]:
        fail(f"it ends at position {position - 1}")
    with tempfile.NamedTemporaryFile() as digest, tempfile.NamedTemporaryFile() as signature:
        digest.write(signed.digest())
        signature.write(base64.b64decode(json.loads(line)["signature"]))
        digest.flush()
        signature.flush()
        done = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin", "-in", digest.name,
             "-sigfile", signature.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail("the signature was not made with this key " + done.stderr.strip())
    print(f"valid: positions {head['first']} to {head['last']}, {events} events, "
          f"{position - head['first'] - events} represented by their hashes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
