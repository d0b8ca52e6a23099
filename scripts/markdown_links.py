"""Links and headings of Markdown pages, for scripts/links and scripts/book-chapters."""

import re
import unicodedata

FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[^\n]*\n.*?^\1\2`*[ \t]*$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`)(?:.|\n(?!\n))*?(?<!`)\1(?!`)")
COMMENT = re.compile(r"<!--.*?-->", re.S)
# `[text](target)`, where the text may hold one pair of brackets: an image, or a list's `[1]`.
LINK = re.compile(
    r"\[((?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]"
    r"\(\s*<?([^()\s<>]+(?:\([^()\s]*\))?)>?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[([^\]^]+)\]:\s+<?(\S+?)>?\s*$", re.M)
ATTRIBUTE = re.compile(r"""<(?:a|img)\s[^>]*?(?:href|src)=["']([^"']+)["']""")
IDENTIFIER = re.compile(r"""<\w+\s[^>]*?(?:id|name)=["']([^"']+)["']""")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$", re.M)


def blank(match):
    """Spaces of the same length: what stands behind keeps its place."""
    return re.sub(r"[^\n]", " ", match.group())


def without_code(text):
    for pattern in (FENCE, COMMENT):
        text = pattern.sub(blank, text)
    # A link's text may have code in it, and a heading may. So only brackets in code are taken away.
    return CODE.sub(lambda match: re.sub(r"[\[\]()<>]", " ", match.group()), text)


def links(text):
    r"""The place in the text and the target of each link.

    >>> page = '''[a](a.md#b), [`[x](no.md)`](b.md) `[c](no.md)` <img src="d.svg">
    ... ```sh
    ... [e](no.md)
    ... ```
    ... <!-- [f](no.md) --> [![g](g.svg)](h.md)
    ...
    ... [i]: i.md
    ... '''
    >>> [target for place, target in links(page) if page[place:].startswith(target)]
    ['a.md#b', 'b.md', 'd.svg', 'g.svg', 'h.md', 'i.md']
    """
    text = without_code(text)
    found = []
    for pattern in (LINK, DEFINITION):
        found += [(match.start(2), match.group(2)) for match in pattern.finditer(text)]
    for match in LINK.finditer(text):
        # An image that is a link's text.
        start, words = match.start(1), match.group(1)
        found += [(start + inner.start(2), inner.group(2)) for inner in LINK.finditer(words)]
    found += [(match.start(1), match.group(1)) for match in ATTRIBUTE.finditer(text)]
    return sorted(found)


def slug(heading):
    """The anchor that forges give a heading.

    >>> slug("`sync`, [and](x.md) what's_left: 1 – 2"), slug("Größe — 4 KiB")
    ('sync-and-whats_left-1--2', 'größe--4-kib')
    """
    heading = LINK.sub(r"\1", heading)
    heading = re.sub(r"[`*]", "", heading).strip().lower()
    kept = [letter for letter in heading
            if letter in " -_" or unicodedata.category(letter)[0] in "LNM"]
    return "".join(kept).replace(" ", "-")


def anchors(text):
    """Of headings and of HTML; a heading's second anchor has a number.

    >>> sorted(anchors("# A b\\n```\\n# no\\n```\\n## A b ##\\n<a id='c'></a>"))
    ['a-b', 'a-b-1', 'c']
    """
    text = COMMENT.sub(blank, FENCE.sub(blank, text))
    found, seen = set(IDENTIFIER.findall(text)), {}
    for heading in HEADING.findall(text):
        name = slug(heading)
        times = seen.get(name, 0)
        seen[name] = times + 1
        found.add(f"{name}-{times}" if times else name)
    return found
