"""Trusted hosts: addresses, networks and names, with mapped addresses compared as IPv4."""

import pytest

from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.hosts import TrustedHosts


def nobody(name):
    return ()


def trusted(*entries, resolve=nobody):
    return TrustedHosts.of(entries, resolve)


def test_without_entries_everybody_is_trusted():
    assert trusted().allows("203.0.113.9")
    assert trusted().allows("")


@pytest.mark.parametrize(
    ("entry", "peer", "verdict"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/8", "::ffff:10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "11.9.9.9", False),
        ("::1", "::1", True),
        ("[::1]", "0:0:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db8:1::5", True),
        ("2001:db8::/32", "2001:db9::5", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("::/0", "10.0.0.1", False),
        ("0.0.0.0/0", "::1", False),
        ("10.0.0.1", "", False),
        ("10.0.0.1", "not an address", False),
    ],
)
def test_address_is_compared_with_addresses_and_networks(entry, peer, verdict):
    assert trusted(entry).allows(peer) is verdict


def test_name_trusts_all_addresses_that_it_resolves_to():
    addresses = {"proxy.example": ("192.0.2.1", "::ffff:192.0.2.2", "2001:db8::1", "nonsense")}
    hosts = trusted("Proxy.Example.", resolve=lambda name: addresses[name])
    assert [hosts.allows(peer) for peer in ("192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.3")] == [1, 1, 1, 0]


def test_name_that_does_not_resolve_trusts_nobody():
    assert not trusted("gone.example").allows("192.0.2.1")


def test_name_resolved_anew_trusts_only_its_new_addresses():
    old = trusted("proxy.example", resolve=lambda name: ("192.0.2.1",))
    new = old.resolved(lambda name: ("192.0.2.2",))
    assert old.allows("192.0.2.1") and not old.allows("192.0.2.2")
    assert new.allows("192.0.2.2") and not new.allows("192.0.2.1")


def test_name_that_cannot_be_resolved_now_keeps_its_addresses():
    def fails(name):
        raise Unavailable("no name server answers")

    old = trusted("proxy.example", resolve=lambda name: ("192.0.2.1",))
    assert old.resolved(fails).allows("192.0.2.1")
    assert not trusted("proxy.example", resolve=fails).allows("192.0.2.1")


@pytest.mark.parametrize("entry", ["10.0.0.0/99", "300.1.1.1", "1:2:3", "", " ", "two words", "10.0.0.1/x", "a" * 254])
def test_entry_that_is_none_of_them_is_refused(entry):
    with pytest.raises(InvalidInput, match="trusted host"):
        trusted(entry)
