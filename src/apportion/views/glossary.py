"""The words of the method in plain English, one clause each: for the report and the console."""

from __future__ import annotations


def glossary(bag: str = "bag") -> dict[str, str]:
    """Return what the words mean that an analyst may not know.

    Parameters
    ----------
    bag : {"bag", "entry"}, default="bag"
        What a group of rows with known totals is called: a diary's groups are its entries.

    Examples
    --------
    >>> glossary("entry")["quota"]
    'every entry gets as many rows of each class as its totals say'
    """
    return {
        "bag": "a group of rows whose class totals were given",
        "entry": "what the diary says about one period, such as a day, and the rows recorded in it",
        "mass": "how much of a row belongs to a class, from 0 to 1, which ranks rows and is not a "
        "probability of being right",
        "confidence": "the mass of the label that the row got",
        "quota": f"every {bag} gets as many rows of each class as its totals say",
        "threshold": "every row gets the class of its largest mass, whatever the totals say",
        "off totals": f"rows that would have to change class for their {bag} to meet its totals",
        "information index": "how well the totals tell classes apart, from 0, where they stand in "
        f"the same ratio in every {bag}, to 1, where no {bag} has more than one of them",
        "rank": "the largest number of classes that the totals could tell apart",
        "energy": "what the method minimizes, the disagreement between similar rows",
        "stationarity": "how far soft labels would still move in one more step, relative to their "
        "size",
        "residual": f"the largest error in a total of the soft labels, relative to its {bag}'s "
        "size",
    }
