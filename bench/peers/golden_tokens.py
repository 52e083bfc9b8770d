#!/usr/bin/env python3
"""Writes the small tokenizer that libzero's is tested with, and its tokens.

    pip install tiktoken==0.14.0
    python bench/peers/golden_tokens.py tests/data/bpe

The folder gets vocab.json and merges.txt, learned from the sentences below, and
golden.json: awkward texts, each with the tokens that tiktoken makes of it.

With files of GPT-2 it prints the tokens of a text, a line each:

    python bench/peers/golden_tokens.py --vocab vocab.json --merges merges.txt text.txt
"""

import argparse
import collections
import itertools
import json
import pathlib
import random

import regex
import tiktoken

# GPT-2's, without going back where that would find nothing.
PATTERN = (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++"
           r"|\s+(?!\S)|\s++")
END_OF_TEXT = "<|endoftext|>"
NUM_MERGES = 300

# To learn from. Words of several languages and signs of several bytes, so that
# merges join the bytes of a character as well as characters.
PEOPLE = ["the captain", "my neighbour", "an old baker", "the little girl", "nobody"]
DOINGS = ["doesn't remember", "wouldn't sell", "has hidden", "'ll find", "'s painted"]
THINGS = ["the bridge", "twelve lanterns", "a wooden boat", "the year 1987", "3.50 euros"]
OTHERS = [
    "We've seen it; they're late, I'm sure, and you'd know.",
    "Größe, Straße, über, naïve café, déjà vu, señor.",
    "日本の本は日本で、中国的书在中国。",
    "السلام عليكم، كيف حالك اليوم؟",
    "Привет, мир! Как дела, мир?",
    "👍👍 👩‍👩‍👧 family 👩‍👩‍👧 🇩🇪🇫🇷 🙂🙂🙂",
    "for (int i = 0; i < 10; ++i) {\n    sum += i;\n    count++;\n}\n\n",
    "\tname\tvalue\r\n\tname\tvalue\r\n",
    "!!! ... --- === ??? ((( ))) \"quoted\"   wide   space",
    # Signs and letters that begin with the same byte as white space does: a
    # word that begins or ends in the wrong place then has other tokens.
    *("".join(before + sign for sign in signs) * 4 for before, signs in [
        ("!", "\u00a1\u00a7\u00b6\u00b7"), ("!", "\u180e\u1360\u1801\u166d"),
        ("!", "\u2026\u2020\u2021\u2022"), ("!", "\u3001\u3002\u3003\u300a"),
        ("!", "\u0301\u0302\u0303\u0304"), ("a", "\u2c61\u2d00\u2c81\u2071"),
        ("1", "\u00bd\u00bc\u00be\u00b2")]),
]


def training_text():
    sentences = [" ".join(words).replace(" '", "'").capitalize() + "."
                 for words in itertools.product(PEOPLE, DOINGS, THINGS)]
    return " ".join(sentences) + "\n" + " ".join(OTHERS * 12)


# To encode: (what is awkward in it, text).
AWKWARD = [
    ("nothing at all", ""),
    ("plain words", "the captain has hidden twelve lanterns"),
    ("contractions", "I'm sure they're late, we've it, you'd say he'll, isn't 's 't"),
    ("contractions of capitals are none", "IT'S WE'RE I'M 'S 'LL 'Re"),
    ("contractions that run on", "'sill 'tis 'veil 'red 'mild 'llama 'door '''s"),
    ("typographic apostrophe", "doesn\u2019t wouldn\u2019t"),
    ("several spaces", "a  bridge   of    wood     "),
    ("spaces in front", "   the bridge"),
    ("one space", " "),
    ("only spaces", "          "),
    ("tabs", "\tname\t\tvalue\t \tname \t"),
    ("newlines at the end", "the end\n\n\n"),
    ("newlines and spaces", "one \n two\n \n three\n  four \n"),
    ("carriage returns", "name\r\nvalue\r\n\r\nname\rvalue"),
    ("vertical tab and form feed", "a\x0bb\x0cc \x0b d"),
    ("control characters", "\x00\x01\x02 \x1b[0m \x1c\x1d\x1e\x1f \x7f"),
    ("next line, no-break space", "a\x85b\u00a0c\u00a0\u00a0d \u00a0e"),
    ("spaces of Unicode", "a\u2003b\u2009\u2009c\u3000d\u1680e\u2028f\u2029g\u202fh\u205fi"),
    ("the Mongolian separator is no space", "a\u180eb \u180e c\u180e\u180e"),
    ("spaces of Unicode beside signs",
     "!\x85!\u00a0!\u1680!\u2003!\u2028!\u202f!\u205f!\u3000! \u3000!\x85"),
    ("no spaces beside signs", "!\u180e!\u200b!\u2060 \u180e!\u00a1\u180e\u180e?"),
    ("marks and digits beside letters", "a\u200ba\u2c61a\u20dd 1\u00b21\x851\u00a0 e\u0301!\u0301"),
    ("zero-width characters", "a\u200bb \u200c\u200d c\ufeffd \u2060e"),
    ("emoji with joiners", "👩‍👩‍👧 and 👨🏽‍🚀, 🏳️‍🌈 ❤️ 👍🏿👍"),
    ("flags", "🇩🇪🇫🇷🇯🇵 🇩🇪 🇫"),
    ("combining accents", "cafe\u0301 nai\u0308ve e\u0301\u0302\u0303 \u0301 \u0301a"),
    ("composed accents", "café naïve Größe déjà vu"),
    ("Chinese and Japanese", "日本の本は中国的书。 中国 日本、カタカナ"),
    ("Arabic with marks", "السَّلَامُ عليكم، كيف حالك؟ ١٢٣"),
    ("Hebrew and Hindi", "שלום עולם नमस्ते दुनिया क्षि"),
    ("Thai and Korean", "สวัสดีชาวโลก 안녕하세요 한글"),
    ("Cyrillic", "Привет, мир! Дела'с мир"),
    ("digits", "1987 3.50 1,000,000 0x1F 12ab34 x86_64"),
    ("digits of other kinds", "½ ² ³ Ⅷ ٣ ५ ① 𝟘𝟙 x²"),
    ("letters beyond 16 bits", "𝒜𝓁𝓅𝒽𝒶 𐍈𐌰 𠜎𠜱"),
    ("letters of modifiers and titles", "ʰʲ ªº ǅ ǈ ˈ ˑ"),
    ("private, unassigned and last", "\ue000\uf8ff \ufffe\uffff \U0010ffff \u0378"),
    ("code", "for (int i = 0; i < 10; ++i) {\n\tsum += i; // ok\n}\n"),
    ("signs in a row", "!!!??? ((())) --- ... #$%&*+/=@^_`|~\\ \"'\"'"),
    ("the end of a text", "one<|endoftext|>two <|endoftext|>"),
    ("a letter again and again", "a" * 100 + " " + "la" * 50 + "ll" * 33),
    ("other signs again and again", "=" * 77 + " " * 33 + "\n" * 9 + "🙂" * 12),
    ("a long word", "".join(chr(97 + i * i % 26) for i in range(600))),
    ("a long word of known parts",
     "".join(random.Random(1).choices(training_text().split()[:120], k=200))),
]


def byte_characters():
    """GPT-2's character for each byte, in the order of GPT-2's tokens."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return ({byte: chr(byte) for byte in shown}
            | {byte: chr(256 + i) for i, byte in enumerate(hidden)})


def join_pair(parts, pair):
    joined = []
    for part in parts:
        if joined and (joined[-1], part) == pair:
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def learn_merges(text, count):
    """The most frequent pairs, one after the other; of equals, the first by name."""
    frequencies = collections.Counter(regex.findall(PATTERN, text))
    words = {word: [bytes([byte]) for byte in word.encode()] for word in frequencies}
    merges = []
    for _ in range(count):
        pairs = collections.Counter()
        for word, parts in words.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += frequencies[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {word: join_pair(parts, best) for word, parts in words.items()}
    return merges


def write_tokenizer(folder):
    characters = byte_characters()

    def written(token):
        return "".join(characters[byte] for byte in token)

    merges = learn_merges(training_text(), NUM_MERGES)
    tokens = [*characters.values(), *(written(a + b) for a, b in merges), END_OF_TEXT]
    assert len(set(tokens)) == len(tokens), "two merges make the same token"
    vocab = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(vocab) + "\n")
    lines = ["#version: 0.2", *(f"{written(a)} {written(b)}" for a, b in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_tokenizer(vocab_path, merges_path):
    """tiktoken with the tokens of the files."""
    byte_of = {character: byte for byte, character in byte_characters().items()}
    vocab = json.loads(pathlib.Path(vocab_path).read_text(encoding="utf-8"))
    ranks = {bytes(byte_of[character] for character in token): number
             for token, number in vocab.items() if token != END_OF_TEXT}
    # tiktoken has no list of merges: it takes the order of their tokens.
    lines = pathlib.Path(merges_path).read_text(encoding="utf-8").split("\n")
    merged = [vocab[line.replace(" ", "")]
              for line in lines if line and not line.startswith("#version")]
    assert merged == sorted(merged), "merges are in another order than their tokens"
    return tiktoken.Encoding("gpt2-files", pat_str=PATTERN, mergeable_ranks=ranks,
                             special_tokens={END_OF_TEXT: vocab[END_OF_TEXT]})


def write_golden(folder):
    encoding = read_tokenizer(folder / "vocab.json", folder / "merges.txt")
    cases = [json.dumps({"name": name, "text": text,
                         "tokens": encoding.encode_ordinary(text)})
             for name, text in AWKWARD]
    (folder / "golden.json").write_text("[\n" + ",\n".join(cases) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocab", help="vocab.json of a tokenizer to encode with")
    parser.add_argument("--merges", help="its merges.txt")
    parser.add_argument("path", type=pathlib.Path,
                        help="folder to write, or with --vocab a text to encode")
    given = parser.parse_args()
    if bool(given.vocab) != bool(given.merges):
        parser.error("--vocab and --merges go together")
    if given.vocab:
        text = given.path.read_bytes().decode()
        for token in read_tokenizer(given.vocab, given.merges).encode_ordinary(text):
            print(token)
        return
    given.path.mkdir(parents=True, exist_ok=True)
    write_tokenizer(given.path)
    write_golden(given.path)


if __name__ == "__main__":
    main()
