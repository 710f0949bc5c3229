"""Supervision: what is known about the classes of groups of rows, as bounds on class totals.

`Totals` are the totals of bags, `match_bags` matches them with rows, and `diagnose` finds which
classes they can tell apart. `apportion.supervision.diary` turns diaries into bags and totals.
"""

from apportion.supervision.bags import Bags, match_bags
from apportion.supervision.diagnosis import Diagnosis, diagnose
from apportion.supervision.totals import Totals

__all__ = ["Bags", "Diagnosis", "Totals", "diagnose", "match_bags"]
