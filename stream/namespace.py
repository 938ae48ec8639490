"""One space of names: which of the names that several sources tell mean the same thing, and what any other name means.

In: what each source tells (an own name for each thing, and its other names). Out: for any name the canonical names that
it may mean: none, one, or several that dispute it. Nothing here depends on the order in which anything was told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Set
from typing import NamedTuple

from stream.spellings import fold, host_label

Keys = Callable[[str], tuple[str, ...]]


class Told(NamedTuple):
    """What one source tells of one thing. A source "" names things without telling them apart, as a link does."""

    source: str
    name: str
    aliases: tuple[str, ...] = ()
    lag: str = ""


class Dispute(NamedTuple):
    """A name that several things claim: `claimed_by` are canonical names, in order."""

    name: str
    claimed_by: tuple[str, ...]


class Namespace:
    """Names of devices (`with_domains`: host and host.example.net may be one), or of the ports of one device.

    Two own names are one thing where one is another spelling of the other, or is told as an alias of it, or is the
    other with a domain; never where a source tells both, since that source tells them apart.
    """

    def __init__(self, told: Iterable[Told], told_keys: Keys, asked_keys: Keys, with_domains: bool = False) -> None:
        self._told_keys, self._asked_keys, self._with_domains = told_keys, asked_keys, with_domains
        self._sources: defaultdict[str, set[str]] = defaultdict(set)
        self._aliases: defaultdict[str, set[str]] = defaultdict(set)
        self._lags: defaultdict[str, set[str]] = defaultdict(set)
        for each in told:
            self._sources[each.name] |= {each.source} - {""}
            self._aliases[each.name].update(each.aliases)
            self._lags[each.name] |= {each.lag} - {""}
        self._by_key: defaultdict[str, set[str]] = defaultdict(set)
        self._bare: defaultdict[str, set[str]] = defaultdict(set)
        self._in_domain: defaultdict[str, set[str]] = defaultdict(set)
        for name in self._sources:
            self._index(name)
        self._canonical: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        for members in self._grouped():
            self._name_thing(sorted(members))

    def canonical(self, name: str) -> str | None:
        """The canonical name of the thing that has this own name, None if there is none."""
        return self._canonical.get(name)

    def things(self) -> list[str]:
        """All canonical names, in order."""
        return sorted(self._members)

    def own_names(self, canonical: str) -> list[str]:
        """The own names that sources tell of the thing with this canonical name, in order."""
        return self._members[canonical]

    def find(self, name: str) -> tuple[str, ...]:
        """The canonical names of all things that the name may mean, in order; an own name means that thing alone."""
        own = self._canonical.get(name)
        if own is not None:
            return (own,)
        return self._all_canonical(self._claimants(name) or self._by_domain(name))

    def lag_of(self, canonical: str) -> str:
        """The canonical name of the LAG that a thing is a member of, "" if of none or not known of which."""
        found = {lag for own in self._members[canonical] for text in self._lags[own] for lag in self.find(text)}
        found.discard(canonical)
        return found.pop() if len(found) == 1 else ""

    def disputes(self) -> list[Dispute]:
        """The names told that more than one thing claims, by name."""
        told = {text for own, aliases in self._aliases.items() for text in (own, *aliases)}
        found = []
        for text in sorted(told):
            claims = self._claimants(text) | ({text} & self._canonical.keys())
            if text in self._bare.get(host_label(text)[0], ()):
                claims |= self._domains_of(text)
            claimed_by = self._all_canonical(claims)
            if len(claimed_by) > 1:
                found.append(Dispute(text, claimed_by))
        return found

    def _index(self, name: str) -> None:
        for text in (name, *self._aliases[name]):
            for key in self._told_keys(text):
                self._by_key[key].add(name)
            label, has_domain = host_label(text) if self._with_domains else ("", False)
            if label:
                (self._in_domain if has_domain else self._bare)[label].add(name)

    def _all_canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({self._canonical[name] for name in names}))

    def _claimants(self, name: str) -> set[str]:
        """Own names of the things that have a name as their own or as an alias, in whatever spelling.

        A LAG bears the MAC address of a member: the name means the member, since no cable ends at a LAG.
        """
        claimants = {own for key in self._asked_keys(name) for own in self._by_key.get(key, ())}
        return (
            {own for own in claimants if not self._is_lag_of_any(own, claimants)} if len(claimants) > 1 else claimants
        )

    def _is_lag_of_any(self, own: str, others: Set[str]) -> bool:
        names = {fold(own), *map(fold, self._aliases[own])}
        return any(fold(lag) in names for other in others if other != own for lag in self._lags[other])

    def _domains_of(self, bare: str) -> Set[str]:
        """Own names of the things that are called so in a domain, none if the thing itself is known by a domain."""
        others = self._in_domain.get(host_label(bare)[0], set())
        return set() if bare in others else others

    def _by_domain(self, name: str) -> Set[str]:
        """Own names of the things that a name may mean if its domain is left out, or if one is added to it."""
        label, has_domain = host_label(name) if self._with_domains else ("", False)
        in_domain = self._in_domain.get(label, set())
        if not has_domain:
            return in_domain
        # What is known by another domain is another thing.
        elsewhere = {self._canonical[own] for own in in_domain}
        return {own for own in self._bare.get(label, ()) if self._canonical[own] not in elsewhere}

    def _told_apart(self, one: str, other: str) -> bool:
        return not self._sources[one].isdisjoint(self._sources[other])

    def _grouped(self) -> Collection[set[str]]:
        """The own names of each thing."""
        spelled = _Groups(self._sources)
        for key, names in self._by_key.items():
            same = [name for name in names if key in self._asked_keys(name)]
            if len(same) > 1 and self._no_source_tells_two(same):
                spelled.join(same)
        groups = spelled.copy()
        claims = {name: self._claims_on(name, spelled) for name in self._sources}
        # A name whose claims all come from one thing is that thing's. As things are joined several claims may turn out
        # to be one and never the other way round, so that whatever the order the same names end up joined.
        joined = True
        while joined:
            joined = False
            for name, claimants in claims.items():
                roots = {groups.root(claimant) for claimant in claimants}
                if len(roots) == 1 and groups.root(name) not in roots:
                    groups.join([name, *roots])
                    joined = True
        found: list[set[str]] = []
        for members in groups.all():
            if self._no_source_tells_two(members):
                found.append(members)
            else:
                found += {spelled.root(name): spelled.members(name) for name in members}.values()
        return found

    def _claims_on(self, name: str, spelled: _Groups) -> set[str]:
        """Own names of other things that are the same as an own name, by what sources tell or else by domains."""
        claims = {
            own
            for own in self._claimants(name)
            if spelled.root(own) != spelled.root(name) and not self._told_apart(own, name)
        }
        if claims or name not in self._bare.get(host_label(name)[0], ()):
            return claims
        return {own for own in self._domains_of(name) if own != name and not self._told_apart(own, name)}

    def _no_source_tells_two(self, names: Collection[str]) -> bool:
        return sum(len(self._sources[name]) for name in names) == len(
            {s for name in names for s in self._sources[name]}
        )

    def _name_thing(self, members: list[str]) -> None:
        """The canonical name is one that is told as no alias of the others, the shortest, the first by its letters."""
        others = {alias for member in members for alias in self._aliases[member] if alias != member}
        canonical = min([name for name in members if name not in others] or members, key=lambda name: (len(name), name))
        self._members[canonical] = members
        lags = {lag for member in members for lag in self._lags[member]}
        for member in members:
            self._canonical[member] = canonical
            self._lags[member] = lags


class _Groups:
    """Sets of names that grow together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def copy(self) -> _Groups:
        twin = _Groups(())
        twin._parent = dict(self._parent)
        return twin

    def root(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, names: Iterable[str]) -> None:
        roots = {self.root(name) for name in names}
        for root in roots:
            self._parent[root] = min(roots)

    def members(self, name: str) -> set[str]:
        return {other for other in self._parent if self.root(other) == self.root(name)}

    def all(self) -> Collection[set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for name in self._parent:
            found[self.root(name)].add(name)
        return found.values()
