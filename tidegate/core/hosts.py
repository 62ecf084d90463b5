"""Trusted hosts: who may connect, by address, network or host name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tidegate.core.errors import InvalidInput, Unavailable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str], Iterable[str]]

_MAPPED = IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class TrustedHosts:
    """Without any entry everybody is trusted; a name that does not resolve trusts nobody."""

    networks: tuple[Network, ...]
    names: tuple[tuple[str, frozenset[Address]], ...]

    @classmethod
    def of(cls, entries: Iterable[str], resolve: Resolve) -> TrustedHosts:
        """`resolve` gives the addresses of a name, or raises `Unavailable` when nobody can tell now."""
        networks: list[Network] = []
        names: list[tuple[str, frozenset[Address]]] = []
        for entry in entries:
            network = _network(entry)
            if network is not None:
                networks.append(network)
            else:
                names.append((_checked_name(entry), frozenset()))
        return cls(tuple(networks), tuple(names)).resolved(resolve)

    def resolved(self, resolve: Resolve) -> TrustedHosts:
        """The same with the names resolved anew. A name that cannot be resolved now keeps its addresses."""
        names = []
        for name, addresses in self.names:
            try:
                found = frozenset(address for text in resolve(name) if (address := _address(text)) is not None)
            except Unavailable:
                found = addresses
            names.append((name, found))
        return TrustedHosts(self.networks, tuple(names))

    def allows(self, address: str) -> bool:
        if not self.networks and not self.names:
            return True
        peer = _address(address)
        if peer is None:
            return False
        return any(peer in network for network in self.networks) or any(peer in found for _, found in self.names)


def _address(text: str) -> Address | None:
    try:
        # A link-local peer comes with its interface (fe80::1%eth0), which is no part of the address.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _network(entry: str) -> Network | None:
    """The network of an address or network; None when the entry can only be a name."""
    text = entry.strip().removeprefix("[").removesuffix("]")
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        if "/" in text or ":" in text or text.replace(".", "").isdigit():
            raise InvalidInput(f"trusted host {entry!r} is neither an address, a network nor a host name") from None
        return None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        mapped = network.network_address.ipv4_mapped
        return IPv4Network((int(mapped or 0), network.prefixlen - 96))
    return network


def _checked_name(entry: str) -> str:
    name = entry.strip().lower().removesuffix(".")
    if not name or len(name) > 253 or any(character.isspace() for character in name):
        raise InvalidInput(f"trusted host {entry!r} is neither an address, a network nor a host name")
    return name
