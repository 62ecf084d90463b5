"""Replayed events give what the bucket holds: versions, markers, uploads and tags."""

import random
from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from replayed_events import replay

from tidegate.core.events import Event, EventKind

ticks = count(1)


def event(operation, key="k", version_id="", **fields):
    values = {"ts_ns": next(ticks), "pool": "p", "bucket": "b", "bucket_uid": "u1", **fields}
    return Event(operation=EventKind(operation), key=key, version_id=version_id, **values)


def versions(events, key="k"):
    return [version.version_id for version in replay(events)["b"].versions.get(key, [])]


def test_put_replaces_the_object_of_a_bucket_without_versioning():
    objects = replay([event("put", etag="1", size=1), event("put", etag="2", size=5)])["b"].objects()
    assert [(key, version.etag, version.size) for key, version in objects.items()] == [("k", "2", 5)]


def test_delete_removes_the_object_of_a_bucket_without_versioning():
    state = replay([event("put"), event("delete")])["b"]
    assert state.versions == {}
    assert state.objects() == {}


def test_versions_pile_up_and_the_newest_is_current():
    history = [event("put", version_id="v1"), event("put", version_id="v2")]
    assert versions(history) == ["v2", "v1"]
    assert replay(history)["b"].objects()["k"].version_id == "v2"


def test_delete_marker_hides_the_object_and_its_removal_brings_it_back():
    history = [event("put", version_id="v1"), event("delete-marker", version_id="m1")]
    assert replay(history)["b"].objects() == {}
    assert versions(history) == ["m1", "v1"]
    history.append(event("delete", version_id="m1"))
    assert replay(history)["b"].objects()["k"].version_id == "v1"


def test_delete_of_the_current_version_uncovers_the_one_before():
    history = [event("put", version_id="v1"), event("put", version_id="v2"), event("delete", version_id="v2")]
    assert versions(history) == ["v1"]


def test_object_from_before_versioning_is_the_null_version():
    history = [event("put"), event("put", version_id="v1"), event("delete", version_id="null")]
    assert versions(history) == ["v1"]


def test_put_on_a_suspended_bucket_replaces_only_the_null_version():
    history = [event("put"), event("put", version_id="v1"), event("put", version_id="null", etag="new")]
    assert versions(history) == ["null", "v1"]
    assert replay(history)["b"].objects()["k"].etag == "new"


def test_marker_on_a_suspended_bucket_replaces_the_null_version():
    history = [event("put", version_id="v1"), event("put", version_id="null")]
    history.append(event("delete-marker", version_id="null"))
    assert versions(history) == ["null", "v1"]
    assert replay(history)["b"].objects() == {}


def test_a_move_changes_the_storage_class_of_its_version_and_nothing_else():
    history = [event("put", etag="1", size=3), event("put", version_id="v1"), event("put", version_id="v2")]
    before = replay(history)["b"].versions["k"]
    moved = [event("moved", version_id="v1", storage_class="COLD"), event("moved", storage_class="COLDER")]
    after = replay([*history, *moved])["b"].versions["k"]
    assert after == [before[0], replace(before[1], storage_class="COLD"), replace(before[2], storage_class="COLDER")]
    assert replay([event("moved", storage_class="COLD")])["b"].versions == {}


def test_uploads_stay_open_until_completed_or_aborted():
    started = [event("upload-started", key=name, upload_id=name) for name in ("one", "two", "three")]
    history = [*started, event("put", key="one", upload_id="one"), event("upload-aborted", key="two", upload_id="two")]
    state = replay(history)["b"]
    assert state.uploads == {"three": "three"}
    assert list(state.objects()) == ["one"]


def test_tags_come_with_a_put_and_change_with_tagging():
    history = [event("put", tags=(("a", "1"),)), event("tagging", tags=(("b", "2"),))]
    assert replay(history)["b"].objects()["k"].tags == (("b", "2"),)


def test_tagging_of_one_version_leaves_the_others_alone():
    history = [event("put", version_id="v1"), event("put", version_id="v2")]
    history.append(event("tagging", version_id="v1", tags=(("a", "1"),)))
    assert [version.tags for version in replay(history)["b"].versions["k"]] == [(), (("a", "1"),)]


def test_deleted_bucket_is_gone_and_one_made_anew_begins_empty():
    old = [event("bucket-created", key=""), event("put"), event("bucket-deleted", key="")]
    assert replay(old) == {}
    new = [event("bucket-created", key="", bucket_uid="u2", attributes=(("policy", "none"),))]
    state = replay([*old, *new])["b"]
    assert (state.uid, state.versions, state.attributes) == ("u2", {}, {"policy": "none"})


def test_put_with_an_earlier_clock_than_its_buckets_creation_counts():
    put = event("put")
    created = event("bucket-created", key="")
    assert list(replay([created, put])["b"].objects()) == ["k"]


def test_attributes_keep_their_latest_values():
    history = [event("bucket-attributes", key="", attributes=(("versioning", value),)) for value in "ab"]
    assert replay(history)["b"].attributes == {"versioning": "b"}


def test_listing_is_in_order_of_the_bytes_of_the_keys():
    names = ["\N{GRINNING FACE}", "\uffee", "b", "B", "a/b"]
    assert list(replay([event("put", key=name) for name in names])["b"].objects()) == [
        "B",
        "a/b",
        "b",
        "\uffee",
        names[0],
    ]


histories = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "delete-marker", "tagging", "upload-started", "upload-aborted"]),
        st.sampled_from(["k1", "k2"]),
        st.sampled_from(["", "null", "v1", "v2"]),
        st.sampled_from(["", "up1"]),
    ),
    max_size=20,
)


@given(histories, st.randoms(use_true_random=False))
def test_order_of_arrival_and_duplicates_make_no_difference(history, chance: random.Random):
    events = [
        event(operation, key, version, upload_id=upload, ts_ns=moment)
        for moment, (operation, key, version, upload) in enumerate(history)
    ]
    shuffled = events + [chance.choice(events) for _ in range(5) if events]
    chance.shuffle(shuffled)
    assert replay(shuffled) == replay(events)


class BucketModel(RuleBasedStateMachine):
    """A bucket that behaves as S3 does and journals as the gateway does; replaying the journal must give it back."""

    def __init__(self):
        super().__init__()
        self.versioning = ""
        self.content: dict[str, list[tuple[str, bool]]] = {}
        self.journal: list[Event] = []
        self.numbers = count(1)

    def record(self, operation, key, version_id):
        self.journal.append(event(operation, key, version_id, ts_ns=len(self.journal)))

    def add(self, key, *, is_marker):
        fresh = f"v{next(self.numbers)}" if self.versioning == "Enabled" else "null"
        kept = [version for version in self.content.get(key, []) if version[0] != fresh]
        self.content[key] = [(fresh, is_marker), *kept]
        shown = fresh if self.versioning else ""
        self.record("delete-marker" if is_marker else "put", key, shown)

    def drop(self, key, version_id, shown):
        left = [version for version in self.content.pop(key, []) if version[0] != version_id]
        if left:
            self.content[key] = left
        self.record("delete", key, shown)

    @rule(status=st.sampled_from(["Enabled", "Suspended"]))
    def set_versioning(self, status):
        self.versioning = status

    @rule(key=st.sampled_from("ab"))
    def put(self, key):
        self.add(key, is_marker=False)

    @rule(key=st.sampled_from("ab"))
    def delete(self, key):
        if self.versioning:
            self.add(key, is_marker=True)
        else:
            self.drop(key, "null", "")

    @rule(key=st.sampled_from("ab"), position=st.integers(0, 5))
    def delete_version(self, key, position):
        held = self.content.get(key, [])
        if position < len(held):
            version_id = held[position][0]
            self.drop(key, version_id, version_id)

    @invariant()
    def replay_gives_the_content(self):
        state = replay(self.journal).get("b")
        found = state.versions if state else {}
        assert {
            key: [(version.version_id, version.is_marker) for version in held] for key, held in found.items()
        } == self.content


TestBucketModel = BucketModel.TestCase
