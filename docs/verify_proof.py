#!/usr/bin/env python3
"""Verifies proofs about Chronova's event log with nothing but Python. It needs verify_export.py in its folder.

    verify_proof.py PROOFS SIZE:ROOT [SIZE:ROOT...]

PROOFS is what `chronova audit prove` wrote, one proof a line. SIZE:ROOT is a tree head that you trust, because you kept
it or got it from somebody else than the sender of the proofs: `chronova audit head --tree` prints it. Two kinds of proof
are verified, by the algorithms of RFC 9162, 2.1.3.2 and 2.1.4.2: an event is in the log, and a log continues an earlier
one. An event's content is verified against the hash chain, whose hashes are the leaves of the tree. The readable form
(`event`) is not verified: `stored` is. The format is in docs/audit.md.
"""
import hashlib
import json
import struct
import sys

from verify_export import blake3, content, fail


def leaf(data):
    return hashlib.sha256(b"\0" + data).digest()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def is_in(index, size, start, path, root):
    """Whether `start` is leaf `index` of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    at, last, now = index, size - 1, start
    for other in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            now = node(other, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node(now, other)
        at, last = at >> 1, last >> 1
    return last == 0 and now == root


def continues(first, second, old, new, path):
    """Whether the first tree is the beginning of the second (RFC 9162, 2.1.4.2)."""
    if not 0 < first <= second:
        return False
    if first == second:
        return not path and old == new
    if first & (first - 1) == 0:
        path = [old] + path
    at, last = first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    if not path:
        return False
    old_root = new_root = path[0]
    for other in path[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old_root, new_root = node(other, old_root), node(other, new_root)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new_root = node(new_root, other)
        at, last = at >> 1, last >> 1
    return last == 0 and old_root == old and new_root == new


def chain(proof):
    """The chain's hash at the event of a proof, from all that the event says."""
    link = struct.pack("<QQ", proof["position"], proof["revision"]) + content(proof["stored"])
    hashed = blake3(b"\1" + bytes.fromhex(proof["before"]) + link)
    if hashed.hex() != proof["hash"]:
        fail(f"position {proof['position']} does not match the hash chain")
    return hashed


def known(heads, size, root):
    if (size, bytes.fromhex(root)) not in heads:
        fail(f"the tree head {size}:{root} is none of the given ones")
    return bytes.fromhex(root)


def check(proof, heads):
    if (proof["format"], proof["version"]) != ("chronova-proof", 1):
        fail("another format")
    path = [bytes.fromhex(one) for one in proof["path"]]
    if proof["proof"] == "inclusion":
        size, root = proof["tree_size"], known(heads, proof["tree_size"], proof["root"])
        if not is_in(proof["position"] - 1, size, leaf(chain(proof)), path, root):
            fail(f"position {proof['position']} is not in the tree of {size}")
        return f"position {proof['position']} is in the tree {size}:{root.hex()}"
    if proof["proof"] == "consistency":
        first, second = proof["from_size"], proof["to_size"]
        old, new = known(heads, first, proof["from_root"]), known(heads, second, proof["to_root"])
        if not continues(first, second, old, new, path):
            fail(f"the tree of {second} does not continue the tree of {first}")
        return f"the tree {second}:{new.hex()} continues the tree {first}:{old.hex()}"
    return fail("another kind of proof")


def main(path, heads):
    trusted = set()
    for head in heads:
        size, root = head.split(":")
        trusted.add((int(size), bytes.fromhex(root)))
    with open(path, "rb") as lines:
        proofs = 0
        for line in lines:
            try:
                said = check(json.loads(line), trusted)
            except (ValueError, KeyError, TypeError, AttributeError, struct.error) as wrong:
                fail(f"line {proofs + 1} is malformed: {wrong!r}")
            print("valid:", said)
            proofs += 1
    if not proofs:
        fail("the file has no proof")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
