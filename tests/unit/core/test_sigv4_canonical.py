"""Canonical forms: the quick ways give what decoding and encoding again gives."""

from urllib.parse import parse_qsl, quote, quote_from_bytes, unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.sigv4.canonical import canonical_pairs, canonical_path, canonical_query

escapes = st.integers(0, 255).map(lambda byte: f"%{byte:02X}")
lower_escapes = st.integers(0, 255).map(lambda byte: f"%{byte:02x}")
pieces = st.lists(escapes | lower_escapes | st.sampled_from([*"aZ09-._~/+ &=!*'()%$", "%2", "ä"]), max_size=12)
raw = pieces.map("".join)


@given(raw)
def test_path_is_decoded_and_encoded_again_once(path):
    expected = quote_from_bytes(unquote_to_bytes(path.encode()), safe="/-._~").encode()
    assert canonical_path(path.encode()) == (expected or b"/")


@given(raw)
def test_canonical_path_stays_as_it_is(path):
    once = canonical_path(path.encode())
    assert canonical_path(once) == once


@given(raw)
def test_query_is_sorted_by_encoded_names_then_values(query):
    names = [(part.partition("=")[0], part.partition("=")[2]) for part in query.split("&") if part]
    expected = sorted(
        tuple(quote_from_bytes(unquote_to_bytes(text.replace("+", " ")), safe="~").encode() for text in pair)
        for pair in names
    )
    assert canonical_pairs(query.encode()) == expected


@given(st.lists(st.tuples(st.text(min_size=1, max_size=8), st.text(max_size=8)), max_size=5))
def test_query_keeps_every_name_and_value(pairs):
    wire = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    canonical = canonical_query(canonical_pairs(wire.encode())).decode()
    assert sorted(parse_qsl(canonical, keep_blank_values=True)) == sorted(pairs)
