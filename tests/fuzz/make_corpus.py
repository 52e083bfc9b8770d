"""Makes the files that fuzzing begins with: a few small ones for each reader.

Usage: make_corpus.py

They lie in corpus/<reader>/ beside this script, and are kept with it: what
fuzzing finds is added there under a name that says what it is.
"""

import gzip
import json
import struct
import zlib
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"


def config():
    """Yields (name, bytes), as all functions named after a reader do."""
    everything = {
        "train_batch_size": 8,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 0.5,
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8},
        },
        "scheduler": {
            "type": "WarmupDecayLR",
            "params": {"total_num_steps": 100, "warmup_num_steps": 10},
        },
        "zero_optimization": {"stage": 3, "overlap_comm": False},
        "libzero": {},
    }
    yield "everything.json", json.dumps(everything, indent=2).encode()
    yield "empty.json", b"{}"
    yield "comments.json", b'{ // one\n/* two */ "steps_per_print": 10 }'
    yield "twice.json", b'{"train_batch_size": 1, "train_batch_size": 2}'
    yield "unicode.json", b'{"a\\u00e9\\ud83d\\ude00": "\xc3\xa9", "b": -1.5e-3}'
    yield "deep.json", b"[" * 70 + b"]" * 70
    yield "sgd.json", b'{"optimizer": {"type": "SGD", "params": {"momentum": 1}}}'


def safetensors():
    def file(header, data=b""):
        text = json.dumps(header, separators=(",", ":")).encode()
        return struct.pack("<Q", len(text)) + text + data

    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    two = {"a": tensor("F32", [2, 1], 0, 8), "b": tensor("I64", [1], 8, 16)}
    yield "two", file(two, bytes(16))
    yield "empty", file({})
    yield "no_elements", file({"a": tensor("BF16", [0, 3], 0, 0)})
    yield "scalar", file({"a": tensor("U8", [], 0, 1)}, b"\1")
    yield "metadata", file({"__metadata__": {"format": "pt"}})
    yield "gap", file({"a": tensor("F16", [1], 2, 4)}, bytes(4))
    huge = 1 << 62
    yield "huge_but_empty", file({"a": tensor("F32", [0, huge, huge], 0, 0)})
    yield "long_header", struct.pack("<Q", 1 << 63) + b"{}"


def manifest():
    """Without the checksum at the end, which the target appends."""
    parameter = {
        "names": ["fc.weight", "tied"],
        "dtype": "F32",
        "shape": [2, 3],
        "strides": [1, 2],
        "trained": True,
        "updates": 3,
    }
    everything = {
        "format": "libzero checkpoint",
        "version": 1,
        "libzero": "0.1.0",
        "saved_at": "2026-01-02T03:04:05Z",
        "step": 3,
        "stage": 2,
        "optimizer": "Adam",
        "num_states": 2,
        "set_rates": [None, 0.5, 1],
        "notes": {"task": "text"},
        "sampler": {
            "num_samples": 9,
            "seed": "18446744073709551615",
            "shuffle": True,
            "position": 4,
        },
        "parameters": [parameter],
        "buffers": [{"name": "mean", "dtype": "I64", "shape": []}],
        "shards": [{"bytes": 100, "checksum": "0123456789abcdef"}],
        "configuration": {"optimizer": {"type": "Adam", "params": {"lr": 1e-3}}},
    }

    def file(**changes):
        text = json.dumps({**everything, **changes}, indent=1)
        return text.removesuffix("\n}").encode()

    yield "everything", file()
    yield "newer", file(version=2)
    yield "no_shards", file(shards=[])
    yield "twice", file(parameters=[parameter, parameter])
    yield "negative", file(step=-1)
    yield "list_of_settings", file(configuration=[1])
    yield "comment", file().replace(b'"stage"', b'/* a */ "stage"')
    yield "other_rates", file(set_rates=[-1, "a", 1e300])
    huge = 1 << 62
    yield "huge", file(parameters=[{**parameter, "shape": [huge, huge]}])


def checkpoint():
    """One or two shards, behind the length of the first."""
    # XXH3 of so many zeros.
    sums = {4: "48b2c92616fc193d", 8: "c77b3abb6f87acd9", 24: "743df94ee4c78a2a"}

    def shard(*tensors):
        header = {"__metadata__": {"format": "pt"}}
        end = 0
        for key, dtype, shape, num_bytes, about in tensors:
            header["__metadata__"][key] = about
            offsets = [end, end + num_bytes]
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
            end += num_bytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + bytes(end)

    def file(first, second=b""):
        return struct.pack("<H", len(first)) + first + second

    weight = ("parameter/w", "F32", [2, 3], 24, "0:6;" + sums[24])
    state = ("state.0/w", "F32", [2, 3], 24, "0:6;" + sums[24])
    scalar = ("buffer/s", "I64", [], 8, "0:1;" + sums[8])
    random = ("random", "U8", [4], 4, "0:4;" + sums[4])
    yield "everything", file(shard(weight, state, scalar, random))
    yield "swapped", file(
        shard(("parameter/w", "F32", [6], 24, "3:6,0:3;" + sums[24]))
    )
    half = ("parameter/w", "F32", [2], 8, "0:1,3:4;" + sums[8])
    other = ("parameter/w", "F32", [2], 8, "1:3;" + sums[8])
    yield "two", file(shard(half, random), shard(other, random))
    yield "half", file(shard(half))
    yield "no_elements", file(shard(("parameter/w", "BF16", [0, 2], 0, ";")))
    huge = (1 << 63) - 1
    yield "huge", file(
        shard(("parameter/w", "F32", [2], 8, f"0:{huge},0:{huge},0:4;{sums[8]}"))
    )
    yield "no_checksum", file(shard(("parameter/w", "F32", [2], 8, "0:2;")))
    yield "nothing_said", file(shard(("parameter/w", "F32", [2], 8, "")))


def token_file():
    def header(magic, version, count):
        return struct.pack("<256I", magic, version, count, *[0] * 253)

    yield "plain", struct.pack("<3H", 1, 2, 50256)
    yield "half", b"\1\0\2"
    yield "short_tokens", header(20240520, 1, 2) + struct.pack("<2H", 1, 2)
    yield "long_tokens", header(20240801, 7, 2) + struct.pack("<2I", 1, 50256)
    yield "too_few", header(20240801, 7, 1 << 31) + bytes(8)
    yield "header_only", header(20240520, 1, 0)


def cifar10():
    yield "one", b"\3" + bytes(range(256)) * 12
    yield "bad_label", b"\12" + bytes(3072)
    yield "short", b"\1" + bytes(100)
    yield "packed", gzip.compress(b"\3" + bytes(3072), mtime=0)


def idx():
    def file(sizes, data):
        return (
            bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + data
        )

    def both(labels, images):
        return bytes([len(labels)]) + labels + images

    labels = file([2], b"\1\2")
    yield "two", both(labels, file([2, 2, 2], bytes(8)))
    yield "no_pixels", both(labels, file([2, 0, 0xFFFFFFFF], b""))
    yield "overflow", both(labels, file([2, 0xFFFFFFFF, 0xFFFFFFFF], b"ab"))
    yield "other_number", both(labels, file([1, 1, 1], b"a"))
    yield "packed", both(
        gzip.compress(labels, mtime=0), gzip.compress(file([2, 1, 1], b"ab"), mtime=0)
    )


def jpeg(width, height, num_components, progressive=False):
    """Mid-grey: each block is one code for brightness and one for its end."""

    def segment(marker, data):
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    numbers = range(1, num_components + 1)
    frame = struct.pack(">BHHB", 8, height, width, num_components)
    frame += b"".join(bytes([number, 0x11, 0]) for number in numbers)
    one_code = bytes([1] + [0] * 15 + [0])  # "0" stands for 0
    scan = bytes([num_components])
    scan += b"".join(bytes([number, 0]) for number in numbers)
    scan += bytes([0, 0, 0]) if progressive else bytes([0, 63, 0])
    blocks = -(-width // 8) * -(-height // 8) * num_components
    bits = "0" * (blocks if progressive else 2 * blocks)
    bits += "1" * (-len(bits) % 8)
    return (
        b"\xff\xd8"
        + segment(0xDB, bytes([0]) + bytes([1] * 64))
        + segment(0xC2 if progressive else 0xC0, frame)
        + segment(0xC4, bytes([0x00]) + one_code)
        + segment(0xC4, bytes([0x10]) + one_code)
        + segment(0xDA, scan)
        + int(bits, 2).to_bytes(len(bits) // 8, "big")
        + b"\xff\xd9"
    )


def png(width, height, depth, colour, data, interlaced=False, more=b""):
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(
            b"IHDR",
            struct.pack(">2I5B", width, height, depth, colour, 0, 0, interlaced),
        )
        + more
        + chunk(b"IDAT", zlib.compress(data, 9))
        + chunk(b"IEND", b"")
    )


def chunk(name, data):
    return (
        struct.pack(">I", len(data))
        + name
        + data
        + struct.pack(">I", zlib.crc32(name + data))
    )


def image():
    yield "grey.jpg", jpeg(9, 8, 1)
    yield "colour.jpg", jpeg(8, 9, 3)
    yield "cmyk.jpg", jpeg(8, 8, 4)
    yield "progressive.jpg", jpeg(16, 8, 1, progressive=True)
    yield "huge.jpg", jpeg(8, 8, 1).replace(
        b"\x08\x00\x08\x00\x08", b"\x08\xff\x00\xff\x00"
    )
    yield "colour.png", png(2, 2, 8, 2, b"\0abcdef\1ghijkl")
    yield "one_bit.png", png(9, 1, 1, 0, b"\0\xaa\x80")
    yield "sixteen_bits.png", png(1, 1, 16, 0, b"\0\x12\x34")
    yield "alpha.png", png(1, 2, 8, 6, b"\0abcd\2efgh")
    palette = chunk(b"PLTE", b"abcdef") + chunk(b"tRNS", b"\0\x80")
    yield "palette.png", png(4, 1, 2, 3, b"\0\x11", more=palette)
    passes = b"\0a" b"\0b" b"\0cd"  # of 2 x 2 pixels, three of seven have any
    yield "interlaced.png", png(2, 2, 8, 0, passes, interlaced=True)
    yield "huge.png", png(1 << 30, 1 << 30, 8, 2, b"")
    yield "wrong_sum.png", png(1, 1, 8, 0, b"\0a")[:-1] + b"\0"


def gzip_files():
    packed = gzip.compress(b"To be, or not to be", mtime=0)
    yield "text.gz", packed
    yield "empty.gz", gzip.compress(b"", mtime=0)
    yield "two.gz", packed + packed
    yield "stored.gz", gzip.compress(b"as it is", compresslevel=0, mtime=0)
    yield "bomb.gz", gzip.compress(bytes(2 << 20), mtime=0)
    yield "cut.gz", packed[:-5]
    # Flags for a checksum of the header, more fields, a name and a comment.
    flags = packed[:3] + b"\x1e" + packed[4:10] + b"\2\0ab" + b"name\0comment\0"
    yield "name.gz", flags + struct.pack("<H", zlib.crc32(flags) & 0xFFFF) + packed[10:]
    yield "plain", b"not packed"


def tokenizer():
    """vocab.json, merges.txt and a text: the 256 bytes and two merges."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    tokens = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(others))]
    vocab = {token: i for i, token in enumerate([*tokens, "he", "the", "<|endoftext|>"])}

    def file(vocab, merges, text):
        return "\n---\n".join([json.dumps(vocab), merges]).encode() + b"\n---\n" + text

    merges = "#version: 0.2\nh e\nt he\n"
    yield "plain", file(vocab, merges, b"the other  they're\n\n 12\t")
    yield "not_utf8", file(vocab, merges, b"the\xff\xc3 \xf0\x9f\x98\x80\xe2\x80")
    yield "unknown_merge", file(vocab, merges + "q z\n", b"the")
    yield "no_bytes", file({"a": 0}, "", b"a")
    yield "gap", file({**vocab, "xx": 1 << 40}, merges, b"a")


READERS = {
    "checkpoint": checkpoint,
    "cifar10": cifar10,
    "config": config,
    "gzip": gzip_files,
    "idx": idx,
    "image": image,
    "manifest": manifest,
    "safetensors": safetensors,
    "token_file": token_file,
    "tokenizer": tokenizer,
}

for reader, make in READERS.items():
    folder = CORPUS / reader
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in make():
        (folder / name).write_bytes(data)
