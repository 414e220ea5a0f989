"""router/feed_alarms.py: who serves and tells nothing is noticed."""

import pytest

from hearthkv.core.session_id import NodeId
from router.feed_alarms import ALARM_S, NOTHING, REPEAT_S, Feed, FeedAlarms, FeedJudged, FeedTrouble

A, B = NodeId("a"), NodeId("b")


def feed(said=1000, indexed=1000, *, unindexed=0, lag_s=0.0, untold_s=0.0) -> Feed:
    return Feed(lag_s, untold_s, said, indexed, unindexed)


WELL, SHORT = feed(), feed(indexed=0)


@pytest.mark.parametrize(
    ("told", "trouble"),
    [
        (WELL, None),
        (feed(lag_s=0.1), FeedTrouble.AWAITED),
        (feed(untold_s=0.1), FeedTrouble.MUTE),
        (feed(1000, 499), FeedTrouble.SHORT),
        (feed(1000, 500), None),
        (feed(1000, 0, unindexed=600), None),
        (feed(64, 0), None),
        (feed(65, 0), FeedTrouble.SHORT),
        (feed(0, 65), FeedTrouble.STALE),
        (feed(1000, 1501), FeedTrouble.STALE),
        (feed(1000, 900, unindexed=900), None),
    ],
)
def test_what_differs_much_is_amiss(told: Feed, trouble: FeedTrouble | None):
    assert told.trouble is trouble


def test_what_differs_for_a_while_is_raised_once_and_asked_about_again_and_again():
    alarms = FeedAlarms()
    assert alarms.judge(A, SHORT, 5.0) == NOTHING
    assert alarms.judge(A, SHORT, 5.0 + ALARM_S) == NOTHING
    assert sum(alarms.counts().values()) == 0
    raised = FeedJudged(is_raised=True, is_resync_due=True)
    assert alarms.judge(A, SHORT, 5.1 + ALARM_S) == raised
    assert alarms.counts()[FeedTrouble.SHORT] == 1
    assert alarms.judge(A, SHORT, 5.2 + ALARM_S) == NOTHING
    again = FeedJudged(is_resync_due=True)
    assert alarms.judge(A, SHORT, 5.2 + ALARM_S + REPEAT_S) == again


def test_what_heals_in_time_is_never_raised():
    alarms = FeedAlarms()
    alarms.judge(A, SHORT, 5.0)
    assert alarms.lag_s(9.0) == 4.0
    assert alarms.judge(A, WELL, 9.0) == NOTHING
    assert alarms.lag_s(9.0) == 0.0
    assert alarms.judge(A, SHORT, 6.0 + ALARM_S) == NOTHING


def test_the_end_of_an_alarm_is_told():
    alarms = FeedAlarms()
    alarms.judge(A, SHORT, 0.0)
    alarms.judge(A, SHORT, 1 + ALARM_S)
    assert alarms.judge(A, WELL, 2 + ALARM_S) == FeedJudged(is_ended=True)
    assert alarms.judge(A, WELL, 3 + ALARM_S) == NOTHING


def test_a_trouble_counts_from_its_beginning_and_another_one_anew():
    alarms = FeedAlarms()
    assert alarms.judge(A, feed(lag_s=ALARM_S + 1), 50.0).is_raised
    assert alarms.judge(A, SHORT, 51.0) == NOTHING
    assert alarms.counts()[FeedTrouble.SHORT] == 1
    assert alarms.judge(B, feed(lag_s=ALARM_S - 1), 50.0) == NOTHING
    assert alarms.judge(B, SHORT, 52.0) == NOTHING
    assert alarms.lag_s(52.0) == 13.0


def test_a_node_that_is_gone_has_no_trouble():
    alarms = FeedAlarms()
    alarms.judge(A, SHORT, 0.0)
    alarms.judge(A, SHORT, 1 + ALARM_S)
    assert alarms.forget(A)
    assert not alarms.forget(A)
    assert sum(alarms.counts().values()) == 0
